"""Logistic regression, and how often it is right about groups that it was not fitted on."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrieval.ranking import SEED, Floats, Interval, bootstrap_means

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
