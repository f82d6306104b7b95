"""Near-duplicates, leaks between splits and overlap with other datasets: settings, results."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from loupe.schemas.base import (
    IF_ANY,
    IF_KNOWN,
    Count,
    EntityRecord,
    HexSha256,
    Record,
    Sha256,
    Split,
)

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


class ImageFingerprint(EntityRecord, kind="image_fingerprint"):
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


class AlikePair(EntityRecord, kind="alike_pair"):
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

    first: str
    second: str
    sameness: Sameness
    exact: bool = False
    mirrored: bool = False
    hash_bits: int | None = None
    spectrum_distance: float | None = None
    embedding_distance: float | None = None


class DuplicateCluster(EntityRecord, kind="duplicate_cluster"):
    """Images of one content: the one that is kept, and the dropped ones.

    Attributes:
        kept: the id of the image that is kept.
        dropped: the other images in order, each with its relation to the kept one.
    """

    kept: str
    dropped: tuple[AlikePair, ...] = Field(min_length=1)

    @property
    def members(self) -> tuple[str, ...]:
        """Return all its images, the kept one first."""
        others = (pair.second if pair.first == self.kept else pair.first for pair in self.dropped)
        return (self.kept, *others)


class NearDuplicateReport(EntityRecord, kind="near_duplicate_report"):
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
    embedding_recall: float | None = IF_KNOWN


ContaminationMeasure = Literal["file", "perceptual_hash", "video", "identity", "caption"]
OtherKind = Literal["release", "dataset", "folder"]
SEARCHED_BITS = 10
"""Perceptual hashes that differ in more bits always count as different images."""


class ContaminationLimits(Record):
    """How near an image must be to one of another dataset to count as the same.

    Attributes:
        hash_bits: maximum number of differing bits of perceptual hashes (64 bits).
    """

    hash_bits: int = Field(default=6, ge=0, le=SEARCHED_BITS)


class SharedPair(Record):
    """An item of the release and the nearest item of the other dataset.

    Attributes:
        split: the split of the image of the release; None if it has none.
        first: the file of the image of the release.
        second: the name of the other dataset's image or, for `video`, its video.
        distance: the number of bits that differ; 0 for equal values.
        value: the compared value of the other dataset: the SHA-256 of a file or video, a hash of 16
            hex digits, source and name of an identity, or the digest of a caption's words.
    """

    split: Split | None
    first: str
    second: str
    distance: int = Field(ge=0)
    value: str


class SharedSplit(Record):
    """The compared items of one split, and how many of them are in the other dataset.

    Attributes:
        split: the split; None if the release has none.
        compared: the number of images or captions of the release that have a value.
        leaks: how many of them are within the threshold of any item of the other dataset.
        within: the same number for several thresholds.
    """

    split: Split | None
    compared: Count
    leaks: Count
    within: tuple[tuple[int, int], ...]


class SharedMeasure(Record):
    """The comparison of all images (or captions) with the other dataset, by one measure.

    Attributes:
        measure: the compared value: the digest of the file, the perceptual hash (distance in bits),
            the digest of the video that an image was cut from, the identity within sources that
            both name, or the words of a caption, ignoring letter case and white space.
        computed_by: the algorithm of the values.
        threshold: the largest distance that counts as a leak; 0 for exact measures.
        theirs: the number of images, videos or captions of the other dataset that have a value.
        splits: the results for each split of the release.
        nearest: the nearest pairs, nearest first.
    """

    measure: ContaminationMeasure
    computed_by: str
    threshold: Count
    theirs: Count
    splits: tuple[SharedSplit, ...]
    nearest: tuple[SharedPair, ...]

    @property
    def leaks(self) -> int:
        """The number of leaking images or captions of the release."""
        return sum(one.leaks for one in self.splits)


class Contamination(Record):
    """The comparison of a release with one other dataset, by every measure that both have.

    Attributes:
        name: the name of the other dataset.
        other: whether it is a release, a dataset of the store, or a folder of images.
        release_id: its id, if it is a release.
        content_sha256: the digest of its compared content.
        images: its number of images.
        captions: its number of captions.
        unreadable: how many of its images have no perceptual hash, because they are damaged,
            missing or changed.
        unreadable_files: the first of these by name.
        sources: the sources of identities that both datasets name.
        measures: the results by measure.
    """

    name: str = Field(pattern=r"\S")
    other: OtherKind
    release_id: HexSha256 | None = None
    content_sha256: HexSha256
    images: Count
    captions: Count
    unreadable: Count = 0
    unreadable_files: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    measures: tuple[SharedMeasure, ...]

    @property
    def leaks(self) -> tuple[SharedMeasure, ...]:
        """The measures that found a leak."""
        return tuple(one for one in self.measures if one.leaks)


TEST_SHARE = 0.289
"""The share of test identities in UFine6926: 2,000 of 6,926."""
SPLIT_TOLERANCE = 0.05
"""By how much the share of test identities may differ from the wanted one without a reason."""

Measure = Literal["identity", "video", "file", "perceptual_hash", "embedding"]


class LeakLimits(Record):
    """How near two images must be to count as the same content.

    Attributes:
        hash_bits: maximum number of differing bits of perceptual hashes (pHash, 64 bits).
        embedding_distance: maximum cosine distance (0 to 2) of embeddings of one model.
    """

    hash_bits: int = Field(default=4, ge=0, le=64)
    embedding_distance: float = Field(default=0.005, ge=0, le=2)


class SplitSettings(Record):
    """How identities are assigned to train and test.

    `test_share` is the wanted share of identities in the test split. Images nearer than `limits`
    are never in different splits.
    """

    test_share: float = Field(default=TEST_SHARE, ge=0, le=1)
    seed: int = 0
    limits: LeakLimits = LeakLimits()


class NearPair(Record):
    """Two images of different splits, by name, and their distance."""

    first: str
    second: str
    distance: float = Field(ge=0)


class Comparison(Record):
    """The comparison of all images of one split with all of another, by one measure.

    Attributes:
        splits: the two splits.
        measure: the compared value: the identity, the digest of the video, the digest of the file,
            the perceptual hash (distance in bits), or the embedding (cosine distance).
        computed_by: the origin of the values: an algorithm, or a model (`name@revision`).
        threshold: the largest distance of pairs that are leaks; 0 for exact measures.
        images: the number of images with a value in each split.
        pairs: the number of compared pairs, which are all pairs.
        leaks: the number of leaks.
        nearest: the nearest pair; None for exact measures without a match.
        further: the next pairs by distance.
    """

    splits: tuple[Split, Split]
    measure: Measure
    computed_by: str
    threshold: float = Field(ge=0)
    images: tuple[int, int]
    pairs: int = Field(ge=0)
    leaks: int = Field(ge=0)
    nearest: NearPair | None
    further: tuple[NearPair, ...] = IF_ANY

    @property
    def shown(self) -> tuple[NearPair, ...]:
        """The listed pairs, nearest first."""
        return () if self.nearest is None else (self.nearest, *self.further)


class LeakCertificate(Record):
    """The comparisons of every split with every other, by every available measure."""

    schema_version: Literal[1] = 1
    limits: LeakLimits
    comparisons: tuple[Comparison, ...]

    @property
    def leaks(self) -> tuple[Comparison, ...]:
        """The comparisons that found a leak."""
        return tuple(one for one in self.comparisons if one.leaks)
