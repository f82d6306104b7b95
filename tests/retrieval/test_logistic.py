import numpy as np
import pytest

from loupe.retrieval.logistic import FOLDS, held_out_accuracy, held_out_probabilities


def test_groups_do_not_leak_between_folds() -> None:
    """Labels that depend only on the group are not predicted; labels given by a feature are."""
    chance = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 5)
    of_group = chance.normal(size=(60, 40))[groups]
    labels = (chance.random(60) < 0.5)[groups]
    without_signal = held_out_accuracy(of_group, labels, groups)
    assert without_signal is not None
    assert without_signal.low < 60
    informative = of_group.copy()
    informative[:, 0] = labels + 0.1 * chance.normal(size=len(labels))
    with_signal = held_out_accuracy(informative, labels, groups)
    assert with_signal is not None
    assert with_signal.low > 80
    order = chance.permutation(len(labels))
    shuffled = held_out_probabilities(informative[order], labels[order], groups[order])
    straight = held_out_probabilities(informative, labels, groups)[order]
    assert shuffled == pytest.approx(straight, abs=1e-3)


def test_too_few_labels_or_groups_give_no_accuracy() -> None:
    features, labels = np.ones((20, 1)), np.arange(20) < FOLDS - 1
    assert held_out_accuracy(features, labels, np.arange(20)) is None
    assert held_out_accuracy(features, np.arange(20) < 10, np.arange(20) % 4) is None
