"""Results of an evaluation: a model's scores on a split of a release, and all dependencies."""

import math
from collections.abc import Collection, Sequence
from statistics import median
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from schemas.base import Record, canonical_json, digest_of
from schemas.chat import ModelRef
from schemas.errors import DegenerateCriterionError
from schemas.records import Sha256, Split
from schemas.recos import CaptionVerdict, DiscriminabilitySettings
from schemas.release import Count, DatasetName, EntityId, HexSha256, MethodGuess, Version
from schemas.taxonomy import DifferenceType

Direction = Literal["text-to-image", "image-to-text"]
DIRECTIONS: tuple[Direction, ...] = ("text-to-image", "image-to-text")
METRICS = ("R@1", "R@5", "R@10", "mAP", "mSD", "mINP", "median_rank")
"""The metrics of retrieval by identity, named as in `loupe metrics`; percent except the last.
"""
CONTRAST_METRICS = ("FG-CDA", "FG-CDE")
"""The metrics of contrastive pairs, in percent: FG-CDE is the error, 100 − FG-CDA."""
EDITED = "+changed"
"""Suffix of the revision of code that was edited after its commit."""

EvaluationId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Seconds = Annotated[float, Field(ge=0)]


class Score(Record):
    """The value of a metric and its 95 % interval, if it was estimated."""

    value: float
    low: float | None = None
    high: float | None = None


Scores = dict[str, Score]
"""Scores by the name of the metric."""


class EvaluatedRelease(Record):
    """The release of the evaluation; `id` is that of its manifest."""

    dataset: DatasetName
    version: Version
    id: HexSha256
    demonstration: bool


class EvaluatedModel(Record):
    """The evaluated model.

    `parameters` determine a vector together with `ref`. `checkpoint_sha256` is the digest of the
    weights if they are a file of this machine; those of precomputed vectors are in `parameters`.
    Built-in models are demonstrations.
    """

    ref: ModelRef
    provider: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    checkpoint_sha256: HexSha256 | None = None
    demonstration: bool = False

    @property
    def key(self) -> str:
        """Return a key that distinguishes this model from any other."""
        parameters = canonical_json(self.parameters)
        return digest_of(self.provider, str(self.ref), parameters, self.checkpoint_sha256 or "")


class Hardware(Record):
    """The machine that an evaluation ran on."""

    processor: str
    cores: int
    memory_bytes: int
    accelerator: str | None = None


class SimilarityHistogram(Record):
    """Counts of cosines in equally wide bins from `low` to `high`.

    The pairs of `queries` queries with the whole gallery are counted; the queries are drawn by seed
    if there are more.
    """

    low: float
    high: float
    matches: tuple[Count, ...]
    others: tuple[Count, ...]
    queries: Count


class ShownItem(Record):
    """An image or a text of the release. `person` is its `id` there; `position` that of the text.

    For an image, `text` and `position` are None. For a text, `entity_id` and `file_path` are those
    of the caption and of the image that it describes.
    """

    entity_id: EntityId
    file_path: str
    sha256: Sha256
    person: int
    source: str
    text: str | None = None
    position: int | None = None


class Retrieved(Record):
    """A result of a query. `rank` counts from 1."""

    item: ShownItem
    rank: int = Field(gt=0)
    similarity: float
    is_match: bool


class HardQuery(Record):
    """A query whose first match has a low rank, with the results above it.

    `retrieved` are the first few of the gallery, followed by the first match.
    """

    query: ShownItem
    first_match_rank: int = Field(gt=0)
    retrieved: tuple[Retrieved, ...]


class DirectionResult(Record):
    """The scores of all queries of one direction.

    `unmatched` queries have no match in the gallery and are left out of the scores. `rank_curve`
    holds at position k − 1 the percentage of queries with a match among the first k. `chance` and
    `chance_curve` are the expected values for random orders of the gallery.
    """

    direction: Direction
    queries: Count
    gallery: Count
    unmatched: Count
    scores: Scores
    rank_curve: tuple[float, ...] = ()
    chance: Scores = Field(default_factory=dict)
    chance_curve: tuple[float, ...] = ()
    histogram: SimilarityHistogram | None = None
    hardest: tuple[HardQuery, ...] = ()


