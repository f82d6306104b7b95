"""Inter-annotator agreement on choices and texts, with intervals."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from loupe.annotate.answers import ReviewAnswer
from loupe.retrieval.ranking import REPLICATES, SEED, TAILS, resampled
from loupe.schemas.base import Record
from loupe.schemas.quality import wilson_interval

# 95 % intervals for shares and for statistics over items. A figure that cannot be computed has a
# reason instead.

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Estimate(Record):
    """A figure over `items` items, with its interval from `low` to `high`.

    If `value` is None, `reason` says why; if only the interval is missing, why that is.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    items: int = 0
    reason: str = ""


class Share(Record):
    """`count` of `of`, as a share from 0 to 1 with its Wilson interval; None if `of` is 0."""

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{100 * (self.value or 0):.0f} % of {self.of:,}"


def share(count: int, of: int) -> Share:
    """Return `count / of` with its 95 % score interval."""
    low, high = wilson_interval(count, of) if of else (None, None)
    return Share(count=count, of=of, value=count / of if of else None, low=low, high=high)


def estimate(counts: IntArray, statistic: Callable[[FloatArray], FloatArray]) -> Estimate:
    """Return a figure over all items with its interval from a bootstrap over items.

    Items are resampled `REPLICATES` times with replacement; the interval contains the middle 95 %
    of the values. Items with the same pattern are drawn together, as a multinomial count.
    Replicates in which the statistic is not defined (all answers are the same) are left out.

    Args:
        counts: the number of items of each pattern, of shape (patterns,).
        statistic: returns the figure, of shape (replicates,), for weights of the patterns, of shape
            (replicates, patterns); NaN where it is not defined.
    """
    items = int(counts.sum())
    value = float(statistic(counts[None].astype(np.float64))[0])
    if items < 2:
        return Estimate(value=value, items=items, reason="a single item has no variance")
    drawn = resampled(counts, statistic, REPLICATES, SEED)
    drawn = drawn[~np.isnan(drawn)]
    if 2 * len(drawn) < REPLICATES:
        reason = "most bootstrap samples of so few items have a single category"
        return Estimate(value=value, items=items, reason=reason)
    low, high = np.percentile(drawn, TAILS)
    return Estimate(value=value, low=float(low), high=float(high), items=items)


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return `above / below`; NaN if `below` is zero up to rounding."""
    defined = below > 1e-12
    result = np.full(np.shape(below), np.nan)
    np.divide(above, below, out=result, where=defined)
    return result


# Agreement on choices and on texts.
#
# Each figure has a bootstrap interval over items, or is None with a reason. The order of items and
# the names of categories and annotators do not matter.
#
# If a control allows several choices, their set is one category. An annotator who did not see a
# control (the reason of a rejection, after accepting) has not rated the item in it.
#
# The coefficients are computed here, for many bootstrap replicates at once, and only tested against
# statsmodels (Cohen, Fleiss) and NLTK (Krippendorff), whose imports take longer than most commands.

Category = tuple[str, ...]
Fact = tuple[Hashable, Hashable, Hashable]
"""A subject, an attribute of it, and the value."""
Facts = Callable[[str], frozenset[Fact]]
"""Returns the facts that a text states, with equal values for equal facts."""

P = TypeVar("P", str, Category)
K = TypeVar("K", bound=Hashable)
_Pairs = tuple[tuple[Category, Category], ...]

_NO_OVERLAP = "no item was answered by two people"


class ItemAnswers(NamedTuple):
    """The answers of the annotators to one item."""

    entity_id: str
    answers: Mapping[str, ReviewAnswer]


class ChoiceAgreement(Record):
    """Agreement in one control with choices.

    Attributes:
        control: its name on the page.
        observed: the share of pairs of equal answers, from 0 to 1, as a mean over items.
        cohen: Cohen's kappa (1960), if exactly two annotators share items; of one annotator, over
            all pairs of that annotator's answer and another's.
        fleiss: Fleiss' kappa (1971), over the items with the commonest number of answers; not of
            one annotator.
        krippendorff: Krippendorff's alpha for nominal data, over all items with two or more
            answers; not of one annotator.
    """

    control: str
    observed: Estimate
    cohen: Estimate
    fleiss: Estimate = Estimate()
    krippendorff: Estimate = Estimate()


class TextAgreement(Record):
    """Agreement in one control with text, as a mean over items of the mean over pairs.

    Attributes:
        control: its name on the page.
        similarity: 1 − Levenshtein distance / length of the longer text, 0 to 1.
        attributes: the share of facts stated by both texts among those stated by either, 0 to 1.
    """

    control: str
    similarity: Estimate
    attributes: Estimate


class Agreement(Record):
    """Agreement in all controls of a page, over `items` items with two or more answers."""

    items: int
    choices: tuple[ChoiceAgreement, ...]
    texts: tuple[TextAgreement, ...]

    @property
    def main(self) -> ChoiceAgreement | None:
        """Agreement on the verdict, or on the first control with choices if there is no verdict."""
        verdicts = (choice for choice in self.choices if choice.control == "verdict")
        return next(verdicts, self.choices[0] if self.choices else None)


def agreement(
    items: Iterable[ItemAnswers], facts: Facts | None = None, annotator: str | None = None
) -> Agreement:
    """Compute the agreement of the annotators of a queue.

    Args:
        items: the answers to each item.
        facts: extracts the facts of texts.
        annotator: compute only the agreement of this annotator with all others, over the items that
            they share.
    """

    def is_shared(item: ItemAnswers) -> bool:
        return len(item.answers) > 1 and (annotator is None or annotator in item.answers)

    shared = sorted(filter(is_shared, items), key=lambda item: item.entity_id)
    chosen = _values_by_control(shared, _categories)
    written = _values_by_control(shared, lambda answer: answer.texts)
    choices = [_choice_agreement(name, rated, annotator) for name, rated in chosen.items()]
    texts = [_text_agreement(name, given, annotator, facts) for name, given in written.items()]
    return Agreement(items=len(shared), choices=tuple(choices), texts=tuple(texts))


def _categories(answer: ReviewAnswer) -> dict[str, Category]:
    return {control: tuple(sorted(set(chosen))) for control, chosen in answer.choices.items()}


def _values_by_control(
    items: Iterable[ItemAnswers], of: Callable[[ReviewAnswer], Mapping[str, P]]
) -> dict[str, list[dict[str, P]]]:
    """Return, per control, the annotators' values for each item with two or more values."""
    found: dict[str, list[dict[str, P]]] = {}
    for item in items:
        by_control: dict[str, dict[str, P]] = defaultdict(dict)
        for annotator, answer in item.answers.items():
            for control, value in of(answer).items():
                by_control[control][annotator] = value
        for control, values in by_control.items():
            found.setdefault(control, []).extend([values] if len(values) > 1 else [])
    return dict(sorted(found.items()))


