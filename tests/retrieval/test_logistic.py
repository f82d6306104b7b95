import numpy as np
import pytest
from scipy.special import expit

from retrieval.logistic import FOLDS, fit, held_out_accuracy, held_out_probabilities


def test_the_fit_has_no_slope_left() -> None:
    chance = np.random.default_rng(0)
    features, labels = chance.normal(size=(60, 3)), chance.random(60) < 0.4
    *weights, intercept = fit(features, labels)
    left = expit(features @ np.array(weights) + intercept) - labels
    assert left.sum() == pytest.approx(0, abs=1e-3)
    assert features.T @ left == pytest.approx(-np.array(weights), abs=1e-3)


def test_groups_are_not_learned_by_heart() -> None:
    """Labels that only the group tells are guessed; labels that a feature tells are known."""
    chance = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 5)
    of_group = chance.normal(size=(60, 40))[groups]
    labels = (chance.random(60) < 0.5)[groups]
    blind = held_out_accuracy(of_group, labels, groups)
    assert blind is not None
    assert blind.low < 60
    told = of_group.copy()
    told[:, 0] = labels + 0.1 * chance.normal(size=len(labels))
    seeing = held_out_accuracy(told, labels, groups)
    assert seeing is not None
    assert seeing.low > 80
    order = chance.permutation(len(labels))
    shuffled = held_out_probabilities(told[order], labels[order], groups[order])
    straight = held_out_probabilities(told, labels, groups)[order]
    assert shuffled == pytest.approx(straight, abs=1e-3)


def test_too_little_is_not_measured() -> None:
    features, labels = np.ones((20, 1)), np.arange(20) < FOLDS - 1
    assert held_out_accuracy(features, labels, np.arange(20)) is None
    assert held_out_accuracy(features, np.arange(20) < 10, np.arange(20) % 4) is None
