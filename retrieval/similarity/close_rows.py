"""Pairs of close rows of embeddings: exact, or with an index if there are too many rows.

Matrix products in float32 propose pairs; their distance in float64 decides, so that results do not
depend on blocks, threads or the machine.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids

Rows = NDArray[Any]
"""Embeddings of any float type and length, of shape (n, d)."""

EXACT_UP_TO = 100_000
"""Above this number of rows an index is used, because comparing all pairs takes minutes to days."""
LEAST_RECALL = 0.99

_BLOCK_CELLS = 1 << 24  # 64 MiB of products: products of fewer rows are slow
_AT_ONCE = 1 << 14
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
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    if np.allclose(lengths, 1.0, rtol=0, atol=_UNIT_WITHIN):
        return found
    return np.asarray(found / np.where(lengths > 0, lengths, np.float32(1.0)), np.float32)


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

    Exact up to `EXACT_UP_TO` rows, and if `asked` is given. For more rows, an index of cells
    (faiss, `IndexIVFFlat`) searches as many cells as it takes to find `LEAST_RECALL` of a thousand
    copies of rows that were moved, each in a random direction, by the allowed distance.

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
    step = max(1, _BLOCK_CELLS // max(1, columns))
    for start in range(0, len(rows), step):
        yield start, rows[start : start + step]


def _by_index(units: FloatRows, least: float) -> ClosePairs:
    import faiss

    count, dimension = units.shape
    cells = round(2 * count**0.5)
    sample = np.random.default_rng(_SEED).permutation(count)[: cells * _TRAINED_ON]
    index = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(dimension), dimension, cells, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.seed, index.cp.niter, index.cp.min_points_per_centroid = _SEED, 10, 1
    index.train(units[sample])
    index.add(units)
    recall = _probe_enough(index, units, least, cells)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, count, _AT_ONCE):
        at, beside = _asked(index, units[start : start + _AT_ONCE], least)
        found.append(_in_order(start + at, beside))
    return ClosePairs(_once(np.concatenate(found), count), recall)


def _probe_enough(index: Any, units: FloatRows, least: float, cells: int) -> float:
    """Sets the number of cells that the index searches; returns its recall."""
    chance = np.random.default_rng(_SEED)
    rows = chance.choice(len(units), min(_SAMPLE, len(units)), replace=False)
    aside = chance.standard_normal((len(rows), units.shape[1]))
    aside -= np.einsum("ij,ij->i", aside, units[rows])[:, None] * units[rows]
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    moved = ((least * units[rows]) + (1 - least**2) ** 0.5 * aside).astype(np.float32)
    index.nprobe = 1
    while True:
        at, found = _asked(index, moved, least - slack(units.shape[1]))
        recall = float(np.count_nonzero(found == rows[at]) / len(rows))
        if recall >= LEAST_RECALL or index.nprobe >= cells:
            return recall
        index.nprobe *= 2


def _asked(index: Any, queries: FloatRows, least: float) -> tuple[Ids, Ids]:
    """Positions of queries and of rows of the index whose product is above `least`."""
    limits, _, found = index.range_search(queries, least)
    counts: Ids = np.diff(limits.astype(np.int64))
    return np.repeat(np.arange(len(queries)), counts), found
