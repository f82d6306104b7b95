"""Inter-annotator agreement on choices and texts, with intervals."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.utils import default_process

from annotate.answers import ReviewAnswer
from schemas.base import Record
from schemas.errors import UsageError
from schemas.quality import CONFIDENCE, wilson_interval

# 95 % intervals for shares and for statistics over items. A figure that cannot be computed has a
# reason instead.

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

REPLICATES = 1000
SEED = 20
"""Seed of the bootstrap, so that the same answers have the same interval."""

_TAILS = (100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2)
_WEIGHTS_AT_ONCE = 1 << 20  # 8 MiB, for any number of items


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


def share(count: int, of: int) -> Share:
    """Return `count / of` with its 95 % score interval."""
    if of == 0:
        return Share(count=count, of=of, value=None, low=None, high=None)
    low, high = wilson_interval(count, of)
    return Share(count=count, of=of, value=count / of, low=low, high=high)


def estimate(
    value: float, counts: IntArray, statistic: Callable[[FloatArray], FloatArray]
) -> Estimate:
    """Return `value` with its interval from a bootstrap over items.

    Items are resampled `REPLICATES` times with replacement; the interval contains the middle 95 %
    of the values. Items with the same pattern are drawn together, as a multinomial count.
    Replicates in which the statistic is not defined (all answers are the same) are left out.

    Args:
        value: the figure over all items.
        counts: the number of items of each pattern, of shape (patterns,).
        statistic: returns the figure, of shape (replicates,), for weights of the patterns, of shape
            (replicates, patterns); NaN where it is not defined.
    """
    items = int(counts.sum())
    if items < 2:
        return Estimate(value=value, items=items, reason="a single item has no variance")
    drawn = _replicates(counts, statistic)
    if 2 * len(drawn) < REPLICATES:
        reason = "most bootstrap samples of so few items have a single category"
        return Estimate(value=value, items=items, reason=reason)
    low, high = np.percentile(drawn, _TAILS)
    return Estimate(value=value, low=float(low), high=float(high), items=items)


def _replicates(counts: IntArray, statistic: Callable[[FloatArray], FloatArray]) -> FloatArray:
    generator = np.random.default_rng(SEED)
    items = int(counts.sum())
    at_once = max(1, _WEIGHTS_AT_ONCE // len(counts))
    found = [
        statistic(
            generator.multinomial(
                items, counts / items, size=min(at_once, REPLICATES - done)
            ).astype(np.float64)
        )
        for done in range(0, REPLICATES, at_once)
    ]
    values = np.concatenate(found)
    return values[~np.isnan(values)]


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return `above / below`; NaN if `below` is zero up to rounding."""
    defined = below > 1e-12
    result = np.full(np.shape(below), np.nan)
    np.divide(above, below, out=result, where=defined)
    return result


# Similarity of captions or images, by embeddings or by the words of texts.

SimilarityFloatArray = NDArray[np.float32]


class Similarity(Protocol):
    """A ranking of items that are identified by their row, counted from 0."""

    @property
    def name(self) -> str:
        """The method, for provenance."""
        ...

    def ranked(self, row: int) -> NDArray[np.intp]:
        """Return all rows from the most to the least similar to `row`; ties in row order."""
        ...


