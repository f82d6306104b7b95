"""Logistic regression, and how often it is right about groups that it was not fitted on.

It estimates the errors of annotators, and whether edited images differ from found ones.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.contrastive import ContrastiveSamples, Rows
from loupe.retrieval.ranking import SEED, Floats, Interval, bootstrap_means
from loupe.schemas.release import MethodGuess

FOLDS = 5
"""Also the fewest groups, and the fewest samples of each label, that are measured on."""

Labels = NDArray[np.bool_]


def fit(features: Floats, labels: Labels) -> Floats:
    """The d weights, and the intercept, of a ridge-penalised model (scikit-learn's, with C = 1).

    Args:
        features: of shape (n, d), of comparable scale.
        labels: of shape (n,).
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    signs = np.where(labels, 1.0, -1.0)
    padded = np.column_stack([features, np.ones(len(features))])
    penalty = np.append(np.ones(features.shape[1]), 0.0)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = signs * (padded @ weights)
        slope = penalty * weights - padded.T @ (signs * expit(-margins))
        return float(np.logaddexp(0, -margins).sum() + penalty @ weights**2 / 2), slope

    weights: Floats = minimize(loss, np.zeros(len(penalty)), jac=True, method="L-BFGS-B").x
    return weights


def predicted(features: Floats, labels: Labels, others: Floats) -> Floats:
    """The probability that the label of each of `others` is true, of shape (m,).

    Features are standardised by those that are fitted on.
    """
    from scipy.special import expit

    mean, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    *weights, intercept = fit((features - mean) / scale, labels)
    found: Floats = expit((others - mean) / scale @ np.array(weights) + intercept)
    return found


def held_out_probabilities(features: Floats, labels: Labels, groups: ArrayLike) -> Floats:
    """The probability that each label is true, of shape (n,), fitted without the sample's group.

    Cross-validation in `FOLDS` parts.
    """
    _, group_of = np.unique(np.asarray(groups), return_inverse=True)
    fold_of = (np.random.default_rng(SEED).permutation(group_of.max() + 1) % FOLDS)[group_of]
    found = np.empty(len(labels))
    for fold in np.unique(fold_of):
        fitted = fold_of != fold
        found[~fitted] = predicted(features[fitted], labels[fitted], features[~fitted])
    return found


def held_out_accuracy(features: Floats, labels: Labels, groups: ArrayLike) -> Interval | None:
    """The percentage of labels that are predicted without the sample's group.

    The interval is over groups. None if there are too few groups, or samples of one label.
    """
    fewest = min(labels.sum(), (~labels).sum(), len(np.unique(np.asarray(groups))))
    if fewest < FOLDS:
        return None
    right = (held_out_probabilities(features, labels, groups) > 1 / 2) == labels
    return bootstrap_means({"accuracy": 100.0 * right}, groups)["accuracy"]


def guess_methods(images: Rows, samples: ContrastiveSamples) -> MethodGuess | None:
    """How well a classifier tells edited from found images; None if too few of one are known."""
    methods = samples.methods or (None,) * len(samples)
    places = np.array([at for at in samples.contrastive if methods[at]], dtype=np.int64)
    is_edited = np.array([methods[at] == "edit" for at in places], dtype=np.bool_)
    anchors = samples.anchors[places]
    own, of_anchors = (
        held_out_accuracy(images[rows].astype(np.float64), is_edited, anchors)
        for rows in (places, anchors)
    )
    if own is None or of_anchors is None:
        return None
    most_frequent = 100 * max(is_edited.mean(), 1 - is_edited.mean())
    rounded = (round(float(one), 1) for one in (*own, of_anchors.value, most_frequent))
    names = ("accuracy", "low", "high", "of_anchors", "most_frequent")
    return MethodGuess(images=len(places), **dict(zip(names, rounded, strict=True)))