def _choice_agreement(
    control: str, rated: Sequence[Mapping[str, Category]], annotator: str | None
) -> ChoiceAgreement:
    pairs = _pairs_of(rated, annotator)
    observed = _mean([fmean(one == other for one, other in of_item) for of_item in pairs])
    if annotator is not None:
        return ChoiceAgreement(control=control, observed=observed, cohen=_cohen(pairs))
    categories = [tuple(sorted(ratings.values())) for ratings in rated]
    return ChoiceAgreement(
        control=control,
        observed=observed,
        cohen=_cohen_of_two(rated),
        fleiss=_fleiss(categories),
        krippendorff=_krippendorff(categories),
    )


def _pairs_of(
    items: Iterable[Mapping[str, P]], annotator: str | None
) -> list[tuple[tuple[P, P], ...]]:
    """Return the pairs of values of each item: all, or an annotator's with each other's."""
    if annotator is None:
        return [tuple(combinations(sorted(given.values()), 2)) for given in items]
    pairs = []
    for given in items:
        if annotator in given:
            others = [other for other in sorted(given) if other != annotator]
            pairs.append(tuple((given[annotator], given[other]) for other in others))
    return pairs


def _cohen_of_two(rated: Sequence[Mapping[str, Category]]) -> Estimate:
    annotators = sorted({annotator for ratings in rated for annotator in ratings})
    if len(annotators) > 2:
        reason = f"defined for two annotators only; {len(annotators)} share items"
        return Estimate(items=len(rated), reason=reason)
    return _cohen([((ratings[annotators[0]], ratings[annotators[1]]),) for ratings in rated])


def _cohen(items: Sequence[_Pairs]) -> Estimate:
    """Return Cohen's kappa over all pairs of all items; undefined if one side never varies."""
    kinds = _numbered(category for pairs in items for pair in pairs for category in pair)
    if problem := _undefined(len(items), kinds):
        return problem
    patterns, counts = _distinct(tuple(sorted(pairs)) for pairs in items)
    left, right = np.zeros((2, len(patterns), len(kinds)))
    equal = np.zeros(len(patterns))
    for number, pairs in enumerate(patterns):
        for one, other in pairs:
            left[number, kinds[one]] += 1
            right[number, kinds[other]] += 1
            equal[number] += one == other
    if 1 in (np.count_nonzero(counts @ left), np.count_nonzero(counts @ right)):
        return Estimate(items=len(items), reason="one side always chose the same")

    def kappa(weights: FloatArray) -> FloatArray:
        lefts, rights = weights @ left, weights @ right
        pairs = lefts.sum(axis=1)
        expected = (lefts * rights).sum(axis=1) / pairs**2
        return ratio(weights @ equal / pairs - expected, 1 - expected)

    return estimate(counts, kappa)


