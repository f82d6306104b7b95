"""What a release says of itself: its manifest, its statistics, and what is wrong with a copy."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from schemas.base import Record
from schemas.leaks import LeakCertificate
from schemas.records import Granularity, Sha256, Split
from schemas.retrieval_task import RetrievalTask, Tier
from schemas.second_look import SecondLookStatistics

EntityId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
HexSha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
VERSION_PATTERN = r"^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$"
DATASET_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Version = Annotated[str, Field(pattern=VERSION_PATTERN)]
DatasetName = Annotated[str, Field(pattern=DATASET_PATTERN)]
NonBlank = Annotated[str, Field(pattern=r"\S")]
Count = Annotated[int, Field(ge=0)]

GranularityName = Granularity | Literal["unstated"]
UNSTATED: Literal["unstated"] = "unstated"
"""The granularity of sources that state none."""


class ReleasedFile(Record):
    """A file of a release. `path` is relative to its folder, with forward slashes."""

    path: str = Field(min_length=1)
    sha256: HexSha256
    size_bytes: Count

    @field_validator("path")
    @classmethod
    def _stays_below(cls, path: str) -> str:
        if path.startswith("/") or {"", ".", ".."} & set(path.split("/")):
            raise ValueError("a path must stay below the folder of the release")
        return path


class ReleasedSource(Record):
    """A collection that rows come from, with its terms."""

    entity_id: EntityId
    name: NonBlank
    format: str
    annotation_file: str
    annotation_sha256: Sha256
    licence: NonBlank
    citation: str
    homepage: str | None
    granularity: Granularity | None


class ReleasedVideo(Record):
    """A video that images of the release were cut from; its bytes are not released."""

    entity_id: EntityId
    source: NonBlank
    file_path: str
    sha256: HexSha256
    duration_seconds: float | None
    identities: Count
    images: Count


class ReleasedPrompt(Record):
    """A prompt that texts of the release were asked for with."""

    entity_id: EntityId
    prompt_id: str
    version: str
    digest: str
    text: str


class ModelUse(Record):
    """What a model with these parameters was asked for the captions of a release.

    Counted are the answered calls behind all drafts and rewrites of the released images, the
    rejected ones too. `cost` is a decimal number, None where a call had no price.
    """

    name: str
    revision: str
    parameters: dict[str, Any]
    calls: Count
    tokens_in: Count
    tokens_out: Count
    cost: str | None
    currency: str | None


class Distribution(Record):
    """Whole numbers in short: quartiles are numbers that occur (nearest rank)."""

    count: Count
    mean: float
    minimum: int
    lower_quartile: int
    median: int
    upper_quartile: int
    maximum: int


class GranularityStatistics(Record):
    """The lengths of captions of one granularity.

    `histogram` counts captions by words: (10, 7) are seven captions of 10 to 19 words.
    """

    granularity: GranularityName
    images: Count
    words: Distribution
    histogram: tuple[tuple[int, int], ...]


class SourceStatistics(Record):
    """What a source gave; `rewrites` are those of its captions."""

    name: str
    granularity: GranularityName
    identities: Count
    images: Count
    originals: Count
    rewrites: Count


class SplitStatistics(Record):
    """What one split holds."""

    split: Split
    identities: Count
    images: Count
    captions: Count


class RewriteStatistics(Record):
    """What became of the rewrites that were proposed for the released images.

    `released` are accepted ones and people's edits; of these, `reviewed` were decided on by a
    person and `edited` written by one. `rejected` and `pending` ones are not in the release.
    """

    released: Count
    reviewed: Count
    edited: Count
    rejected: Count
    pending: Count


class DraftStatistics(Record):
    """People's descriptions that began as a draft of `model`, and how many were left as it was."""

    model: str
    begun: Count
    unchanged: Count


class DescriptionStatistics(Record):
    """Who made the captions that no source gave, rewrites aside.

    `written` are people's own, `edited` what people made of another text, `drafted` what a model
    wrote and nobody changed; of these, `reviewed` were decided on by a person. `annotators` are the
    different people who wrote or edited. `drafts` tells of each model whose drafts people were
    shown.
    """

    written: Count
    edited: Count
    drafted: Count
    reviewed: Count
    annotators: Count
    drafts: tuple[DraftStatistics, ...] = Field(default=(), exclude_if=lambda drafts: not drafts)


