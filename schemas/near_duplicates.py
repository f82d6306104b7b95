"""Near-duplicates of a collection of images: fingerprints, pairs, clusters, and counts."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.records import Sha256

FINGERPRINT = "dct-fingerprint@1"
"""Version of the algorithm that makes `ImageFingerprint`s."""


class NearDuplicateSettings(Record):
    """When two images have the same content; see docs/near-duplicates.md.

    Attributes:
        hash_bits: spectra are compared only for images whose perceptual hashes differ in at most
            this many bits.
        spectrum_distance: cosine distance of spectra up to which two images look the same.
        doubtful_spectrum_distance: distance of spectra beyond which they certainly differ.
        embedding_distance: cosine distance of embeddings up to which two images look the same.
        doubtful_embedding_distance: distance of embeddings beyond which they certainly differ.
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
    """The content of an image as a 64-bit hash and a spectrum of 255 numbers.

    Attributes:
        sha256: the digest of its bytes.
        width_px: the width as stored; an orientation in metadata is not applied.
        height_px: the height as stored.
        perceptual_hash: 16 hex digits; None for an image without contrast.
        mirrored_hash: the hash of its mirror image.
        spectrum: 255 whole numbers from -127 to 127, as hex digits of signed bytes: the lowest
            16 x 16 frequencies without the mean, row by row; empty if there is no hash.
        made_by: the version of the algorithm.
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
        """Return the number of pixels."""
        return self.width_px * self.height_px


class Sameness(StrEnum):
    """The relation of two images."""

    SAME = "same"
    DOUBTFUL = "doubtful"


class AlikePair(EntityRecord):
    """Two images that have, or may have, the same content, and the evidence for it.

    Attributes:
        first: the id of one image, the earlier one.
        second: the id of the other.
        sameness: whether the relation is certain; otherwise annotators decide.
        exact: whether they are the same bytes.
        mirrored: whether the second looks like the mirror image of the first.
        hash_bits: number of bits that differ between their hashes; None if it is too large.
        spectrum_distance: cosine distance of their spectra; None if it was not computed.
        embedding_distance: cosine distance of their embeddings; None if one has no embedding.
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
    """Images of one content: the one that is kept, and the dropped ones.

    Attributes:
        kept: the id of the image that is kept.
        dropped: the other images in order, each with its relation to the kept one.
    """

    kind: ClassVar[str] = "duplicate_cluster"
    kept: str
    dropped: tuple[AlikePair, ...] = Field(min_length=1)

    @property
    def members(self) -> tuple[str, ...]:
        """Return all its images, the kept one first."""
        others = (pair.second if pair.first == self.kept else pair.first for pair in self.dropped)
        return (self.kept, *others)


class NearDuplicateReport(EntityRecord):
    """The near-duplicates of a collection in numbers, and the settings used.

    Attributes:
        images: number of images that were compared.
        kept: number of images that are kept.
        exact: number dropped because they have the same bytes as a kept image.
        near: number dropped because they look the same.
        mirrored: number dropped because their mirror image looks the same.
        doubtful: number of pairs that annotators have to decide.
        clusters: number of kept images that have duplicates.
        settings: when two images have the same content.
        fingerprint: the algorithm of the fingerprints.
        embedder: the model whose embeddings were compared, as `name@revision`.
        embedding_recall: estimated share of pairs of near embeddings that were found, if there were
            too many images to compare all pairs; None if all were compared.
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
"""The result of one measure for two images; `none` if it is not conclusive."""
