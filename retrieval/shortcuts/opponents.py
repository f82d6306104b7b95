"""Opponents that are trained, by cross-validation over groups, to answer without the content.

Three forms of question: which member of a group is wanted (the original among its edits), which of
two members something belongs to, and which class an item has (the source that a caption is about).
Under chance, every member of a group is wanted equally often, and classes are independent of the
features; p-values are from permutations. Features and scores are rounded, so that the last digits
of a processor's arithmetic decide nothing.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.ranking import SEED, Floats, bootstrap_means
from loupe.schemas.shortcuts import (
    FEWEST_GROUPS,
    BlindResult,
    ShortcutMetric,
    ShortcutQuestion,
)

FOLDS = 5
_PERMUTATIONS = 9_999
_MOST_WORDS = 1_024
_WORD = re.compile(r"\w+")
_SHOWN_FEATURES = 3
_DIGITS = 6  # of features
_DECIMALS = 4  # of scores and weights

Ids = NDArray[np.intp]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Evidence:
    """What one opponent sees: features of shape (n, d), and their names if they have some."""

    opponent: str
    values: Floats
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, opponent: str, rows: Sequence[dict[str, float]]) -> "Evidence":
        """Return evidence of named numbers, the same names in each row."""
        names = tuple(rows[0]) if rows else ()
        values = np.array([[_rounded(row[name]) for name in names] for row in rows])
        return cls(opponent, values, names)

    @classmethod
    def of_words(cls, opponent: str, texts: Sequence[str]) -> "Evidence":
        """Return evidence of the words, and pairs of words, that are the most frequent."""
        from sklearn.feature_extraction.text import CountVectorizer

        counting = CountVectorizer(tokenizer=_WORD.findall, token_pattern=None, ngram_range=(1, 2))
        words_of = counting.build_analyzer()
        counts = Counter[str]()
        for text in texts:
            counts.update(set(words_of(text)))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:_MOST_WORDS]
        known = CountVectorizer(analyzer=words_of, vocabulary=frequent, binary=True)
        values = known.transform(texts).toarray().astype(np.float64)
        return cls(opponent, values, tuple(map(repr, frequent)))


def find_wanted(
    question: ShortcutQuestion, evidence: Evidence, groups: ArrayLike, is_wanted: Flags
) -> BlindResult | None:
    """Return how often an opponent finds the one wanted member of each group (R@1 within it).

    Args:
        question: what is asked.
        evidence: features of shape (n, d); only differences within a group count.
        groups: the group of each member, of shape (n,); groups of one are left out.
        is_wanted: whether a member is the wanted one of its group, of shape (n,).

    Returns:
        None if there are fewer than `FEWEST_GROUPS` groups.
    """
    found = _scored(evidence, groups, is_wanted)
    if found is None:
        return None
    right = _share_of_wanted(found.scores, found.wanted, found.group_of, found.sizes)
    p_value = _p_of_choices(found.scores, found.group_of, found.sizes, float(right.sum()))
    return _result(
        question,
        "R@1",
        evidence,
        right,
        np.arange(len(found.sizes)),
        chance=100 * float((1 / found.sizes).mean()),
        p_value=p_value,
        weights=found.weights,
    )


def match_pairs(
    first: Evidence, second: Evidence, groups: ArrayLike, is_wanted: Flags
) -> BlindResult | None:
    """Return how often two opponents match members of a group without seeing both (FG-CDA).

    One of them says how much an image looks like the original of its group, the other how much a
    caption reads like its captions. What looks like the original goes with what reads like it.

    Args:
        first: features of the images, of shape (n, d).
        second: features of their captions, of shape (n, e).
        groups: the group of each member, of shape (n,).
        is_wanted: whether a member is the original of its group, of shape (n,).

    Returns:
        None if there are fewer than `FEWEST_GROUPS` groups.
    """
    images, captions = (_scored(one, groups, is_wanted) for one in (first, second))
    if images is None or captions is None:
        return None
    others = np.flatnonzero(~images.wanted)
    originals = np.empty(len(images.sizes), dtype=np.intp)
    originals[images.group_of[images.wanted]] = np.flatnonzero(images.wanted)
    original = originals[images.group_of[others]]
    agree = np.sign(images.scores[original] - images.scores[others]) * np.sign(
        captions.scores[original] - captions.scores[others]
    )
    right = (agree + 1) / 2
    gains = np.zeros(len(images.sizes))
    np.add.at(gains, images.group_of[others], right - 0.5)
    names = Evidence(f"{first.opponent} and {second.opponent}", first.values)
    return _result(
        "matching pair",
        "FG-CDA",
        names,
        right,
        images.group_of[others],
        chance=50.0,
        p_value=_p_of_signs(gains),
        weights=images.weights,
    )


class _Scores(NamedTuple):
    """Held-out scores of members of groups with several members, and the sums of weights."""

    scores: Floats
    wanted: Flags
    group_of: Ids
    sizes: Ids
    weights: Floats


def _scored(evidence: Evidence, groups: ArrayLike, is_wanted: Flags) -> _Scores | None:
    group_of, sizes = _numbered(groups)
    asked = sizes[group_of] > 1
    group_of, sizes = _numbered(group_of[asked])
    if len(sizes) < FEWEST_GROUPS:
        return None
    wanted = is_wanted[asked]
    values = _within_groups(evidence.values[asked], group_of, sizes)
    scores = np.empty(len(wanted))
    weights = np.zeros(values.shape[1])
    for fitted, held_out in _folds(values, group_of):
        model = _classifier().fit(values[fitted], wanted[fitted])
        scores[held_out] = model.decision_function(values[held_out])
        weights += np.abs(model[-1].coef_[0])
    return _Scores(np.round(scores, _DECIMALS), wanted, group_of, sizes, weights)


def tell_class(
    question: ShortcutQuestion, evidence: Evidence, groups: ArrayLike, classes: Sequence[str]
) -> BlindResult | None:
    """Return how often an opponent tells the class of an item.

    Args:
        question: what is asked.
        evidence: features of shape (n, d).
        groups: what is held out together, such as the identity of a caption, of shape (n,).
        classes: the class of each item, the same in each group.

    Returns:
        None if there is one class only, or one with fewer than `FEWEST_GROUPS` groups.
    """
    group_of, sizes = _numbered(groups)
    names, class_of = np.unique(np.asarray(classes), return_inverse=True)
    first_of_group = np.unique(group_of, return_index=True)[1]
    class_of_group = class_of[first_of_group]
    if len(sizes) < FEWEST_GROUPS or len(names) < 2:
        return None
    if np.bincount(class_of_group).min() < FEWEST_GROUPS:
        return None
    predicted = np.empty(len(class_of), dtype=np.intp)
    weights = np.zeros(evidence.values.shape[1])
    for fitted, held_out in _folds(evidence.values, group_of):
        model = _classifier(None).fit(evidence.values[fitted], class_of[fitted])
        predicted[held_out] = model.predict(evidence.values[held_out])
        weights += np.abs(model[-1].coef_).mean(axis=0)
    right = (predicted == class_of).astype(np.float64)
    return _result(
        question,
        "accuracy",
        evidence,
        right,
        group_of,
        chance=100 * float(np.bincount(class_of).max() / len(class_of)),
        p_value=_p_of_classes(predicted, group_of, class_of_group, float(right.sum())),
        weights=weights,
    )


def corrected(results: Sequence[BlindResult]) -> tuple[BlindResult, ...]:
    """Return the results with p-values for all of them together (Bonferroni)."""
    tests = len(results)
    return tuple(
        one.model_copy(update={"p_value": min(1.0, one.p_value * tests)}) for one in results
    )


def _classifier(class_weight: str | None = "balanced") -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = LogisticRegression(C=0.1, class_weight=class_weight, max_iter=1_000)
    return make_pipeline(StandardScaler(), model)


def _folds(values: Floats, group_of: Ids) -> list[tuple[Ids, Ids]]:
    from sklearn.model_selection import GroupKFold

    splitter = GroupKFold(FOLDS, shuffle=True, random_state=SEED)
    return list(splitter.split(values, groups=group_of))


def _numbered(groups: ArrayLike) -> tuple[Ids, Ids]:
    """Return the number of each item's group, and the size of each group."""
    _, group_of, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return group_of, sizes