class TrackletStatistics(Record):
    """The tracklets that images were selected in; `reviewed` were decided on by a person."""

    released: Count
    reviewed: Count


class TierStatistics(Record):
    """What of a task first stands in one tier."""

    tier: Tier
    images: Count
    captions: Count


class TaskStatistics(Record):
    """What there is for one task; `task` is None for images whose task is not known.

    `tiers` has those tiers, from v0 on, in which there is anything.
    """

    task: RetrievalTask | None
    images: Count
    captions: Count
    tiers: tuple[TierStatistics, ...] = Field(default=(), exclude_if=lambda tiers: not tiers)


class ReleaseStatistics(Record):
    """What a release holds. `styles_per_image` counts images by their captions' distinct authors.

    `vocabulary` is the number of different words, letter case aside. `second_looks` has the error
    rates that second looks found, one for each review queue. What there is none of is left out.
    """

    images: Count
    captions: Count
    identities: Count
    vocabulary: Count
    words: Distribution
    splits: tuple[SplitStatistics, ...]
    sources: tuple[SourceStatistics, ...]
    granularities: tuple[GranularityStatistics, ...]
    styles_per_image: tuple[tuple[int, int], ...]
    authors: tuple[tuple[str, int], ...]
    rewrites: RewriteStatistics
    descriptions: DescriptionStatistics | None = Field(
        default=None, exclude_if=lambda descriptions: descriptions is None
    )
    tracklets: TrackletStatistics | None = Field(
        default=None, exclude_if=lambda tracklets: tracklets is None
    )
    second_looks: tuple[SecondLookStatistics, ...] = Field(
        default=(), exclude_if=lambda looks: not looks
    )
    tasks: tuple[TaskStatistics, ...] = Field(default=(), exclude_if=lambda tasks: not tasks)

    @property
    def candidates(self) -> int:
        """How many images have no caption: they can only be found."""
        return dict(self.styles_per_image).get(0, 0)


class ContainedRelease(Record):
    """A release of a lower tier, all images and captions of which stand in this one."""

    tier: Tier
    version: Version
    id: HexSha256
    images: Count
    captions: Count


class Manifest(Record):
    """A release in one record. Its files stand beside it in `manifest.json`, under `files`.

    `id` is the SHA-256 of the manifest, `files` included and `id` left out, as canonical JSON
    (sorted keys, no spaces, UTF-8). `entities_sha256` is the digest of the ids of everything that
    stands in the release, each followed by a line feed: row by row the image, the tracklet that it
    was selected in, and captions; then sources, prompts and videos in the order of this record.
    `trackers` (`name@revision`) found the people in the videos. `leaks` is the certificate of
    releases with several splits; it stands in `leaks.json` too. `tier` is that of a benchmark of
    tasks, and `contains` are the releases of lower tiers that were found to be all in this one.
    """

    schema_version: Literal[1] = 1
    id: HexSha256
    dataset: DatasetName
    version: Version
    tier: Tier | None = Field(default=None, exclude_if=lambda tier: tier is None)
    contains: tuple[ContainedRelease, ...] = Field(
        default=(), exclude_if=lambda contained: not contained
    )
    demonstration: bool
    unreviewed: bool
    entities_sha256: HexSha256
    sources: tuple[ReleasedSource, ...]
    prompts: tuple[ReleasedPrompt, ...]
    models: tuple[ModelUse, ...]
    videos: tuple[ReleasedVideo, ...] = Field(default=(), exclude_if=lambda videos: not videos)
    trackers: tuple[str, ...] = Field(default=(), exclude_if=lambda trackers: not trackers)
    statistics: ReleaseStatistics
    leaks: LeakCertificate | None = Field(default=None, exclude_if=lambda leaks: leaks is None)


class Problem(Record):
    """One thing that is wrong with a folder that should be a release.

    `fault` is a stable snake_case word; `message` one sentence that names the file and, where it is
    one row, its number (counted from 1, as in the names of images).
    """

    fault: str
    message: str
    file: str
    row: int | None = None