class GroupResult(Record):
    """The scores of a part of the queries, against the whole gallery.

    `dimension` is the property by which queries are grouped ("task", "tier", "source",
    "granularity" or "wording"), `group` its value. Contrastive releases are also scored by
    "difference", "aspect", "method" and "area", where `queries` counts contrastive pairs, and by
    "setting", which is the kind of queries and gallery.
    """

    dimension: str
    group: str
    direction: Direction
    queries: Count
    unmatched: Count
    scores: Scores


class PairSimilarities(Record):
    """Cosines between the images of contrastive pairs of one type (CCD, figure 5).

    `quantiles` are pairs of a share from 0 to 1 and the cosine below which that share lies;
    `histogram` counts them in equally wide bins from −1 to 1.
    """

    difference: DifferenceType
    pairs: Count
    mean: float | None
    quantiles: tuple[tuple[float, float], ...] = ()
    histogram: tuple[Count, ...]


class ContrastiveResult(Record):
    """Additional figures of a model on a contrastive release.

    `nearest_images` and `nearest_texts` are mean cosines of a sample with its five nearest other
    samples (CCD, table 1); None if there are no others. `methods` is None if there are too few
    edited or found images.
    """

    similarities: tuple[PairSimilarities, ...]
    nearest_images: float | None
    nearest_texts: float | None
    methods: MethodGuess | None = None


class EvaluationResult(Record):
    """One evaluation: of a model, on a split of a release, by a protocol, with a code revision.

    `seconds` is the time of scoring. `embedding_seconds` is that of embedding, without vectors that
    were cached. `interval` describes how intervals were estimated.
    """

    release: EvaluatedRelease
    split: Split
    protocol: str
    model: EvaluatedModel
    code_revision: str
    hardware: Hardware
    identities: Count
    images: Count
    captions: Count
    directions: tuple[DirectionResult, ...]
    groups: tuple[GroupResult, ...] = ()
    interval: str
    seconds: Seconds
    embedding_seconds: Seconds
    contrasts: ContrastiveResult | None = Field(
        default=None, exclude_if=lambda contrasts: contrasts is None
    )

    @property
    def id(self) -> EvaluationId:
        """Return a digest of everything that the scores depend on: equal evaluations have one id.

        Edited code has no revision of its own, so the scores are included to tell evaluations
        apart.
        """
        parts = [self.release.id, self.split, self.protocol, self.model.key, self.code_revision]
        if self.code_revision.endswith(EDITED):
            parts.append(canonical_json([one.model_dump(mode="json") for one in self.directions]))
        return digest_of(*parts)

    def direction(self, name: Direction) -> DirectionResult | None:
        """Return the scores of one direction, if it was evaluated."""
        return next((one for one in self.directions if one.direction == name), None)


# When a caption passes, and when the criterion itself is not informative (ReCoS, section 3.2).

_FEWEST_JUDGED = 20
"""Minimum number of captions to judge the criterion; fewer may all pass by chance."""
LEAST_PASSING, MOST_PASSING = 0.01, 0.99
"""If a smaller or larger share of captions passes, the criterion does not distinguish them."""

_BINS = 12
_WIDEST = 40


class AcceptedInterval(NamedTuple):
    """The interval of dis(t) that passes, both ends included: (1 ∓ η) / 2 · log k."""

    lower: float
    upper: float

    @classmethod
    def of(cls, k: int, eta: float) -> "AcceptedInterval":
        """Return the interval for `k` images.

        A larger `eta` widens it; the paper's prose states the opposite by mistake.
        """
        return cls((1 - eta) / 2 * math.log(k), (1 + eta) / 2 * math.log(k))

    def verdict(self, dis: float) -> CaptionVerdict:
        """Return the verdict for dis(t): low is over-detailed, high is under-detailed."""
        if dis < self.lower:
            return CaptionVerdict.OVER_DETAILED
        return CaptionVerdict.UNDER_DETAILED if dis > self.upper else CaptionVerdict.PASS


def share_passing(verdicts: Collection[CaptionVerdict]) -> float:
    """Return the share of captions that pass, in [0, 1]; 0 if there are none."""
    return sum(one is CaptionVerdict.PASS for one in verdicts) / max(1, len(verdicts))


def is_degenerate(verdicts: Collection[CaptionVerdict]) -> bool:
    """Whether under 1 % or over 99 % of at least 20 captions pass.

    Use it for captions as they were first written: after regeneration all are supposed to pass.
    """
    judged = len(verdicts) >= _FEWEST_JUDGED
    return judged and not LEAST_PASSING <= share_passing(verdicts) <= MOST_PASSING