def _within_groups(values: Floats, group_of: Ids, sizes: Ids) -> Floats:
    """Return the features less the mean of their group."""
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, group_of, values)
    centred: Floats = values - (sums / sizes[:, None])[group_of]
    return centred


def _is_best(scores: Floats, group_of: Ids, sizes: Ids) -> tuple[Flags, Ids]:
    """Return which members have the highest score of their group, and how many share it."""
    highest = np.full(len(sizes), -np.inf)
    np.maximum.at(highest, group_of, scores)
    is_best = np.isclose(scores, highest[group_of], rtol=0, atol=1e-9)
    return is_best, np.bincount(group_of[is_best], minlength=len(sizes))


def _share_of_wanted(scores: Floats, wanted: Flags, group_of: Ids, sizes: Ids) -> Floats:
    """Return for each group how probably the wanted member is chosen; ties are drawn."""
    is_best, sharing = _is_best(scores, group_of, sizes)
    right = np.zeros(len(sizes))
    chosen = is_best & wanted
    right[group_of[chosen]] = 1 / sharing[group_of[chosen]]
    return right


def _p_of_choices(scores: Floats, group_of: Ids, sizes: Ids, right: float) -> float:
    """Return how often as many are right if any member of a group is wanted equally often."""
    _, sharing = _is_best(scores, group_of, sizes)
    random = np.random.default_rng(SEED)
    as_good = 0
    for _ in range(_PERMUTATIONS):
        is_found = random.random(len(sizes)) < sharing / sizes
        as_good += float((is_found / sharing).sum()) >= right - 1e-9
    return (as_good + 1) / (_PERMUTATIONS + 1)


