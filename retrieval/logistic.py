"""How often logistic regression is right about groups that it was not fitted on.

It says whether vectors of edited images differ from those of found ones.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.contrastive import ContrastiveSamples, Rows
from loupe.retrieval.ranking import SEED, Floats, Interval, bootstrap_means
from loupe.schemas.release import MethodGuess

FOLDS = 5
"""Also the fewest groups, and the fewest samples of each label, that are measured on."""

Labels = NDArray[np.bool_]


def held_out_probabilities(features: Floats, labels: Labels, groups: ArrayLike) -> Floats:
    """The probability that each label is true, of shape (n,), fitted without the sample's group.

    Cross-validation in `FOLDS` parts; features are standardised by those that are fitted on.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    _, group_of = np.unique(np.asarray(groups), return_inverse=True)
    fold_of = (np.random.default_rng(SEED).permutation(group_of.max() + 1) % FOLDS)[group_of]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    parts = PredefinedSplit(fold_of)
    found = cross_val_predict(model, features, labels, cv=parts, method="predict_proba")
    probabilities: Floats = found[:, 1]
    return probabilities


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