def check_not_degenerate(
    dis: Sequence[float], settings: DiscriminabilitySettings, temperature: float
) -> None:
    """Raise if the criterion does not separate captions, before any is rewritten.

    Args:
        dis: dis(t) of the captions as they were first written.
        settings: the settings of the criterion.
        temperature: the divisor of the similarities.

    Raises:
        DegenerateCriterionError: see `is_degenerate`; its message has the histogram.
    """
    interval = AcceptedInterval.of(settings.k, settings.eta)
    verdicts = [interval.verdict(one) for one in dis]
    if is_degenerate(verdicts):
        raise DegenerateCriterionError(degeneracy_text(dis, settings, temperature))


def degeneracy_text(
    dis: Sequence[float], settings: DiscriminabilitySettings, temperature: float
) -> str:
    """Return the problem with the criterion and its remedy, then the histogram of `dis`."""
    interval = AcceptedInterval.of(settings.k, settings.eta)
    verdicts = [interval.verdict(one) for one in dis]
    passing = sum(one is CaptionVerdict.PASS for one in verdicts)
    most = max(
        (CaptionVerdict.OVER_DETAILED, CaptionVerdict.UNDER_DETAILED, CaptionVerdict.PASS),
        key=verdicts.count,
    )
    return (
        f"the criterion does not tell captions apart: {passing:,} of {len(dis):,} pass (wanted "
        f"{LEAST_PASSING:.0%} to {MOST_PASSING:.0%}) with k {settings.k}, eta {settings.eta:g} and "
        f"temperature {temperature:g}; {_advice(most, dis, settings)}\n"
        f"{dis_histogram(dis, settings.k, interval)}"
    )


_PROFILE = "in a profile [captioning.discriminability]"
_LEAST_ETA = 0.01
_ADVICE = {
    CaptionVerdict.UNDER_DETAILED: (
        f"similarities lie too close together for this temperature ({_PROFILE}): take a lower one, "
        f"or none, so that it is calibrated"
    ),
    CaptionVerdict.OVER_DETAILED: (
        f"similarities lie too far apart for this temperature ({_PROFILE}): take a higher one, or "
        f"none, so that it is calibrated"
    ),
}


def _advice(most: CaptionVerdict, dis: Sequence[float], settings: DiscriminabilitySettings) -> str:
    """Return the setting to change; if all pass, the eta with which half would."""
    if most is not CaptionVerdict.PASS:
        return _ADVICE[most]
    middle = math.log(settings.k) / 2
    needed = median(abs(one - middle) / middle for one in dis)
    if needed < _LEAST_ETA:
        return (
            f"all are near the middle, so that a smaller eta alone does not help: take a larger k "
            f"({_PROFILE}), which needs as many images, or an embedder that tells more apart"
        )
    return f"take a smaller eta ({_PROFILE}): with {needed:.2g} half of them would pass"


def dis_histogram(dis: Sequence[float], k: int, interval: AcceptedInterval) -> str:
    """Return a histogram as text: a line for each twelfth of the range from 0 to log k.

    The range of values comes first, because a bar does not show how narrow it is. Bars of values
    that pass are full, others are light; a bar across an end of the interval has both.
    """
    width = math.log(k) / _BINS
    counts: list[dict[bool, int]] = [{True: 0, False: 0} for _ in range(_BINS)]
    for one in dis:
        passes = interval.verdict(one) is CaptionVerdict.PASS
        counts[min(_BINS - 1, int(one / width))][passes] += 1
    highest = max(1, *(sum(count.values()) for count in counts))
    lines = [
        f"  {place * width:6.3f} – {(place + 1) * width:6.3f} {sum(count.values()):>7,} "
        f"{'█' * _bar(count[True], highest)}{'░' * _bar(count[False], highest)}".rstrip()
        for place, count in enumerate(counts)
    ]
    head = (
        f"dis(t) from {min(dis, default=0):.6g} to {max(dis, default=0):.6g}; passes from "
        f"{interval.lower:.6g} to {interval.upper:.6g}, log k is {math.log(k):.6g}"
    )
    return "\n".join([head, *lines])


def _bar(count: int, highest: int) -> int:
    return math.ceil(_WIDEST * count / highest)
