"""The scores of a retrieval by identity, computed without storing the similarity matrix.

Queries are processed in blocks, the gallery in parts. For each tile of their product, a loop counts
and sums what ranks above each match; nothing is sorted or stored. Ranks are exact: what float32
cannot distinguish is decided by the rule of `retrieval.similarity.products`. So they do not depend
on the size of a block, the number of workers or the order of the gallery.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrieval.embeddings import (
    FloatRows,
    Ids,
    check_same_space,
    checked_ids,
    checked_shape,
    unit_rows,
)
from retrieval.metrics import (
    Floats,
    RankedMatches,
    average_precision,
    best_ranks,
    inverse_negative_penalty,
    median_rank,
    rank_curve,
    recall_at,
    similarity_distribution,
    similarity_distribution_released,
)
from retrieval.similarity.products import (
    limits,
    pair_similarities,
    products_in_their_own_thread,
)
from schemas.errors import UsageError
from schemas.processes import usual_workers

if TYPE_CHECKING:
    from retrieval.kernels import QueryBlock

RECALLS = (1, 5, 10)
MEMORY_MIB = 256

_MOST_QUERIES = 1024  # of a block: more do not make the product any faster
_MOST_GALLERY = 2048  # of a part: tiles stay near the processor
_BYTES_OF_A_PAIR = 120  # of a query and a match, while a block is worked on


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """The result of each query, and the means. Shares lie in [0, 1]; NaN without a match.

    Attributes:
        gallery: how many items the gallery has.
        recalls: the k of R@k that `means` gives.
        matches: how many matches each query has in the gallery, of shape (queries,).
        best_rank: the rank of its first match, from 1; 0 without a match.
        average_precision: see `retrieval.metrics`.
        similarity_distribution: see `retrieval.metrics`; None where scores are no cosines.
        similarity_distribution_released: what the authors' calculator gives instead; it changes
            with the order of the gallery, and is none of the metrics.
        inverse_negative_penalty: see `retrieval.metrics`.
    """

    gallery: int
    recalls: tuple[int, ...]
    matches: Ids
    best_rank: Ids
    average_precision: Floats
    similarity_distribution: Floats | None
    similarity_distribution_released: Floats
    inverse_negative_penalty: Floats

    @property
    def queries(self) -> int:
        """The number of queries, those without a match included."""
        return len(self.matches)

    @property
    def unmatched(self) -> int:
        """The number of queries without a match, which are left out of all means."""
        return self.queries - int(np.count_nonzero(self.matches))

    @property
    def by_query(self) -> dict[str, Floats]:
        """The values behind `means`, in percent, of shape (queries,); NaN without a match."""
        shares = {f"R@{k}": recall_at(k, self.best_rank) for k in self.recalls}
        shares["mAP"] = self.average_precision
        if self.similarity_distribution is not None:
            shares["mSD"] = self.similarity_distribution
        shares["mINP"] = self.inverse_negative_penalty
        return {name: 100 * values for name, values in shares.items()}

    def means(self, chosen: NDArray[np.bool_] | None = None) -> dict[str, float]:
        """The means of the metrics over queries with a match; in percent except `median_rank`.

        Args:
            chosen: which queries to look at, of shape (queries,); all by default.

        Raises:
            UsageError: none of the queries has a match.
        """
        counted = self.matches > 0
        if chosen is not None:
            counted &= chosen
        if not counted.any():
            raise UsageError("no query has a match in the gallery: there is nothing to score")
        means = {name: float(values[counted].mean()) for name, values in self.by_query.items()}
        return {**means, "median_rank": median_rank(self.best_rank[counted])}

    def rank_curve(self, depth: int) -> Floats:
        """R@1 … R@depth, in percent, of shape (depth,)."""
        return rank_curve(self.best_rank, depth)


def score_retrieval(
    queries: ArrayLike,
    gallery: ArrayLike,
    query_ids: ArrayLike,
    gallery_ids: ArrayLike,
    *,
    recalls: Sequence[int] = RECALLS,
    memory_mib: int = MEMORY_MIB,
    workers: int | None = None,
    names: tuple[str, str, str, str] = ("queries", "gallery", "query ids", "gallery ids"),
) -> RetrievalScores:
    """The scores of finding the gallery items of each query's identity.

    Any number of items may have a query's identity; each is a match. For the other direction,
    exchange queries and gallery.

    Args:
        queries: floats of shape (n, d), of any length and precision; read block by block, so a
            memory-mapped file need not fit into memory.
        gallery: floats of shape (m, d); one float32 copy of it is kept.
        query_ids: integers, of shape (n,).
        gallery_ids: integers, of shape (m,).
        recalls: which R@k are wanted; a k beyond the gallery counts all queries with a match.
        memory_mib: how much working memory to use, beside the embeddings; no result depends on it.
        workers: threads; as many as there are processors, at most 8, by default.
        names: what to call the four arrays in messages.

    Raises:
        UsageError: an array cannot be used, or no query has a match in the gallery.
    """
    if not recalls or min(recalls) < 1:
        raise UsageError(f"recalls must be numbers from 1; got {list(recalls)}")
    if memory_mib < 1:
        raise UsageError(f"memory must be at least 1 MiB; got {memory_mib}")
    asked = checked_shape(queries, names[0])
    ids = checked_ids(query_ids, len(asked), names[2])
    sorted_gallery = _Gallery.of(unit_rows(gallery, names[1]), gallery_ids, names[3])
    check_same_space(asked, sorted_gallery.rows, (names[0], names[1]))
    firsts, counts = sorted_gallery.matches_of(ids)
    if not counts.any():
        raise UsageError(
            f"no id of {names[2]} is among {names[3]}: no query has a match, nothing to score"
        )
    threads = workers or usual_workers()
    scoring = _Scoring(
        asked, names[0], sorted_gallery, firsts, counts, (memory_mib << 20) // threads
    )
    found = scoring.run(threads)
    return RetrievalScores(len(sorted_gallery.rows), tuple(recalls), counts, *found)


def load_kernels() -> None:
    """Loads the compiled loops, compiling them if necessary, so that later calls are fast."""
    corner = np.eye(2, dtype=np.float32)
    score_retrieval(corner, corner, [0, 1], [0, 1], workers=1, memory_mib=1)


class _Gallery(NamedTuple):
    """The gallery in order of identity, so that the matches of a query are adjacent.

    Attributes:
        rows: unit rows, of shape (m, d).
        ids: rising, of shape (m,).
        place: where each row of the gallery as given is now, of shape (m,).
        total: the sum of all rows, of shape (d,).
    """

    rows: FloatRows
    ids: Ids
    place: Ids
    total: Floats

    @classmethod
    def of(cls, rows: FloatRows, ids: ArrayLike, name: str) -> "_Gallery":
        given = checked_ids(ids, len(rows), name)
        order = np.argsort(given, kind="stable")
        total = rows.sum(axis=0, dtype=np.float64)
        return cls(rows[order], given[order], np.argsort(order), total)

    def matches_of(self, ids: Ids) -> tuple[Ids, Ids]:
        """The positions of the first matches of `ids`, and the numbers of matches."""
        firsts = np.searchsorted(self.ids, ids, side="left")
        return firsts, np.searchsorted(self.ids, ids, side="right") - firsts


class _Found(NamedTuple):
    """The arrays of `RetrievalScores` of some queries."""

    best_rank: Ids
    average_precision: Floats
    similarity_distribution: Floats
    similarity_distribution_released: Floats
    inverse_negative_penalty: Floats


class _Scoring(NamedTuple):
    """What all blocks of queries share; `memory` is the number of bytes that a block may use."""

    queries: NDArray[np.generic]
    name: str
    gallery: _Gallery
    firsts: Ids
    counts: Ids
    memory: int

    def run(self, workers: int) -> _Found:
        """Scores all queries, `workers` blocks at a time."""
        blocks = list(self._blocks())
        width = self._width()
        most = max(block.stop - block.start for block in blocks)
        tiles: SimpleQueue[NDArray[np.float32]] = SimpleQueue()
        for _ in range(workers):
            tiles.put(np.empty(most * width, dtype=np.float32))

        def score(block: slice) -> _Found:
            tile = tiles.get()
            try:
                return self._score(block, tile, width)
            finally:
                tiles.put(tile)

        with products_in_their_own_thread(), ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(score, blocks))
        return _Found(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _width(self) -> int:
        """The number of gallery items that are multiplied with a block at once."""
        return max(1, min(len(self.gallery.rows), _MOST_GALLERY, self.memory // 8))

    def _blocks(self) -> Iterator[slice]:
        """Queries that are processed together: tile, rows and pairs with matches are bounded."""
        bytes_of_query = 8 * self._width() + 16 * self.queries.shape[1]
        cost = np.cumsum(bytes_of_query + _BYTES_OF_A_PAIR * self.counts)
        start, spent = 0, 0
        while start < len(cost):
            end = int(np.searchsorted(cost, spent + self.memory, side="right"))
            end = max(start + 1, min(end, start + _MOST_QUERIES))
            yield slice(start, end)
            start, spent = end, int(cost[end - 1])

    def _score(self, block: slice, tile: NDArray[np.float32], width: int) -> _Found:
        from retrieval.kernels import rank_tile

        rows = unit_rows(self.queries[block], self.name, first_row=block.start)
        pairs = self._pairs(block, rows)
        for start in range(0, len(self.gallery.rows), width):
            part = self.gallery.rows[start : start + width]
            products = tile[: len(rows) * len(part)].reshape(len(rows), len(part))
            np.matmul(rows, part.T, out=products)
            rank_tile(products, pairs, part, start)
        matches = self._matches(pairs)
        released = similarity_distribution_released(matches, *self._by_place(matches, rows))
        return _Found(
            best_ranks(matches),
            average_precision(matches),
            similarity_distribution(matches),
            released,
            inverse_negative_penalty(matches),
        )

    def _pairs(self, block: slice, rows: FloatRows) -> "QueryBlock":
        """The queries of a block with their matches, without counts."""
        from retrieval.kernels import QueryBlock

        firsts, counts = self.firsts[block], self.counts[block]
        starts = np.concatenate(([0], np.cumsum(counts)))
        query_of = np.repeat(np.arange(len(rows)), counts)
        places = np.arange(starts[-1]) + np.repeat(firsts - starts[:-1], counts)
        thresholds = pair_similarities(rows, self.gallery.rows, query_of, places)
        thresholds = thresholds[np.lexsort((-thresholds, query_of))]
        above, below = limits(thresholds, rows.shape[1])
        nothing = np.zeros((2, len(thresholds)), dtype=np.int64)
        return QueryBlock(rows, firsts, starts, thresholds, above, below, *nothing)

    def _matches(self, pairs: "QueryBlock") -> RankedMatches:
        """The counts of a block, with similarities normalised to [0, 1]."""
        from retrieval.kernels import FIXED_POINT

        matches = RankedMatches(
            gallery=len(self.gallery.rows),
            starts=pairs.starts,
            similarities=_normalised(pairs.thresholds, 1),
            others_above=pairs.counts,
            others_above_sum=_normalised(pairs.sums / FIXED_POINT, pairs.counts),
            others_sum=_normalised(pairs.rows @ self.gallery.total, len(self.gallery.rows)),
        )
        matches.others_sum[:] -= matches.sum_by_query(matches.similarities)
        np.maximum(matches.others_sum, 0, out=matches.others_sum)
        return matches

    def _by_place(self, matches: RankedMatches, rows: FloatRows) -> tuple[Floats, Floats]:
        """Similarities with the items at the ranks of matches in the gallery as given."""
        from retrieval.kernels import sum_up_to

        places = matches.ranks - 1
        at_place, up_to_place = np.empty((2, len(places)))
        order = np.argsort(places, kind="stable")
        sum_up_to(
            rows,
            matches.query_of,
            self.gallery.rows,
            self.gallery.place,
            places,
            order,
            at_place,
            up_to_place,
        )
        return _normalised(at_place, 1), _normalised(up_to_place, matches.ranks)


def _normalised(similarities: Floats, count: NDArray[np.int64] | int) -> Floats:
    """Cosines, or sums of `count` of them, normalised from [-1, 1] to [0, 1]: (cos + 1) / 2."""
    return np.maximum((similarities + count) / 2, 0)