class EmbeddingSimilarity:
    """Cosine similarity of embeddings."""

    def __init__(self, embeddings: SimilarityFloatArray, name: str) -> None:
        self.name = name
        self._directions = embeddings

    @classmethod
    def load(cls, path: Path, rows: int, what: str) -> "EmbeddingSimilarity":
        """Load embeddings from a `.npy` file: a float array of shape (rows, dimensions).

        Raises:
            UsageError: the file has another content, or a row is zero or not finite. `what` names
                the expected items for the message.
        """
        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"the embeddings {path} cannot be read: {error}") from error
        if loaded.ndim != 2 or len(loaded) != rows or loaded.dtype.kind != "f":
            raise UsageError(
                f"the embeddings {path} must be floats of shape ({rows}, dimensions), a row for "
                f"each of the {what}; got {loaded.dtype} of shape {loaded.shape}"
            )
        lengths = np.linalg.norm(loaded.astype(np.float32), axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            row = int(np.argmax(~(np.isfinite(lengths) & (lengths > 0))))
            raise UsageError(f"row {row} of the embeddings {path} is zero or not finite")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls((loaded / lengths).astype(np.float32), f"embeddings sha256:{digest}")

    def ranked(self, row: int) -> NDArray[np.intp]:
        """Return all rows by cosine similarity."""
        return np.argsort(-(self._directions @ self._directions[row]), kind="stable")


class WordSimilarity:
    """Cosine similarity of texts by tf-idf, their words weighted by rarity; needs no model."""

    name = "words-tf-idf@1"

    def __init__(self, texts: Sequence[str]) -> None:
        from scipy import sparse

        counts = [Counter(sorted(default_process(text).split())) for text in texts]
        columns = {word: place for place, word in enumerate(sorted(set().union(*counts)))}
        cells = [
            (row, columns[word], n) for row, words in enumerate(counts) for word, n in words.items()
        ]
        rows, words, weights = np.array(cells, dtype=np.int64).reshape(-1, 3).T
        texts_with = np.bincount(words, minlength=len(columns))
        weights = weights * (np.log((1 + len(texts)) / (1 + texts_with)) + 1)[words]
        lengths = np.sqrt(np.bincount(rows, weights**2, minlength=len(texts)))
        shape = len(texts), len(columns)
        self._weights = sparse.csr_array((weights / lengths[rows], (rows, words)), shape=shape)

    def ranked(self, row: int) -> NDArray[np.intp]:
        """Return all rows by cosine similarity."""
        scores = self._weights @ self._weights[[row]].toarray()[0]
        return np.argsort(-np.round(scores, 12), kind="stable")  # rounded, so that ties stay ties


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

P = TypeVar("P", bound=Hashable)
C = TypeVar("C", bound="ChoiceAgreement | OwnChoiceAgreement")
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
        cohen: Cohen's kappa (1960), if exactly two annotators share items.
        fleiss: Fleiss' kappa (1971), over the items with the commonest number of answers.
        krippendorff: Krippendorff's alpha for nominal data, over all items with two or more
            answers.
    """

    control: str
    observed: Estimate
    cohen: Estimate
    fleiss: Estimate
    krippendorff: Estimate


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


class OwnChoiceAgreement(Record):
    """Agreement of one annotator with all others in a control with choices.

    `observed` is the share of equal answers of the others. `kappa` is Cohen's kappa over all pairs
    of the annotator's answer and another's.
    """

    control: str
    observed: Estimate
    kappa: Estimate


class _Agreement(Record, Generic[C]):
    """Agreement in all controls of a page, over `items` items with two or more answers."""

    items: int
    choices: tuple[C, ...]
    texts: tuple[TextAgreement, ...]

    @property
    def main(self) -> C | None:
        """Agreement on the verdict, or on the first control with choices if there is no verdict."""
        verdicts = (choice for choice in self.choices if choice.control == "verdict")
        return next(verdicts, self.choices[0] if self.choices else None)


class Agreement(_Agreement[ChoiceAgreement]):
    """Agreement of all annotators."""


class OwnAgreement(_Agreement[OwnChoiceAgreement]):
    """Agreement of one annotator with the others, over the items that they share."""


def agreement(items: Iterable[ItemAnswers], facts: Facts | None = None) -> Agreement:
    """Compute the agreement of the annotators of a queue; `facts` extracts the facts of texts."""
    shared = _shared_items(items)
    return Agreement(
        items=len(shared),
        choices=tuple(
            _choice_agreement(control, rated)
            for control, rated in _values_by_control(shared, _categories).items()
        ),
        texts=tuple(
            _text_agreement(
                control, [[*combinations(sorted(texts.values()), 2)] for texts in written], facts
            )
            for control, written in _values_by_control(shared, lambda answer: answer.texts).items()
        ),
    )


def agreement_of(
    annotator: str, items: Iterable[ItemAnswers], facts: Facts | None = None
) -> OwnAgreement:
    """Compute the agreement of one annotator with the others who answered the same items."""
    shared = _shared_items(item for item in items if annotator in item.answers)
    choices = []
    for control, rated in _values_by_control(shared, _categories).items():
        pairs = _pairs_of(annotator, rated)
        observed = _mean([_observed_agreement(item) for item in pairs])
        choices.append(OwnChoiceAgreement(control=control, observed=observed, kappa=_cohen(pairs)))
    return OwnAgreement(
        items=len(shared),
        choices=tuple(choices),
        texts=tuple(
            _text_agreement(control, _pairs_of(annotator, written), facts)
            for control, written in _values_by_control(shared, lambda answer: answer.texts).items()
        ),
    )


def _shared_items(items: Iterable[ItemAnswers]) -> list[ItemAnswers]:
    """Return the items with two or more answers, in the order of their ids."""
    found = (item for item in items if len(item.answers) > 1)
    return sorted(found, key=lambda item: item.entity_id)


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


def _choice_agreement(control: str, rated: Sequence[Mapping[str, Category]]) -> ChoiceAgreement:
    categories = [tuple(sorted(ratings.values())) for ratings in rated]
    return ChoiceAgreement(
        control=control,
        observed=_mean([_observed_agreement(combinations(chosen, 2)) for chosen in categories]),
        cohen=_cohen_of_two(rated),
        fleiss=_fleiss(categories),
        krippendorff=_krippendorff(categories),
    )


def _pairs_of(annotator: str, items: Iterable[Mapping[str, P]]) -> list[tuple[tuple[P, P], ...]]:
    """Return, per item, pairs of the annotator's value and each other annotator's value."""
    return [
        tuple((given[annotator], given[other]) for other in sorted(given) if other != annotator)
        for given in items
        if annotator in given
    ]


def _observed_agreement(pairs: Iterable[tuple[Category, Category]]) -> float:
    return fmean(one == other for one, other in pairs)


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
    tables = np.zeros((len(patterns), len(kinds), len(kinds)))
    for number, pairs in enumerate(patterns):
        for one, other in pairs:
            tables[number, kinds[one], kinds[other]] += 1
    left, right = tables.sum(axis=2), tables.sum(axis=1)
    if 1 in (np.count_nonzero(counts @ left), np.count_nonzero(counts @ right)):
        return Estimate(items=len(items), reason="one side always chose the same")
    equal = tables.trace(axis1=1, axis2=2)

    def kappa(weights: FloatArray) -> FloatArray:
        lefts, rights = weights @ left, weights @ right
        pairs = lefts.sum(axis=1)
        expected = (lefts * rights).sum(axis=1) / pairs**2
        return ratio(weights @ equal / pairs - expected, 1 - expected)

    return estimate(_over_all(counts, kappa), counts, kappa)


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

    return estimate(_over_all(counts, kappa), counts, kappa)


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

    return estimate(_over_all(counts, alpha), counts, alpha)


def _over_all(counts: IntArray, statistic: Callable[[FloatArray], FloatArray]) -> float:
    return float(statistic(counts[None].astype(np.float64))[0])


def _undefined(items: int, kinds: Mapping[Category, int]) -> Estimate | None:
    if not items:
        return Estimate(reason=_NO_OVERLAP)
    if len(kinds) == 1:
        chosen = ", ".join(next(iter(kinds))) or "nothing"
        return Estimate(items=items, reason=f"all annotators always chose the same ({chosen})")
    return None


def _numbered(categories: Iterable[Category]) -> dict[Category, int]:
    return {category: number for number, category in enumerate(dict.fromkeys(categories))}


def _distinct(patterns: Iterable[P]) -> tuple[list[P], IntArray]:
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
    control: str, items: Sequence[Sequence[tuple[str, str]]], facts: Facts | None
) -> TextAgreement:
    from rapidfuzz.distance import Levenshtein

    similar = [
        fmean(Levenshtein.normalized_similarity(one, other) for one, other in pairs)
        for pairs in items
    ]
    return TextAgreement(
        control=control, similarity=_mean(similar), attributes=_attribute_agreement(items, facts)
    )


def _attribute_agreement(
    items: Sequence[Sequence[tuple[str, str]]], facts: Facts | None
) -> Estimate:
    if facts is None:
        return Estimate(items=len(items), reason="the facts of the texts were not extracted")
    stated = [[(facts(one), facts(other)) for one, other in pairs] for pairs in items]
    shares = [
        fmean(len(one & other) / len(one | other) for one, other in pairs if one | other)
        for pairs in stated
        if any(one | other for one, other in pairs)
    ]
    if items and not shares:
        return Estimate(items=len(items), reason="no text states an attribute of a person")
    return _mean(shares)


def _mean(values: Sequence[float]) -> Estimate:
    """Return the mean over items."""
    if not values:
        return Estimate(reason=_NO_OVERLAP)
    figures, counts = np.unique(np.asarray(values), return_counts=True)

    def mean(weights: FloatArray) -> FloatArray:
        return ratio(weights @ figures, weights.sum(axis=1))

    return estimate(fmean(values), counts.astype(np.int64), mean)
