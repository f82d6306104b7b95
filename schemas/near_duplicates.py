"""Near-duplicates of a collection of images: fingerprints, pairs, clusters, and counts."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.records import Sha256

FINGERPRINT = "dct-fingerprint@1"
"""What makes `ImageFingerprint`s."""


class NearDuplicateSettings(Record):
    """When two images have the same content; see docs/near-duplicates.md.

    Attributes:
        hash_bits: only images whose perceptual hashes differ in no more bits than this are held
            against each other by their spectra.
        spectrum_distance: cosine distance of spectra up to which two images look the same.
        doubtful_spectrum_distance: the distance beyond which they surely do not.
        embedding_distance: cosine distance up to which embeddings say the same.
        doubtful_embedding_distance: the distance beyond which they say another.
        mirrored: whether an image and its mirror image have the same content.
    """

    hash_bits: int = Field(default=10, ge=0, le=64)
    spectrum_distance: float = Field(default=0.022, ge=0, le=2)
    doubtful_spectrum_distance: float = Field(default=0.05, ge=0, le=2)
    embedding_distance: float = Field(default=0.02, ge=0, le=2)
    doubtful_embedding_distance: float = Field(default=0.1, ge=0, le=2)
    mirrored: bool = True

    @model_validator(mode="after")
    def _limits_rise(self) -> "NearDuplicateSettings":
        for name in ("spectrum_distance", "embedding_distance"):
            sure, doubtful = getattr(self, name), getattr(self, f"doubtful_{name}")
            if sure > doubtful:
                raise ValueError(f"{name} must be at most doubtful_{name}; got {sure}, {doubtful}")
        return self


class ImageFingerprint(EntityRecord):
    """What an image looks like, in 64 bits and in 255 numbers.

    Attributes:
        sha256: the digest of its bytes.
        width_px: as the bytes say it, an orientation in metadata not applied.
        height_px: its height.
        perceptual_hash: 16 hex digits; None for a picture without anything on it.
        mirrored_hash: that of its mirror image.
        spectrum: 255 whole numbers from -127 to 127, as hex digits of signed bytes: the lowest
            16 x 16 frequencies without the mean, row by row; empty where there is no hash.
        made_by: the algorithm.
    """

    kind: ClassVar[str] = "image_fingerprint"
    sha256: Sha256
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    perceptual_hash: str | None = Field(pattern=r"^[0-9a-f]{16}$")
    mirrored_hash: str | None = Field(pattern=r"^[0-9a-f]{16}$")
    spectrum: str = Field(pattern=r"^([0-9a-f]{2})*$")
    made_by: str = FINGERPRINT

    @property
    def pixels(self) -> int:
        """How many it has."""
        return self.width_px * self.height_px


class Sameness(StrEnum):
    """What two images are to each other."""

    SAME = "same"
    DOUBTFUL = "doubtful"


class AlikePair(EntityRecord):
    """Two images that have, or may have, the same content, and what speaks for it.

    Attributes:
        first: the id of one image, the earlier one.
        second: that of the other.
        sameness: whether that is sure; where it is not, people decide.
        exact: whether they are the same bytes.
        mirrored: whether the second looks like the mirror image of the first.
        hash_bits: bits that differ between their hashes; None where these were not near.
        spectrum_distance: cosine distance of their spectra; None where it was not computed.
        embedding_distance: that of their embeddings; None where either has none.
    """

    kind: ClassVar[str] = "alike_pair"
    first: str
    second: str
    sameness: Sameness
    exact: bool = False
    mirrored: bool = False
    hash_bits: int | None = None
    spectrum_distance: float | None = None
    embedding_distance: float | None = None


class DuplicateCluster(EntityRecord):
    """Images of one content: the kept one, and with it each that goes.

    Attributes:
        kept: the id of the image that stays.
        dropped: what goes, in order: each with what it has in common with the kept one.
    """

    kind: ClassVar[str] = "duplicate_cluster"
    kept: str
    dropped: tuple[AlikePair, ...] = Field(min_length=1)

    @property
    def members(self) -> tuple[str, ...]:
        """All its images, the kept one first."""
        others = (pair.second if pair.first == self.kept else pair.first for pair in self.dropped)
        return (self.kept, *others)


class NearDuplicateReport(EntityRecord):
    """What was found in a collection, in numbers, and with which settings.

    Attributes:
        images: how many were looked at.
        kept: how many are left.
        exact: how many go because they are the same bytes as what is kept.
        near: how many go because they look the same.
        mirrored: how many go because they look the same in a mirror.
        doubtful: how many pairs people have to decide.
        clusters: how many images that are kept have duplicates.
        settings: when two images have the same content.
        fingerprint: the algorithm of the fingerprints.
        embedder: the model whose embeddings were compared, as `name@revision`.
        embedding_recall: the share of pairs of near embeddings that are found, where there were too
            many images to compare all; None where all were.
    """

    kind: ClassVar[str] = "near_duplicate_report"
    images: int
    kept: int
    exact: int
    near: int
    mirrored: int
    doubtful: int
    clusters: int
    settings: NearDuplicateSettings
    fingerprint: str = FINGERPRINT
    embedder: str | None = None
    embedding_recall: float | None = Field(default=None, exclude_if=lambda share: share is None)


Evidence = Literal["same", "unclear", "different", "none"]
"""What one measure says of two images; `none` where it cannot say."""
