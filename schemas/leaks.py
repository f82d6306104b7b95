"""How the splits of a dataset are kept apart, and the certificate that they are."""

from typing import Literal

from pydantic import Field

from schemas.base import Record
from schemas.records import Split

TEST_SHARE = 0.289
"""The share of identities for testing in UFine6926: 2,000 of 6,926."""

Measure = Literal["identity", "video", "file", "perceptual_hash", "embedding"]


class LeakLimits(Record):
    """How near two images must be to count as the same content.

    Attributes:
        hash_bits: perceptual hashes (pHash, 64 bits) that differ in no more bits than this.
        embedding_distance: embeddings of one model with no larger cosine distance (0 to 2).
    """

    hash_bits: int = Field(default=4, ge=0, le=64)
    embedding_distance: float = Field(default=0.005, ge=0, le=2)


class SplitSettings(Record):
    """How identities are put into train and test.

    `test_share` is the share of identities that is wanted in the test split. What is nearer than
    `limits` is never in both splits.
    """

    test_share: float = Field(default=TEST_SHARE, ge=0, le=1)
    seed: int = 0
    limits: LeakLimits = LeakLimits()


class NearPair(Record):
    """Two images of different splits, by name, and how far apart they are."""

    first: str
    second: str
    distance: float = Field(ge=0)


class Comparison(Record):
    """All images of one split compared with all of another, by one measure.

    Attributes:
        splits: the two splits.
        measure: what was compared: the identity, the digest of the video, the digest of the file,
            the perceptual hash (distance in bits), or the embedding (cosine distance).
        computed_by: what made the values: an algorithm, or a model (`name@revision`).
        threshold: pairs no farther apart than this are leaks; 0 where only equal values are.
        images: how many images of either split have a value.
        pairs: how many pairs were compared: all of them.
        leaks: how many of them are leaks.
        nearest: the nearest pair; None where only equal values have a distance and none are equal.
        further: the pairs that are nearest after it.
    """

    splits: tuple[Split, Split]
    measure: Measure
    computed_by: str
    threshold: float = Field(ge=0)
    images: tuple[int, int]
    pairs: int = Field(ge=0)
    leaks: int = Field(ge=0)
    nearest: NearPair | None
    further: tuple[NearPair, ...] = Field(default=(), exclude_if=lambda pairs: not pairs)

    @property
    def shown(self) -> tuple[NearPair, ...]:
        """The nearest pairs that are stated, the nearest first."""
        return () if self.nearest is None else (self.nearest, *self.further)


class LeakCertificate(Record):
    """Every split of a dataset compared with every other, by every measure there is."""

    schema_version: Literal[1] = 1
    limits: LeakLimits
    comparisons: tuple[Comparison, ...]

    @property
    def leaks(self) -> tuple[Comparison, ...]:
        """The comparisons that found any."""
        return tuple(one for one in self.comparisons if one.leaks)
