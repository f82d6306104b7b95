"""Results of an evaluation: a model's scores on a split of a release, and all dependencies."""

from typing import Annotated, Any, Literal

from pydantic import Field

from loupe.schemas.base import (
    IF_KNOWN,
    Count,
    DatasetName,
    EntityId,
    HexSha256,
    Record,
    Sha256,
    Split,
    Version,
    canonical_json,
    digest_of,
)
from loupe.schemas.chat import ModelRef
from loupe.schemas.provenance import Hardware
from loupe.schemas.release import MethodGuess
from loupe.schemas.shortcuts import BlindResult
from loupe.schemas.taxonomy import DifferenceType

Direction = Literal["text-to-image", "image-to-text"]
DIRECTIONS: tuple[Direction, ...] = ("text-to-image", "image-to-text")
METRICS = ("R@1", "R@5", "R@10", "mAP", "mSD", "mINP", "median_rank")
"""The metrics of retrieval by identity, named as in `loupe metrics`; percent except the last.
"""
CONTRAST_METRICS = ("FG-CDA", "FG-CDE", "FG-CDA k with k")
"""The metrics of contrastive pairs, in percent: FG-CDE is the error, 100 − FG-CDA.

The last one is the other reading of image to text (`loupe.retrieval.contrastive`).
"""
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


class PersonHits(Record):
    """The queries of each person, in the order of their numbers: what models are compared by.

    Attributes:
        queries: the number of queries with a match, by person.
        hits: how many of these have a match in the first place (R@1), by person.
    """

    queries: tuple[Count, ...]
    hits: tuple[Count, ...]


class DirectionResult(Record):
    """The scores of all queries of one direction.

    `unmatched` queries have no match in the gallery and are left out of the scores. `rank_curve`
    holds at position k − 1 the percentage of queries with a match among the first k. `chance` and
    `chance_curve` are the expected values for random orders of the gallery.
    `by_person` is what two models are compared by.
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
    by_person: PersonHits | None = IF_KNOWN


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
    edited or found images. `original` is how often a linear head on the vectors of images finds the
    original of its group; None if there are too few groups.
    """

    similarities: tuple[PairSimilarities, ...]
    nearest_images: float | None
    nearest_texts: float | None
    methods: MethodGuess | None = None
    original: BlindResult | None = IF_KNOWN


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
    contrasts: ContrastiveResult | None = IF_KNOWN

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
