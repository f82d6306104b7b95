"""Near-duplicate images: exact, without a table of all pairs in memory.

There are two measures: the perceptual hash (differing bits) and the embedding (cosine distance,
rounded so that all machines get the same numbers). For embeddings, matrix products in float32
propose pairs, or an index if there are too many rows; their distance in float64 decides, so that
results do not depend on blocks, threads or the machine.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.retrieval.embeddings import FloatRows, Ids
from loupe.retrieval.similarity.hamming import close_pairs
from loupe.schemas.decoders import FORMATS
from loupe.schemas.similarity import LeakLimits, Measure

Rows = NDArray[Any]
"""Embeddings of any float type and length, of shape (n, d)."""

EXACT_UP_TO = 100_000
"""Above this number of rows an index is used, because comparing all pairs takes minutes to days."""
LEAST_RECALL = 0.99

_PRODUCT_CELLS = 1 << 24  # 64 MiB of products: products of fewer rows are slow
_AT_ONCE = 1 << 14
_QUERIES = 1 << 15  # compared with each cell at once
_DECIMALS = 6
_UNIT_WITHIN = 1e-5
"""The tolerance within which a length counts as 1."""
_SAMPLE = 1000
_TRAINED_ON = 40
_SEED = 0


class ClosePairs(NamedTuple):
    """Pairs of rows that may be close enough.

    Attributes:
        pairs: their indices (i, j), i < j, of shape (p, 2); each pair once.
        recall: the share that an index finds of rows as far away as is allowed; None where all
            pairs were looked at.
    """

    pairs: Ids
    recall: float | None


def single_precision(rows: Rows) -> FloatRows:
    """Rows at unit length in float32; the given array itself if it is that already."""
    found = np.asarray(rows, np.float32)
    parts = (found[at : at + _AT_ONCE] for at in range(0, max(1, len(found)), _AT_ONCE))
    lengths = np.concatenate([np.linalg.norm(part, axis=1, keepdims=True) for part in parts])
    if np.allclose(lengths, 1.0, rtol=0, atol=_UNIT_WITHIN):
        return found
    return np.asarray(found / np.where(lengths > 0, lengths, np.float32(1.0)), np.float32)


def rows_on_disk(blocks: Iterable[Rows]) -> Rows:
    """The rows of all blocks as one array, in a temporary file that is deleted with the array."""
    with TemporaryFile() as file:
        count, block = 0, np.empty((0, 0))
        for block in blocks:
            file.write(block.tobytes())
            count += len(block)
        file.flush()
        if not count:
            return block
        return np.memmap(file, block.dtype, "r", shape=(count, block.shape[1]))


def cosine_distances(first: Rows, second: Rows, at: Ids, beside: Ids) -> NDArray[np.float64]:
    """1 - cosine of row `at[k]` of `first` and row `beside[k]` of `second`: float64, six decimals.

    A row of zeros is at distance 1 from all.
    """
    found = np.empty(len(at))
    for start in range(0, len(at), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        one, other = first[at[part]].astype(np.float64), second[beside[part]].astype(np.float64)
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = np.einsum("ij,ij->i", one, other) / np.where(lengths > 0, lengths, 1.0)
        found[part] = 1.0 - cosines
    return np.maximum(np.round(found, _DECIMALS), 0.0)


def slack(dimension: int) -> float:
    """A generous bound of the error of a float32 product of unit rows."""
    return 1e-4 + dimension * float(np.finfo(np.float32).eps)


def close_rows(units: FloatRows, distance: float, asked: Ids | None = None) -> ClosePairs:
    """All pairs at most `distance` apart (1 - cosine), and a few that just miss it.

    Exact up to `EXACT_UP_TO` rows, and if `asked` is given. More rows are divided into cells by
    k-means (faiss) in a temporary file, and each is compared with those in as many cells as it
    takes to find `LEAST_RECALL` of a thousand copies of rows that were moved, each in a random
    direction, by the allowed distance.

    Args:
        units: rows at unit length, of shape (n, d).
        distance: how far rows of a pair may be apart.
        asked: only pairs that one of these rows belongs to, rising; None for all.
    """
    least = 1 - distance - slack(units.shape[1])
    if asked is None and len(units) > EXACT_UP_TO:
        return _by_index(units, least)
    found = [np.empty((0, 2), np.int64)]
    for start, block in _blocks(np.arange(len(units)) if asked is None else asked, len(units)):
        first = start if asked is None else 0
        at, beside = np.nonzero(units[block] @ units[first:].T >= least)
        found.append(_in_order(block[at], first + beside))
    pairs = np.concatenate(found)
    return ClosePairs(pairs if asked is None else _once(pairs, len(units)), None)


def _in_order(at: Ids, beside: Ids) -> Ids:
    """Pairs of two different rows, the earlier row first."""
    pairs = np.sort(np.stack((at, beside), axis=1), axis=1)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def _once(pairs: Ids, count: int) -> Ids:
    """Distinct pairs of `count` rows, in order."""
    return np.stack(np.divmod(np.unique(pairs[:, 0] * count + pairs[:, 1]), count), axis=1)


def _blocks(rows: Ids, columns: int) -> Iterator[tuple[int, Ids]]:
    """Runs of rows that fit into one block of products, with the position of the first."""
    step = max(1, _PRODUCT_CELLS // max(1, columns))
    for start in range(0, len(rows), step):
        yield start, rows[start : start + step]


def _by_index(units: FloatRows, least: float) -> ClosePairs:
    cells, count = _Cells(units), len(units)
    probes, recall = _enough_probes(cells, units, least)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, count, _QUERIES):
        at, beside = cells.near(units[start : start + _QUERIES], least, probes)
        found.append(_in_order(start + at, beside))
    return ClosePairs(_once(np.concatenate(found), count), recall)


class _Cells:
    """Rows by the nearest of `number` centres, in a temporary file."""

    def __init__(self, units: FloatRows) -> None:
        import faiss

        count, dimension = units.shape
        self.number = round(2 * count**0.5)
        sample = np.random.default_rng(_SEED).permutation(count)[: self.number * _TRAINED_ON]
        means = faiss.Kmeans(
            *(dimension, self.number),
            niter=10,
            seed=_SEED,
            spherical=True,
            min_points_per_centroid=1,
        )
        means.train(units[np.sort(sample)])
        self._centres = means.index
        places = [np.arange(at, min(at + _AT_ONCE, count)) for at in range(0, count, _AT_ONCE)]
        cells = np.concatenate([self._centres.search(units[part], 1)[1][:, 0] for part in places])
        self._order = np.argsort(cells, kind="stable")
        self._starts = np.searchsorted(cells[self._order], np.arange(self.number + 1))
        self._rows = rows_on_disk(units[self._order[part]] for part in places)

    def near(self, queries: FloatRows, least: float, probes: int) -> tuple[Ids, Ids]:
        """Positions of queries and of rows in their nearest cells whose product is large enough."""
        cells = self._centres.search(queries, probes)[1].reshape(-1)
        order = np.argsort(cells, kind="stable")
        starts = np.searchsorted(cells[order], np.arange(self.number + 1))
        found = [np.empty((2, 0), np.int64)]
        for cell in range(self.number):
            first, last = self._starts[cell : cell + 2]
            asked = order[starts[cell] : starts[cell + 1]] // probes
            for _, block in _blocks(asked, last - first):
                products = queries[block] @ self._rows[first:last].T
                at, beside = np.nonzero(products >= least)
                found.append(np.stack((block[at], self._order[first + beside])))
        pairs: Ids = np.concatenate(found, axis=1)
        return pairs[0], pairs[1]


def _enough_probes(cells: _Cells, units: FloatRows, least: float) -> tuple[int, float]:
    """The number of cells to search for each row, and the recall of the search."""
    chance = np.random.default_rng(_SEED)
    rows = chance.choice(len(units), min(_SAMPLE, len(units)), replace=False)
    aside = chance.standard_normal((len(rows), units.shape[1]))
    aside -= np.einsum("ij,ij->i", aside, units[rows])[:, None] * units[rows]
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    moved = ((least * units[rows]) + (1 - least**2) ** 0.5 * aside).astype(np.float32)
    probes = 1
    while True:
        at, found = cells.near(moved, least - slack(units.shape[1]), probes)
        recall = float(np.count_nonzero(found == rows[at]) / len(rows))
        if recall >= LEAST_RECALL or probes == cells.number:
            return probes, recall
        probes = min(2 * probes, cells.number)


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
