"""How the splits of a dataset are separated, and the certificate of the separation."""

from typing import Literal

from pydantic import Field

from schemas.base import Record
from schemas.records import Split

TEST_SHARE = 0.289
"""The share of test identities in UFine6926: 2,000 of 6,926."""

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
    further: tuple[NearPair, ...] = Field(default=(), exclude_if=lambda pairs: not pairs)

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