def _p_of_classes(predicted: Ids, group_of: Ids, class_of_group: Ids, right: float) -> float:
    """Return how often as many are right if classes are exchanged between groups."""
    groups, classes = len(class_of_group), int(class_of_group.max()) + 1
    counts = np.zeros((groups, classes))  # items of each group, by predicted class
    np.add.at(counts, (group_of, predicted), 1)
    random = np.random.default_rng(SEED)
    places = np.arange(groups)
    as_good = 0
    for _ in range(_PERMUTATIONS):
        exchanged = random.permutation(class_of_group)
        as_good += counts[places, exchanged].sum() >= right - 1e-9
    return (as_good + 1) / (_PERMUTATIONS + 1)


def _p_of_signs(gains: Floats) -> float:
    """Return how often the sum of gains is as great if each group's is as often lost as won."""
    random = np.random.default_rng(SEED)
    signs = random.integers(0, 2, (_PERMUTATIONS, len(gains)), dtype=np.int8) * 2 - 1
    as_good = int((signs @ gains >= gains.sum() - 1e-9).sum())
    return (as_good + 1) / (_PERMUTATIONS + 1)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _result(
    question: ShortcutQuestion,
    metric: ShortcutMetric,
    evidence: Evidence,
    right: Floats,
    groups: ArrayLike,
    *,
    chance: float,
    p_value: float,
    weights: Floats,
) -> BlindResult:
    interval = bootstrap_means({"right": 100 * right}, groups)["right"]
    strongest = np.argsort(-np.round(weights, _DECIMALS), kind="stable")[:_SHOWN_FEATURES]
    return BlindResult(
        question=question,
        opponent=evidence.opponent,
        metric=metric,
        questions=len(right),
        right=round(interval.value, 1),
        low=round(interval.low, 1),
        high=round(interval.high, 1),
        chance=round(chance, 1),
        p_value=p_value,
        used=tuple(evidence.names[at] for at in strongest) if evidence.names else (),
    )
