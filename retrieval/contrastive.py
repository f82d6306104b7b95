"""Scores of a contrastive benchmark (CCD): FG-CDA, recall, and the similarity of pairs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field, ValidationError

from loupe.retrieval.distractors import BenchmarkDistractors
from loupe.retrieval.embeddings import FloatRows, Ids, Similarities, check_same_space, unit_rows
from loupe.retrieval.ranking import bootstrap_means, load_kernels, score_retrieval
from loupe.retrieval.similarity.products import pair_similarities
from loupe.schemas.errors import FormatError
from loupe.schemas.evaluation import (
    CONTRAST_METRICS,
    ContrastiveResult,
    Direction,
    GroupResult,
    PairSimilarities,
    Score,
    Scores,
)
from loupe.schemas.json_stream import unique_fields
from loupe.schemas.release import MethodGuess
from loupe.schemas.taxonomy import DifferenceType, PrimaryType
from loupe.schemas.text_files import read_text
from loupe.schemas.validation import fault_of

Name = Annotated[str, Field(min_length=1)]
Rows = NDArray[Any]
"""Embeddings of any float type and length, of shape (n, d)."""


class Sample(BaseModel):
    """A sample of a benchmark; unknown fields are ignored."""

    image: Name


SampleT = TypeVar("SampleT", bound=Sample)


def read_list(path: Path) -> object:
    """The content of a JSON file.

    Raises:
        FormatError: it cannot be read, or is not JSON.
    """
    wanted = "a JSON list of samples"
    try:
        return json.loads(read_text(path, wanted), object_pairs_hook=unique_fields)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} must be a JSON list of samples; it is not JSON: {error}"
        ) from None


def listed_samples(listed: object, form: type[SampleT], name: str) -> list[SampleT]:
    """The samples of a list; `name` is the list's name in messages.

    Raises:
        FormatError: it is not a list or empty, a sample is invalid, or an image is listed twice.
    """
    if not isinstance(listed, list) or not listed:
        raise FormatError(f"{name} must be a list of at least one sample; got {listed!r:.80}")
    samples: list[SampleT] = []
    first: dict[str, int] = {}
    for at, value in enumerate(listed):
        try:
            sample = form.model_validate(value)
        except ValidationError as error:
            raise FormatError(f"{place(name, at)}: {fault_of(error, form)}") from None
        if first.setdefault(sample.image, at) != at:
            raise FormatError(
                f"{name} must list each image once; {sample.image!r} is sample "
                f"{first[sample.image]} and sample {at} (from 0)"
            )
        samples.append(sample)
    return samples


def benchmark_rows(
    images: ArrayLike,
    texts: ArrayLike,
    wanted: tuple[int, int],
    names: tuple[str, str],
    rule: str = "one for each caption",
) -> tuple[FloatRows, FloatRows]:
    """Unit rows of the images and texts of a benchmark.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (m, d).
        wanted: n and m.
        names: what to call the embeddings in messages.
        rule: why there are m texts, in messages.

    Raises:
        FormatError: they cannot be compared, or are not as many as wanted.
    """
    found = unit_rows(images, names[0]), unit_rows(texts, names[1])
    check_same_space(*found, names)
    rules = ("one for each sample", rule)
    for rows, count, name, why in zip(found, wanted, names, rules, strict=True):
        if len(rows) != count:
            raise FormatError(f"{name} must have {count:,} rows, {why}; got {len(rows):,}")
    return found


def place(name: str, at: int) -> str:
    """The position of a sample, for messages."""
    return f"{name}: sample {at} (from 0)"


# The samples of a contrastive benchmark (CCD): which image differs from which anchor, and how.
#
# A group is an anchor, the original image, and its contrastive images, each of which differs from
# the anchor in one detail of a known type. Two contrastive images of a group differ in two details
# and therefore form no contrastive pair; neither does the authors' evaluation compare them.

CAPTIONS = 5
"""Captions of each image by default; row 5·i + j is then caption j of image i."""


@dataclass(frozen=True)
class ContrastiveSamples:
    """Samples in the order of the image embeddings' rows.

    Attributes:
        images: their names, each another.
        anchors: for each the index of its group's anchor, which is its own index for an anchor.
        differences: for each the type of its one difference; None for an anchor.
        counts: for each the number of its captions, of shape (n,); None where all have five. The
            texts come image by image.
        methods: for each how it was obtained, "search" or "edit"; None for an anchor, and where it
            is not known. Empty where it is known of none.
        areas: for each the share of its anchor's area that an edit changed; None if it was not
            edited. Empty where it is known of none.
    """

    images: tuple[str, ...]
    anchors: Ids
    differences: tuple[DifferenceType | None, ...]
    counts: Ids | None = None
    methods: tuple[str | None, ...] = ()
    areas: tuple[float | None, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def is_original(self) -> NDArray[np.bool_]:
        """Whether a sample is an anchor, of shape (n,)."""
        found: NDArray[np.bool_] = self.anchors == np.arange(len(self))
        return found

    @cached_property
    def caption_counts(self) -> Ids:
        """How many captions each sample has, of shape (n,)."""
        return np.full(len(self), CAPTIONS) if self.counts is None else self.counts

    @cached_property
    def first_text(self) -> Ids:
        """For each sample the index of its first text, of shape (n,)."""
        first: Ids = np.cumsum(self.caption_counts) - self.caption_counts
        return first

    @cached_property
    def image_of_text(self) -> Ids:
        """For each text the index of its image, of shape (m,): 5n where all have five."""
        return np.repeat(np.arange(len(self)), self.caption_counts)

    @cached_property
    def contrastive(self) -> Ids:
        """The indices of the contrastive samples; each makes a pair with its anchor."""
        return np.flatnonzero(~self.is_original)

    @cached_property
    def pair_differences(self) -> list[DifferenceType]:
        """The type of each pair, in the order of `contrastive`."""
        return [one for one in self.differences if one is not None]


class _Sample(Sample):
    group: Name
    contrastive_type: DifferenceType | None


def contrastive_samples(listed: object, name: str) -> ContrastiveSamples:
    """The samples of a list of `{"image", "group", "contrastive_type"}`.

    The type is null for the one anchor of each group. Other fields are ignored; `name` is the
    list's name in messages.

    Raises:
        FormatError: see `loupe.retrieval.contrastive.listed_samples`; or a group has no anchor or
            two.
    """
    samples = listed_samples(listed, _Sample, name)
    anchors: dict[str, int] = {}
    for at, one in enumerate(samples):
        if one.contrastive_type is None and anchors.setdefault(one.group, at) != at:
            raise FormatError(
                f"{name}: group {one.group!r} has two anchors (samples {anchors[one.group]} and "
                f"{at}, counted from 0); exactly one may have 'contrastive_type' null"
            )
    for at, one in enumerate(samples):
        if one.group not in anchors:
            raise FormatError(
                f"{place(name, at)}: its group {one.group!r} has no anchor; "
                f"exactly one sample of a group must have 'contrastive_type' null"
            )
    return ContrastiveSamples(
        tuple(one.image for one in samples),
        np.array([anchors[one.group] for one in samples]),
        tuple(one.contrastive_type for one in samples),
    )


# FG-CDA: how often a model tells contrastive pairs apart, by type of difference (CCD, eq. 1).
#
# A pair is an anchor and one of its contrastive images, taken in both orders (i, j). Text to image,
# each of the five captions of i must be more similar to image i than to image j: ten comparisons a
# pair. Image to text, each of the five captions of i must be more similar to image i than each of
# the five captions of j is: fifty. The paper prints the formula for text to image only; the 25 of
# an order are those of the authors' evaluation. The other reading, "k with k", compares caption k
# of i with caption k of j only: ten. Ties are errors. FG-CDE is 100 − FG-CDA.

COMPARISONS: dict[Direction, int] = {
    "text-to-image": 2 * CAPTIONS,
    "image-to-text": 2 * CAPTIONS * CAPTIONS,
}
"""Comparisons of a pair with five captions each, both orders together."""


class RightCount(NamedTuple):
    """The number of right comparisons, and of all."""

    right: int
    comparisons: int

    @property
    def accuracy(self) -> float | None:
        """FG-CDA in percent; None where nothing was compared."""
        return 100 * self.right / self.comparisons if self.comparisons else None

    @property
    def error(self) -> float | None:
        """FG-CDE in percent; None where nothing was compared."""
        wrong = self.comparisons - self.right
        return 100 * wrong / self.comparisons if self.comparisons else None


@dataclass(frozen=True, slots=True)
class ContrastAccuracy:
    """FG-CDA of one direction.

    Attributes:
        secondary: by type of difference, types without a pair included.
        primary: by aspect, the comparisons of its types pooled.
        overall: of all comparisons.
        right_of_pair: right comparisons of each pair, in the order of the contrastive samples.
        comparisons_of_pair: all comparisons of each pair, in the same order.
        k_with_k: the other reading of image to text; None for text to image.
    """

    secondary: dict[DifferenceType, RightCount]
    primary: dict[PrimaryType, RightCount]
    overall: RightCount
    right_of_pair: Ids
    comparisons_of_pair: Ids
    k_with_k: "ContrastAccuracy | None" = None


def contrast_accuracy(
    images: FloatRows, texts: FloatRows, samples: ContrastiveSamples
) -> dict[Direction, ContrastAccuracy]:
    """FG-CDA in both directions; `images` (n, d) and `texts` (m, d) are unit rows."""
    text_to_image, image_to_text, k_with_k = (
        _by_type(right, made, samples.pair_differences)
        for right, made in zip(
            _right_of_pairs(images, texts, samples), _comparisons_of_pairs(samples), strict=True
        )
    )
    image_to_text = replace(image_to_text, k_with_k=k_with_k)
    return {"text-to-image": text_to_image, "image-to-text": image_to_text}


def _right_of_pairs(
    images: FloatRows, texts: FloatRows, samples: ContrastiveSamples
) -> tuple[Ids, Ids, Ids]:
    """Right comparisons of each pair: text to image, image to text, and that with k with k."""
    anchors, contrastive = samples.anchors[samples.contrastive], samples.contrastive
    text_to_image = np.zeros(len(contrastive), dtype=np.int64)
    image_to_text = np.zeros(len(contrastive), dtype=np.int64)
    k_with_k = np.zeros(len(contrastive), dtype=np.int64)
    is_there = np.arange(_most_captions(samples)) < samples.caption_counts[:, None]
    for mine, other in ((anchors, contrastive), (contrastive, anchors)):
        own = _with_captions(images, texts, samples, mine, mine)
        nearer = own > _with_captions(images, texts, samples, other, mine)
        text_to_image += (nearer & is_there[mine]).sum(axis=1)
        captions_of_other = _with_captions(images, texts, samples, mine, other)
        higher: NDArray[np.bool_] = own[:, :, None] > captions_of_other[:, None, :]
        compared = is_there[mine][:, :, None] & is_there[other][:, None, :]
        right = higher & compared
        image_to_text += right.sum(axis=(1, 2))
        k_with_k += right.trace(axis1=1, axis2=2)
    return text_to_image, image_to_text, k_with_k


def _comparisons_of_pairs(samples: ContrastiveSamples) -> tuple[Ids, Ids, Ids]:
    """The number of comparisons of each pair, in the order of `_right_of_pairs`."""
    contrastive = samples.contrastive
    ours = samples.caption_counts[contrastive]
    theirs = samples.caption_counts[samples.anchors[contrastive]]
    return ours + theirs, 2 * ours * theirs, 2 * np.minimum(ours, theirs)


def _most_captions(samples: ContrastiveSamples) -> int:
    return int(samples.caption_counts.max(initial=0))


def _with_captions(
    images: FloatRows,
    texts: FloatRows,
    samples: ContrastiveSamples,
    image_at: Ids,
    sample_at: Ids,
) -> Similarities:
    """Similarities of each image with the captions of the sample beside it, of shape (n, most).

    If a sample has fewer captions than another, its last one fills the row. If an image has several
    vectors of the captions' length, end to end, the most similar counts.
    """
    places = np.arange(_most_captions(samples))
    last = samples.caption_counts[sample_at, None] - 1
    captions = samples.first_text[sample_at, None] + np.minimum(places, last)
    beside = np.repeat(image_at[:, None], len(places), axis=1)
    found = [
        pair_similarities(np.ascontiguousarray(vectors), texts, beside, captions)
        for vectors in np.split(images, images.shape[1] // texts.shape[1], axis=1)
    ]
    greatest: Similarities = np.max(found, axis=0)
    return greatest


def _by_type(right: Ids, made: Ids, differences: list[DifferenceType]) -> ContrastAccuracy:
    def share(wanted: Iterable[DifferenceType]) -> RightCount:
        chosen = np.isin(differences, list(wanted))
        return RightCount(int(right[chosen].sum()), int(made[chosen].sum()))

    return ContrastAccuracy(
        secondary={kind: share([kind]) for kind in DifferenceType},
        primary={
            aspect: share(kind for kind in DifferenceType if kind.primary is aspect)
            for aspect in PrimaryType
        },
        overall=share(DifferenceType),
        right_of_pair=right,
        comparisons_of_pair=made,
    )


# The similarity of the images of contrastive pairs, by type of difference (CCD, figure 5).

BINS = 40
"""Bins of the histogram, equally wide from −1 to 1."""

_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def contrast_similarity(
    images: FloatRows, samples: ContrastiveSamples
) -> tuple[PairSimilarities, ...]:
    """The distribution of the cosines of anchors with their contrastive images, for each type."""
    anchors, contrastive = samples.anchors[samples.contrastive], samples.contrastive
    cosines = pair_similarities(images, images, anchors, contrastive)
    kinds = np.array(samples.pair_differences, dtype=object)
    return tuple(_spread(kind, np.sort(cosines[kinds == kind])) for kind in DifferenceType)


def _spread(kind: DifferenceType, cosines: Similarities) -> PairSimilarities:
    """The distribution of rising `cosines`."""
    counts, _ = np.histogram(np.clip(cosines, -1, 1), bins=BINS, range=(-1, 1))
    quantiles = np.quantile(cosines, _QUANTILES).tolist() if len(cosines) else []
    return PairSimilarities(
        difference=kind,
        pairs=len(cosines),
        mean=float(cosines.mean()) if len(cosines) else None,
        quantiles=tuple(zip(_QUANTILES, quantiles, strict=False)),
        histogram=tuple(counts.tolist()),
    )


# Recall among samples: the share of queries whose positive is among the first k.
#
# A query's positive is the best item of the other side within its sample: for a text its image, for
# an image the most similar of its texts, whose others do not compete. Ties count against the query.


class SampleRecall(NamedTuple):
    """R@k of some queries among some candidates.

    Attributes:
        queries: how many queries there are.
        candidates: how many candidates each of them has, its positives included.
        percent: for each k the percentage of the queries that find their positive among the first
            k; None where there are no queries.
    """

    queries: int
    candidates: int
    percent: dict[int, float | None]


def sample_recall(ranks: Ids, candidates: int, depths: Iterable[int]) -> SampleRecall:
    """R@k from the rank of each query's positive.

    If k is at least the number of candidates, every query finds its positive.
    """
    queries = len(ranks)
    percent = {
        depth: 100 * int(np.count_nonzero(ranks <= depth)) / queries if queries else None
        for depth in depths
    }
    return SampleRecall(queries, candidates, percent)


class BenchmarkSide(NamedTuple):
    """The images, or the texts, of a benchmark: their vectors, and the sample of each."""

    rows: Rows
    samples: Ids

    def chosen(self, wanted: NDArray[np.bool_]) -> "BenchmarkSide":
        """Those of some samples; `wanted` has a value for each sample."""
        is_chosen = wanted[self.samples]
        return BenchmarkSide(self.rows[is_chosen], self.samples[is_chosen])

    def ranks_in(self, gallery: "BenchmarkSide") -> Ids:
        """The rank of the positive of each of these, from 1; 0 where it has none."""
        return score_retrieval(self.rows, gallery.rows, self.samples, gallery.samples).best_rank


def sides_by_direction(
    images: Rows, texts: Rows, image_of_text: Ids
) -> dict[Direction, tuple[BenchmarkSide, BenchmarkSide]]:
    """Queries and candidates of each direction."""
    of_images = BenchmarkSide(images, np.arange(len(images)))
    of_texts = BenchmarkSide(texts, image_of_text)
    return {"text-to-image": (of_texts, of_images), "image-to-text": (of_images, of_texts)}


# R@1 and R@5 of a contrastive benchmark, both directions, three settings (CCD, section 3).

DEPTHS = (1, 5)


class ContrastiveSetting(StrEnum):
    """Which samples are queries, and which are candidates; tables 2 and 4 use the first."""

    ORIGINAL_TO_ALL = "original_to_all"
    ORIGINAL_TO_ORIGINAL = "original_to_original"
    ALL_TO_ALL = "all_to_all"


ContrastiveRecall = dict[Direction, dict[ContrastiveSetting, SampleRecall]]


def _contrastive_recall(
    images: Rows, texts: Rows, samples: ContrastiveSamples
) -> ContrastiveRecall:
    """R@k by direction and setting."""
    original = samples.is_original
    found: ContrastiveRecall = {}
    for direction, (queries, gallery) in sides_by_direction(
        images, texts, samples.image_of_text
    ).items():
        among_all = queries.ranks_in(gallery)
        originals = gallery.chosen(original)
        ranks = {
            ContrastiveSetting.ORIGINAL_TO_ALL: (among_all[original[queries.samples]], gallery),
            ContrastiveSetting.ORIGINAL_TO_ORIGINAL: (
                queries.chosen(original).ranks_in(originals),
                originals,
            ),
            ContrastiveSetting.ALL_TO_ALL: (among_all, gallery),
        }
        found[direction] = {
            setting: sample_recall(of_queries, len(candidates.samples), DEPTHS)
            for setting, (of_queries, candidates) in ranks.items()
        }
    return found


# All metrics of a contrastive benchmark (CCD), from existing embeddings.


@dataclass(frozen=True, slots=True)
class ContrastiveScores:
    """The scores of a model on a contrastive benchmark.

    Attributes:
        recall: R@1 and R@5 by direction and setting.
        accuracy: FG-CDA by direction and type.
        similarity: how similar the images of contrastive pairs are, by type.
        seconds: the time of computing, that of loading kernels left out.
    """

    recall: ContrastiveRecall
    accuracy: dict[Direction, ContrastAccuracy]
    similarity: tuple[PairSimilarities, ...]
    seconds: float


def score_contrastive(
    images: ArrayLike,
    texts: ArrayLike,
    samples: ContrastiveSamples,
    *,
    names: tuple[str, str] = ("the image embeddings", "the text embeddings"),
) -> ContrastiveScores:
    """Recall, FG-CDA and the similarities of pairs.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (5n, d); row 5·i + j is caption j of image i. Where samples tell
            other numbers of captions, a row for each of these, image by image.
        samples: which image differs from which, in the order of `images`.
        names: what to call the embeddings in messages.

    Raises:
        FormatError: the embeddings cannot be compared, or are not as many as the samples ask for.
    """
    load_kernels()
    start = perf_counter()
    rule = f"{CAPTIONS} for each sample" if samples.counts is None else "one for each caption"
    wanted = len(samples), len(samples.image_of_text)
    image_rows, text_rows = benchmark_rows(images, texts, wanted, names, rule)
    return ContrastiveScores(
        _contrastive_recall(np.asarray(images), np.asarray(texts), samples),
        contrast_accuracy(image_rows, text_rows, samples),
        contrast_similarity(image_rows, samples),
        perf_counter() - start,
    )


# The scores of contrastive pairs as the records of an evaluation.

_ACCURACY, _ERROR, _K_WITH_K = CONTRAST_METRICS


def overall_accuracy(accuracy: ContrastAccuracy, samples: ContrastiveSamples) -> Scores:
    """FG-CDA of all pairs, with its interval over groups; empty without pairs."""
    found = _scores(accuracy, samples, np.ones(len(samples.contrastive), dtype=np.bool_))
    return {name: score for name, score in found.items() if name != _ERROR}


def groups_by_difference(
    direction: Direction, accuracy: ContrastAccuracy, samples: ContrastiveSamples
) -> Iterator[GroupResult]:
    """FG-CDA and FG-CDE of each type, aspect, method and third of the changed areas with a pair.

    A model that is right about edited images and wrong about found ones may recognise the editor.
    One that is right about large areas only sees how much differs, and not what.
    """
    differences = samples.pair_differences
    methods = [samples.methods[at] for at in samples.contrastive] if samples.methods else []
    divisions: tuple[tuple[str, list[str], Sequence[str | None]], ...] = (
        ("difference", [one.value for one in DifferenceType], [one.value for one in differences]),
        (
            "aspect",
            [one.value for one in PrimaryType],
            [one.primary.value for one in differences],
        ),
        ("method", ["search", "edit"], methods),
        ("area", list(_THIRDS), _thirds(samples)),
    )
    for dimension, groups, labels in divisions:
        for group in groups:
            chosen = np.array([label == group for label in labels], dtype=np.bool_)
            if chosen.any():
                yield GroupResult(
                    dimension=dimension,
                    group=group,
                    direction=direction,
                    queries=int(chosen.sum()),
                    unmatched=0,
                    scores=_scores(accuracy, samples, chosen),
                )


_THIRDS = ("smallest third", "middle third", "largest third")


def _thirds(samples: ContrastiveSamples) -> list[str | None]:
    """The third of each contrastive image by its changed area; of equal areas, the smaller."""
    areas = [samples.areas[at] for at in samples.contrastive] if samples.areas else []
    known = [area for area in areas if area is not None]
    if len(known) < len(_THIRDS):
        return []
    bounds = np.quantile(known, [1 / 3, 2 / 3])
    return [None if area is None else _THIRDS[int(np.searchsorted(bounds, area))] for area in areas]


def _scores(
    accuracy: ContrastAccuracy, samples: ContrastiveSamples, chosen: NDArray[np.bool_]
) -> Scores:
    """The accuracy of the chosen pairs; pairs of one anchor are drawn together."""
    made = accuracy.comparisons_of_pair[chosen]
    right = 100 * accuracy.right_of_pair[chosen] / np.maximum(made, 1)
    anchors = samples.anchors[samples.contrastive][chosen]
    values = {_ACCURACY: np.repeat(right, made)}
    if not made.sum():
        return {}
    found = bootstrap_means(values, np.repeat(anchors, made))[_ACCURACY]
    scores = {
        _ACCURACY: Score(value=found.value, low=found.low, high=found.high),
        _ERROR: Score(value=100 - found.value, low=100 - found.high, high=100 - found.low),
    }
    if accuracy.k_with_k is not None:
        scores[_K_WITH_K] = _scores(accuracy.k_with_k, samples, chosen)[_ACCURACY]
    return scores


def contrastive_result(
    similarity: tuple[PairSimilarities, ...],
    distractors: BenchmarkDistractors,
    methods: MethodGuess | None,
) -> ContrastiveResult:
    """The similarities of contrastive pairs and with the nearest others, and `guess_methods`."""
    return ContrastiveResult(
        similarities=similarity,
        nearest_images=distractors.images,
        nearest_texts=distractors.texts,
        methods=methods,
    )