def _fleiss(items: Sequence[Sequence[Category]]) -> Estimate:
    """Return Fleiss' kappa over the items with the commonest number of ratings.

    If two numbers are equally common, the larger one is used.
    """
    sizes = Counter(map(len, items))
    size = max(sizes, key=lambda number: (sizes[number], number), default=0)
    chosen = [tuple(item) for item in items if len(item) == size]
    kinds = _numbered(category for item in chosen for category in item)
    if problem := _undefined(len(chosen), kinds):
        return problem
    ratings, counts = _rating_counts(chosen, kinds)
    equal = ((ratings**2).sum(axis=1) - size) / (size * (size - 1))

    def kappa(weights: FloatArray) -> FloatArray:
        rated = weights.sum(axis=1)
        shares = weights @ ratings / (rated[:, None] * size)
        expected = (shares**2).sum(axis=1)
        return ratio(weights @ equal / rated - expected, 1 - expected)

    return estimate(counts, kappa)


def _krippendorff(items: Sequence[Sequence[Category]]) -> Estimate:
    """Return Krippendorff's alpha for nominal data; items may have different numbers of ratings."""
    kinds = _numbered(category for item in items for category in item)
    if problem := _undefined(len(items), kinds):
        return problem
    ratings, counts = _rating_counts([tuple(item) for item in items], kinds)
    sizes = ratings.sum(axis=1)
    unlike = (sizes**2 - (ratings**2).sum(axis=1)) / (sizes - 1)

    def alpha(weights: FloatArray) -> FloatArray:
        totals = weights @ ratings
        values = totals.sum(axis=1)
        expected = (values**2 - (totals**2).sum(axis=1)) / (values - 1)
        return ratio(expected - weights @ unlike, expected)

    return estimate(counts, alpha)


def _undefined(items: int, kinds: Mapping[Category, int]) -> Estimate | None:
    if not items:
        return Estimate(reason=_NO_OVERLAP)
    if len(kinds) == 1:
        chosen = ", ".join(next(iter(kinds))) or "nothing"
        return Estimate(items=items, reason=f"all annotators always chose the same ({chosen})")
    return None


def _numbered(categories: Iterable[Category]) -> dict[Category, int]:
    return {category: number for number, category in enumerate(dict.fromkeys(categories))}


def _distinct(patterns: Iterable[K]) -> tuple[list[K], IntArray]:
    """Return the distinct patterns in order of occurrence, and the count of each."""
    counted = Counter(patterns)
    return list(counted), np.fromiter(counted.values(), dtype=np.int64, count=len(counted))


def _rating_counts(
    items: Iterable[tuple[Category, ...]], kinds: Mapping[Category, int]
) -> tuple[FloatArray, IntArray]:
    """Return the counts of categories per pattern (patterns, categories) and of patterns (…,)."""
    patterns, counts = _distinct(items)
    ratings = np.zeros((len(patterns), len(kinds)))
    for number, pattern in enumerate(patterns):
        for category in pattern:
            ratings[number, kinds[category]] += 1
    return ratings, counts


def _text_agreement(
    control: str,
    written: Sequence[Mapping[str, str]],
    annotator: str | None,
    facts: Facts | None,
) -> TextAgreement:
    from rapidfuzz.distance import Levenshtein

    items = _pairs_of(written, annotator)
    similar = []
    for pairs in items:
        of_pairs = [Levenshtein.normalized_similarity(one, other) for one, other in pairs]
        similar.append(fmean(of_pairs))
    return TextAgreement(
        control=control, similarity=_mean(similar), attributes=_attribute_agreement(items, facts)
    )


def _attribute_agreement(
    items: Sequence[Sequence[tuple[str, str]]], facts: Facts | None
) -> Estimate:
    if facts is None:
        return Estimate(items=len(items), reason="the facts of the texts were not extracted")
    shares = []
    for pairs in items:
        of_pairs = []
        for one, other in pairs:
            stated, stated_there = facts(one), facts(other)
            either = stated | stated_there
            if either:
                of_pairs.append(len(stated & stated_there) / len(either))
        if of_pairs:
            shares.append(fmean(of_pairs))
    if items and not shares:
        return Estimate(items=len(items), reason="no text states a fact")
    return _mean(shares)


def _mean(values: Sequence[float]) -> Estimate:
    """Return the mean over items."""
    if not values:
        return Estimate(reason=_NO_OVERLAP)
    figures, counts = np.unique(np.asarray(values), return_counts=True)

    def mean(weights: FloatArray) -> FloatArray:
        return ratio(weights @ figures, weights.sum(axis=1))

    return estimate(counts.astype(np.int64), mean)
