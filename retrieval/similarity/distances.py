"""Which images are near-duplicates: exact, and without a table of all pairs in memory.

Two measures: the perceptual hash (bits that differ) and the embedding (cosine distance, rounded, so
that the same numbers come out on every machine).
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.similarity.hamming import close_pairs
from schemas.decoders import FORMATS
from schemas.leaks import LeakLimits, Measure

_BLOCK_CELLS = 1 << 22
_DECIMALS = 6

Values = NDArray[Any]
Distances = Callable[[Values, Values], Values]
"""Distances of every value of the first (n) to every one of the second (m), of shape (n, m)."""


class ComparedImage(NamedTuple):
    """An image as it is compared with others.

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


class NearMeasure(NamedTuple):
    """A way to say how far two images are apart.

    Attributes:
        name: what is compared.
        computed_by: what made the values: an algorithm, or a model (`name@revision`).
        limit: images no farther apart than this have the same content.
        applies_to: whether an image has a value.
        values: the values of images that have one, as an array of as many rows.
        distances: of two such arrays.
    """

    name: Measure
    computed_by: str
    limit: float
    applies_to: Callable[[ComparedImage], bool]
    values: Callable[[Sequence[ComparedImage]], Values]
    distances: Distances


class Near(NamedTuple):
    """A pair, by the places of both, and how far it is apart."""

    distance: float
    first: int
    second: int


class NearPairs(NamedTuple):
    """How many pairs are no farther apart than a limit, and the nearest of all pairs."""

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
    """The perceptual hash, and the embeddings of every model that made some of `images`."""
    hashed = NearMeasure(
        "perceptual_hash",
        "pHash, 64 bits",
        limits.hash_bits,
        lambda image: image.perceptual_hash is not None,
        _hashes,
        differing_bits,
    )
    embedders = sorted({image.embedder for image in images if image.embedding is not None})
    return [hashed, *(_embedded(embedder, limits.embedding_distance) for embedder in embedders)]


def _embedded(embedder: str, limit: float) -> NearMeasure:
    return NearMeasure(
        "embedding",
        embedder,
        limit,
        lambda image: image.embedding is not None and image.embedder == embedder,
        _embeddings,
        cosine_distances,
    )


def _hashes(images: Sequence[ComparedImage]) -> Values:
    """Perceptual hashes of shape (n,), as uint64."""
    return np.array([image.perceptual_hash for image in images], np.uint64)


def _embeddings(images: Sequence[ComparedImage]) -> Values:
    """Embeddings of shape (n, d), as float64 and of unit length."""
    rows = np.array([image.embedding for image in images], np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def differing_bits(first: Values, second: Values) -> Values:
    """How many bits differ between hashes (uint64)."""
    return np.bitwise_count(first[:, None] ^ second[None, :])


def cosine_distances(first: Values, second: Values) -> Values:
    """1 - cosine between embeddings of unit length, of shape (n, d) and (m, d)."""
    return np.maximum(np.round(1.0 - first @ second.T, _DECIMALS), 0.0)


def nearest_pairs(
    first: Values, second: Values, distances: Distances, limit: float, count: int
) -> NearPairs:
    """The `count` nearest of all pairs, the nearest first; of equals the first in order."""
    best: list[Near] = []
    within = 0
    for start, rows in _blocks(first, len(second)) if len(second) else ():
        block = distances(rows, second)
        within += int(np.count_nonzero(block <= limit))
        bound = best[-1].distance if len(best) == count else None
        for place in _least(block.reshape(-1), count, bound):
            row, column = divmod(place, len(second))
            best.append(Near(float(block[row, column]), start + row, column))
        best = sorted(best)[:count]
    return NearPairs(within, best)


def _least(values: Values, count: int, bound: float | None) -> list[int]:
    """The places of the `count` least of `values` (of those below `bound`), in no special order."""
    places = np.arange(values.size) if bound is None else np.flatnonzero(values < bound)
    if len(places) > count:
        least = np.argsort(values[places], kind="stable")[:count]
        places = places[least]
    return [int(place) for place in places]


def pairs_within(values: Values, distances: Distances, limit: float) -> Iterator[tuple[int, int]]:
    """The pairs (i, j), i < j, of `values` that are no farther apart than `limit`, in order."""
    if distances is differing_bits:
        yield from map(tuple, close_pairs(values, int(limit)).tolist())
        return
    for start, rows in _blocks(values, len(values)):
        near_rows, near_columns = np.nonzero(distances(rows, values[start:]) <= limit)
        later = near_rows < near_columns
        pairs = zip(near_rows[later], near_columns[later], strict=True)
        yield from ((start + int(row), start + int(column)) for row, column in pairs)


def near_duplicates(
    images: Sequence[ComparedImage], limits: LeakLimits
) -> Iterator[tuple[ComparedImage, ComparedImage]]:
    """Pairs that are near by any measure; a pair may come several times."""
    for measure in near_measures(images, limits):
        measured = [image for image in images if measure.applies_to(image)]
        values = measure.values(measured)
        for first, second in pairs_within(values, measure.distances, measure.limit):
            yield measured[first], measured[second]


def _blocks(values: Values, columns: int) -> Iterator[tuple[int, Values]]:
    """Runs of rows, few enough for one block of distances, with the number of their first."""
    step = max(1, _BLOCK_CELLS // max(1, columns))
    for start in range(0, len(values), step):
        yield start, values[start : start + step]
