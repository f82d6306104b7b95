"""The entities of an image-text dataset, and the rejections of stages."""

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field

from loupe.schemas.base import IF_ANY, IF_KNOWN, Box, EntityRecord, Record, Sha256, Split
from loupe.schemas.faces import FaceTreatment, TreatedFaces
from loupe.schemas.taxonomy import DifferenceType, RetrievalTask, Tier

Method = Literal["search", "edit"]
"""How contrastive images are obtained: found on the web or in a folder, or edited."""


class Granularity(StrEnum):
    """The level of detail of a source's captions (UFineBench, section 3.3)."""

    FINE = "fine"
    MEDIUM = "medium"
    COARSE = "coarse"


class Source(EntityRecord, kind="source"):
    """An imported collection: one annotation file in a known format, with its terms.

    `least_side_px` and `greatest_aspect` are the limits that its images had to keep; None for
    sources that are no annotation files. `read_as` are the columns and the split that were stated
    for reading it: the same file with others is another source. `faces` says how faces were treated
    before its images were stored; None if they were kept.
    """

    name: str
    format: str
    annotation_file: str
    annotation_sha256: Sha256
    licence: str
    citation: str
    homepage: str | None = None
    granularity: Granularity | None = None
    least_side_px: int | None = IF_KNOWN
    greatest_aspect: float | None = IF_KNOWN
    read_as: dict[str, Any] | None = IF_KNOWN
    faces: FaceTreatment | None = IF_KNOWN

    @property
    def terms(self) -> "SourceTerms":
        """Return the terms that it was imported under."""
        return SourceTerms(licence=self.licence, citation=self.citation, homepage=self.homepage)


class SourceTerms(Record):
    """The terms of use of a source, its citation, and its homepage."""

    licence: str
    citation: str
    homepage: str | None


class TermsCorrection(SourceTerms, EntityRecord, kind="terms_correction"):
    """The correct terms of a source that was imported under wrong ones.

    Ids depend on the source as it was imported, so the source does not change. Its corrections are
    numbered from 1; the last one counts. `reason` is published.
    """

    source: str
    source_id: str
    number: int = Field(ge=1)
    reason: str | None = None

    @property
    def terms(self) -> SourceTerms:
        """Return only the terms."""
        return SourceTerms(licence=self.licence, citation=self.citation, homepage=self.homepage)


class Attribution(Record):
    """The terms of one image, if they are its own, and the author to name.

    Without a `licence`, the image is under that of its source. For images from a search,
    `licence_url` is where the terms are published, and `licence_basis` says whether the service
    states them for this image, or only filters images by a set of licences. Otherwise these are not
    part of the payload.
    """

    licence: str | None
    creator: str | None = None
    source_url: str | None = None
    licence_url: str | None = IF_KNOWN
    licence_basis: Literal["stated", "filter"] | None = IF_KNOWN


class Contrast(Record):
    """How an image of a contrastive benchmark differs from its anchor (CCD).

    Attributes:
        anchor_id: the anchor, an image of the same dataset.
        difference: the type of the difference.
        detail: the detail of the anchor that differs.
        plan: its replacement.
        method: whether the image was found or edited; None if its source does not state it.
    """

    anchor_id: str
    difference: DifferenceType
    detail: str
    plan: str
    method: Method | None


class Image(EntityRecord, kind="image"):
    """An image whose bytes are in the blob store under `sha256`, upright and decodable.

    `file_path` is relative to the image root of its source, with forward slashes. `identity` is the
    person (or the image, if the source has no persons) as the source names it. `source_sha256`
    differs from `sha256` only if an EXIF orientation was applied, if data other than pixels and
    colours, which may reveal a place, was removed, or if faces were made unrecognisable (`faces`).
    `task` and `tier` are for benchmarks of tasks: the task of the image, and the version it first
    belongs to. `attribution` is for images with terms of their own in addition to those of their
    source, `contrast` for those that were made or found to differ from another, `others_xyxy`
    (boxes of people who are not meant) for crops of a video. Otherwise these are not part of the
    payload.
    """

    source: str
    identity: str
    split: Split | None
    file_path: str
    sha256: Sha256
    source_sha256: Sha256
    media_type: str
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    task: RetrievalTask | None = IF_KNOWN
    tier: Tier | None = IF_KNOWN
    attribution: Attribution | None = IF_KNOWN
    contrast: Contrast | None = IF_KNOWN
    others_xyxy: tuple[Box, ...] = IF_ANY
    faces: TreatedFaces | None = IF_KNOWN


class ImageFacts(EntityRecord, kind="image_facts"):
    """Facts that a source states about an image in addition to its captions.

    `facts` are short English sentences that are true of the image, the most important first; a
    caption may state each of them. `categories` are the source's words for the contents of the
    image.
    """

    source: str
    file_path: str
    facts: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class Caption(EntityRecord, kind="caption"):
    """A description of one image as its source states it; `position` counts from 0 in the image.

    `author` is the pseudonym of the person who wrote or rewrote it here. If it is None it is not
    part of the payload, so that the ids of imported captions do not depend on it. The same applies
    to `granularity` and `language` (ISO 639-1) of contrastive benchmarks: the coarse captions that
    their fine ones were made of, and translations.
    """

    source: str
    text: str
    position: int = Field(ge=0)
    author: str | None = IF_KNOWN
    granularity: Granularity | None = IF_KNOWN
    language: str | None = IF_KNOWN


class PromptText(EntityRecord, kind="prompt"):
    """A prompt as it was used; rewrites derive from it and from their caption."""

    prompt_id: str
    version: str
    digest: str
    text: str


class Rewrite(EntityRecord, kind="rewrite"):
    """A caption in other words. `author` is a model (`name@revision`) or a person's pseudonym.

    A person's edit is a rewrite too, derived (`edited_from`) from the one that was shown.
    """

    source: str
    text: str
    author: str


class Shard(EntityRecord, kind="shard"):
    """Some thousand records of a source, or what a step computed from them, in one Parquet file.

    `number` is its position among the shards of its source. `root` is the root of a Merkle tree
    over its `records`; `rejected` counts the records that cannot be used, by reason.
    """

    source: str
    step: str
    number: int = Field(ge=0)
    records: int = Field(gt=0)
    root: Sha256
    rejected: dict[str, int]


class Rejection(Record):
    """Why a stage could not use one input. `reason` is a stable snake_case word, for counting.

    `detail` is a sentence for users; `context` holds the data to fix or repeat it (file, index,
    field, raw answer …).
    """

    stage: str
    reason: str
    detail: str
    context: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, stage: str, reason: str, detail: str, **context: Any) -> Self:
        """Return a rejection with this context."""
        return cls(stage=stage, reason=reason, detail=detail, context=context)


class Sample(EntityRecord, kind="sample"):
    """The draw of identities from one source: settings, and a digest of the result."""

    source: str
    split: Split
    seed: int
    identities_wanted: int
    images_per_identity: int | None
    identities_drawn: int
    images_drawn: int
    digest: str


class Picture(Record):
    """An image in the blob store; `image_id` is its entity, if it is one.

    `others_xyxy` are the boxes of people in a crop of a person who are not meant. `faces` says what
    was done to its faces before it was stored.
    """

    sha256: Sha256
    media_type: str
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    image_id: str | None = None
    others_xyxy: tuple[Box, ...] = IF_ANY
    faces: TreatedFaces | None = IF_KNOWN


BYTES_OF_PICTURE = {"sha256", "media_type", "width_px", "height_px", "faces"}
"""The fields of a `Picture` that are about its bytes, as an `Image` has them."""
