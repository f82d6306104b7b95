"""Near-duplicate images: exact, without a table of all pairs in memory.

There are two measures: the perceptual hash (differing bits) and the embedding (cosine distance,
rounded so that all machines get the same numbers).
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids
from retrieval.similarity.close_rows import close_rows, cosine_distances, single_precision, slack
from retrieval.similarity.hamming import close_pairs
from schemas.decoders import FORMATS
from schemas.leaks import LeakLimits, Measure

_BLOCK_CELLS = 1 << 22

Values = NDArray[Any]


class ComparedImage(NamedTuple):
    """An image to be compared with others.

    Attributes:
        name: what the image is called in messages and certificates; several may share one.
        identity: the person shown; unique in the dataset (sources reuse names).
        sha256: the digest of its bytes.
        perceptual_hash: see `perceptual_hash`; None where only digests are compared.
        video_sha256: the digest of the video that it was cut from, if it was.
        embedding: of shape (d,) and unit length, where a model made one.
        embedder: the model that did (`name@revision`); others' embeddings are not compared.
    """

    name: str
    identity: str
    sha256: str
    perceptual_hash: int | None = None
    video_sha256: str | None = None
    embedding: NDArray[np.floating] | None = None
    embedder: str = ""


@dataclass(frozen=True)
class HashMeasure:
    """Perceptual hashes: the number of 64 bits that differ.

    Attributes:
        limit: images no farther apart than this have the same content.
        name: what is compared.
        computed_by: what made the values.
        slack: by how much `block` may be from `exact`.
    """

    limit: float
    name: Measure = "perceptual_hash"
    computed_by: str = "pHash, 64 bits"
    slack: float = 0

    def applies_to(self, image: ComparedImage) -> bool:
        """Whether an image has a hash."""
        return image.perceptual_hash is not None

    def values(self, images: Sequence[ComparedImage]) -> Values:
        """The hashes, of shape (n,), as uint64."""
        return np.array([image.perceptual_hash for image in images], np.uint64)

    def block(self, first: Values, second: Values) -> Values:
        """The number of differing bits of every first (n) and second hash (m), of shape (n, m)."""
        return np.bitwise_count(first[:, None] ^ second[None, :])

    def exact(self, first: Values, second: Values, at: Ids, beside: Ids) -> Values:
        """The differing bits of hash `at[k]` of the first and hash `beside[k]` of the second."""
        return np.bitwise_count(first[at] ^ second[beside])

    def pairs_within(self, values: Values) -> Ids:
        """The pairs (i, j), i < j, within the limit, of shape (p, 2)."""
        return close_pairs(values, int(self.limit))


@dataclass(frozen=True)
class EmbeddingMeasure:
    """Embeddings of one model, by 1 - cosine; the attributes are those of `HashMeasure`."""

    computed_by: str
    limit: float
    dimension: int
    name: Measure = "embedding"

    @property
    def slack(self) -> float:
        """The largest difference of a float32 product from the distance in float64."""
        return slack(self.dimension)

    def applies_to(self, image: ComparedImage) -> bool:
        """Whether the image has an embedding of this model."""
        return image.embedding is not None and image.embedder == self.computed_by

    def values(self, images: Sequence[ComparedImage]) -> Values:
        """The embeddings, of shape (n, d)."""
        return np.array([image.embedding for image in images])

    def block(self, first: Values, second: Values) -> Values:
        """Distances as for hashes, in float32."""
        return np.float32(1) - single_precision(first) @ single_precision(second).T

    def exact(self, first: Values, second: Values, at: Ids, beside: Ids) -> Values:
        """Distances as for hashes, in float64 and to six decimals."""
        return cosine_distances(first, second, at, beside)

    def pairs_within(self, values: Values) -> Ids:
        """The pairs within the limit; as found by `close_rows` if there are very many rows."""
        pairs = close_rows(single_precision(values), self.limit).pairs
        near: Ids = pairs[self.exact(values, values, *pairs.T) <= self.limit]
        return near


NearMeasure = HashMeasure | EmbeddingMeasure
"""A distance between two images."""


class Near(NamedTuple):
    """A pair of images by position, and their distance."""

    distance: float
    first: int
    second: int


class NearPairs(NamedTuple):
    """The number of pairs within a limit, and the nearest of all pairs."""

    within: int
    nearest: list[Near]


def perceptual_hash(data: bytes) -> int:
    """The 64-bit pHash of an encoded image, as a number.

    Raises:
        OSError: the image does not decode.
    """
    import imagehash
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        return int(str(imagehash.phash(image)), 16)


def near_measures(images: Iterable[ComparedImage], limits: LeakLimits) -> list[NearMeasure]:
    """The perceptual hash, and the embeddings of every model that embedded some of `images`."""
    dimensions = {one.embedder: len(one.embedding) for one in images if one.embedding is not None}
    return [
        HashMeasure(limits.hash_bits),
        *(
            EmbeddingMeasure(embedder, limits.embedding_distance, dimension)
            for embedder, dimension in sorted(dimensions.items())
        ),
    ]


def nearest_pairs(first: Values, second: Values, measure: NearMeasure, count: int) -> NearPairs:
    """The number of pairs within the limit, and the `count` nearest of all pairs, nearest first.

    Exact; of equal pairs the first come first. Memory is bounded.
    """
    best: list[Near] = []
    within = 0
    step = max(1, _BLOCK_CELLS // max(1, len(second)))
    for start in range(0, len(first) if len(second) else 0, step):
        rows = first[start : start + step]
        block = measure.block(rows, second).reshape(-1)
        sure = block < measure.limit - measure.slack if measure.slack else block <= measure.limit
        within += int(np.count_nonzero(sure))
        if measure.slack:
            unclear = np.flatnonzero(~sure & (block <= measure.limit + measure.slack))
            within += int(np.count_nonzero(_exact(measure, rows, second, unclear) <= measure.limit))
        for distance, place in _least(measure, rows, second, block, best, count):
            row, column = divmod(place, len(second))
            best.append(Near(distance, start + row, column))
        best = sorted(best)[:count]
    return NearPairs(within, best)


def _exact(measure: NearMeasure, rows: Values, second: Values, places: Ids) -> Values:
    """The distances at positions of a block."""
    return measure.exact(rows, second, *np.divmod(places, len(second)))


def _least(
    measure: NearMeasure,
    rows: Values,
    second: Values,
    block: Values,
    best: list[Near],
    count: int,
) -> Iterator[tuple[float, int]]:
    """The `count` smallest distances of a block below those of `best`, with their positions."""
    bound = best[-1].distance if len(best) == count else np.inf
    if bound == 0:
        return
    if block.size > count:
        bound = min(bound, float(np.partition(block, count - 1)[count - 1]) + measure.slack)
    places = np.flatnonzero(block <= bound + measure.slack)
    distances = _exact(measure, rows, second, places)
    for at in np.argsort(distances, kind="stable")[:count]:
        yield float(distances[at]), int(places[at])


def near_duplicates(
    images: Sequence[ComparedImage], limits: LeakLimits
) -> Iterator[tuple[ComparedImage, ComparedImage]]:
    """Pairs that are near by any measure; a pair may occur several times."""
    for measure in near_measures(images, limits):
        measured = [image for image in images if measure.applies_to(image)]
        if measured:
            for first, second in measure.pairs_within(measure.values(measured)).tolist():
                yield measured[first], measured[second]
