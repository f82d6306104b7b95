"""The scores of a retrieval by identity, without storing the similarity matrix.

Queries are processed in blocks, the gallery in parts. For each tile of their product, a loop counts
and sums what ranks above each match; nothing is sorted or stored. Ranks are exact: what float32
cannot distinguish is decided by the rule of `loupe.retrieval.similarity.products`. So they do not
depend on the size of a block, the number of workers or the order of the gallery.

Confidence intervals come from a bootstrap over identities or other groups. Queries of one identity
share their matches and are not independent, so whole groups are drawn with replacement (Davison and
Hinkley, Bootstrap Methods and their Application, section 3.8); percentiles of the resulting means
form the interval.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.embeddings import (
    FloatRows,
    Ids,
    check_same_space,
    checked_ids,
    checked_shape,
    unit_rows,
)
from loupe.retrieval.similarity.products import (
    limits,
    pair_similarities,
    products_in_their_own_thread,
)
from loupe.schemas.errors import UsageError
from loupe.schemas.processes import usual_workers
from loupe.schemas.quality import CONFIDENCE

if TYPE_CHECKING:
    from loupe.retrieval.kernels import QueryBlock

# The ranks of the matches of queries: all that the metrics need to know.

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """The matches of some queries in one gallery, the most similar match of a query first.

    Values of matches are stored query by query in arrays of shape (matches,), of which `starts[q]`
    to `starts[q + 1]` are those of query q. Similarities s are normalised to [0, 1]: (cos + 1) / 2.
    An item that is no match and exactly as similar as a match ranks before it.

    Attributes:
        gallery: how many items the gallery has.
        starts: of shape (queries + 1,).
        similarities: s of each match, in [0, 1], of shape (matches,).
        others_above: how many non-matches rank above it, of shape (matches,).
        others_above_sum: the sum of their s, of shape (matches,).
        others_sum: the sum of s over all non-matches of a query, of shape (queries,).
    """

    gallery: int
    starts: Ids
    similarities: Floats
    others_above: Ids
    others_above_sum: Floats
    others_sum: Floats

    @property
    def counts(self) -> Ids:
        """The number of matches of each query, of shape (queries,)."""
        return np.diff(self.starts)

    @property
    def query_of(self) -> Ids:
        """The query of each match, of shape (matches,)."""
        return np.repeat(np.arange(len(self.starts) - 1), self.counts)

    @property
    def places(self) -> Ids:
        """1 for the best match of a query, 2 for the next, …, of shape (matches,)."""
        return 1 + np.arange(len(self.similarities)) - np.repeat(self.starts[:-1], self.counts)

    @property
    def ranks(self) -> Ids:
        """The rank of each match, from 1, of shape (matches,)."""
        return self.places + self.others_above

    def sum_by_query(self, values: Floats) -> Floats:
        """The sum of `values`, one of each match, of shape (queries,); 0 without matches."""
        sums = np.zeros(len(self.counts))
        np.add.at(sums, self.query_of, values)
        return sums

    def mean_by_query(self, values: Floats) -> Floats:
        """The mean of `values`, one of each match, of shape (queries,); NaN without matches."""
        return divided(self.sum_by_query(values), self.counts, without=np.nan)

    def running_sum(self, values: Floats) -> Floats:
        """The sum over each match and the better ones of its query, of shape (matches,)."""
        total = np.concatenate(([0.0], np.cumsum(values)))
        since_start: Floats = total[1:] - np.repeat(total[self.starts[:-1]], self.counts)
        return since_start


def divided(above: Floats, below: NDArray[np.number], *, without: float) -> Floats:
    """`above / below`, and `without` where `below` is 0."""
    quotient = np.full(np.shape(above), without, dtype=np.float64)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient


# R@k: the share of queries that have a match among the first k of the gallery.


def best_ranks(matches: RankedMatches) -> Ids:
    """The rank of each query's first match, from 1, of shape (queries,); 0 without matches."""
    ranks = np.zeros(len(matches.counts), dtype=np.int64)
    matched = matches.counts > 0
    ranks[matched] = matches.ranks[matches.starts[:-1][matched]]
    return ranks


def rank_curve(ranks: Ids, depth: int) -> NDArray[np.float64]:
    """R@1 … R@depth in percent over all queries that have a match, of shape (depth,)."""
    found = np.bincount(ranks[(ranks > 0) & (ranks <= depth)], minlength=depth + 1)[1:]
    curve: NDArray[np.float64] = 100 * np.cumsum(found) / max(1, int(np.count_nonzero(ranks)))
    return curve


# AP, whose mean over queries is mAP: how pure the ranking is down to each match.


def average_precision(matches: RankedMatches) -> Floats:
    """The average precision of each query, in (0, 1], of shape (queries,); NaN without matches.

    With n matches at ranks j_1 < … < j_n::

        AP = 1/n · Σ_k k / j_k

    Every match counts, however low it ranks; nothing is interpolated.
    """
    return matches.mean_by_query(matches.places / matches.ranks)


# INP, whose mean over queries is mINP: what it costs to find the hardest match.


def inverse_negative_penalty(matches: RankedMatches) -> Floats:
    """The inverse negative penalty of each query, in (0, 1]; NaN without matches.

    With n matches, the last of them at rank j_n::

        INP = n / j_n

    (Ye et al., Deep Learning for Person Re-identification: A Survey and Outlook, equation 5.)
    """
    penalties = np.full(len(matches.counts), np.nan)
    matched = matches.counts > 0
    last = matches.ranks[matches.starts[1:][matched] - 1]
    penalties[matched] = matches.counts[matched] / last
    return penalties


# SD, whose mean over queries is mSD: how far matches stand out, in similarity and in rank.


def similarity_distribution(matches: RankedMatches) -> Floats:
    """The similarity distribution of each query (UFineBench, section 3.4), in [0, 1).

    With similarities s normalised to [0, 1], sorted by falling similarity, and n matches at ranks
    j_1 < … < j_n::

        x   = mean(s over matches) / mean(s over non-matches)
        PNR = 1 - exp(-x)
        ASP = 1/n · Σ_k [ Σ_{i ≤ k} s(j_i) / Σ_{r ≤ j_k} s(r) ]
        SD  = PNR · ASP

    Where the gallery holds nothing but matches, or all else has s = 0, x is infinite and PNR is 1.
    A quotient 0 / 0 in ASP counts as 0.

    Returns:
        Of shape (queries,); NaN without matches.
    """
    above = matches.running_sum(matches.similarities)
    precision = divided(above, above + matches.others_above_sum, without=0.0)
    mean = matches.mean_by_query(matches.similarities)
    others_mean = divided(matches.others_sum, matches.gallery - matches.counts, without=0.0)
    return _positive_negative_ratio(mean, others_mean) * matches.mean_by_query(precision)


def _positive_negative_ratio(mean: Floats, others_mean: Floats) -> Floats:
    """PNR = 1 - exp(-x) of x = mean / others_mean; 1 where others_mean is 0."""
    ratio = divided(mean, others_mean, without=np.inf)
    return -np.expm1(-ratio)


# mSD as the calculator computes it that was released with UFineBench: not what the paper defines.
#
# `mSD_Calculator.py` (github.com/Zplusdragon/UFineBench) sorts identities by similarity but leaves
# similarities in the order of the gallery, and multiplies the two as if they belonged together. So
# where a match has rank j, it takes the similarity of the *j-th item of the gallery as given*
# for that of the match, and sums of similarities run over the gallery as given, too. The value
# changes when the gallery is shuffled. The published values are not its values (with perfect
# retrieval it gives 62 to 64, the paper prints up to 68.45), but the definition's.


def similarity_distribution_released(
    matches: RankedMatches, at_rank: Floats, up_to_rank: Floats
) -> Floats:
    """The "SD" of each query that the released calculator averages; NaN without matches.

    With similarities u, normalised to [0, 1], in the order of the gallery, and n matches at ranks
    j_1 < … < j_n, its formulas are those of the definition on u(j_i)::

        x   = mean(u(j_i)) / mean(u over all other places)
        ASP = 1/n · Σ_k [ Σ_{i ≤ k} u(j_i) / Σ_{r ≤ j_k} u(r) ]
        SD  = (1 - exp(-x)) · ASP

    Ties are ordered as in `RankedMatches`; the calculator leaves them to an unstable sort.

    Args:
        matches: the ranks of the matches.
        at_rank: u(j) for the rank j of each match, of shape (matches,).
        up_to_rank: the sum of u over the first j items of the gallery, of shape (matches,).
    """
    total = matches.others_sum + matches.sum_by_query(matches.similarities)
    taken = matches.sum_by_query(at_rank)
    others_mean = divided(total - taken, matches.gallery - matches.counts, without=0.0)
    precision = divided(matches.running_sum(at_rank), up_to_rank, without=0.0)
    ratio = _positive_negative_ratio(matches.mean_by_query(at_rank), others_mean)
    return ratio * matches.mean_by_query(precision)


REPLICATES = 1000
SEED = 20
"""Seed of the bootstrap, so that the same data have the same interval."""

TAILS = 50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)
"""The percentiles at the ends of an interval."""

_DRAWS_AT_ONCE = 1 << 20  # 8 MiB, whatever the number of groups


class Interval(NamedTuple):
    """A mean over queries with its interval."""

    value: float
    low: float
    high: float


def bootstrap_means(
    values: Mapping[str, Floats],
    groups: ArrayLike,
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> dict[str, Interval]:
    """The mean of each metric with its percentile interval; deterministic for a seed.

    All metrics use the same draws. The order of queries and the numbers of groups do not matter,
    only which queries belong together and the order of the groups. Memory is bounded: groups are
    drawn in portions.

    Args:
        values: of each metric, one of each query, of shape (queries,); NaN where a query does not
            count (it has no match). A metric of which none counts is left out.
        groups: the identity, or other group, of each query, of shape (queries,).
        replicates: how often groups are drawn.
        seed: what they are drawn with.
    """
    counting = {name: one for name, one in values.items() if not np.isnan(one).all()}
    if not counting:
        return {}
    _, group_of = np.unique(np.asarray(groups), return_inverse=True)
    sums, counts = _by_group(np.stack(list(counting.values())), group_of)

    def means_of(weights: Floats) -> Floats:
        return divided(weights @ sums, weights @ counts, without=np.nan)

    drawn = resampled(np.ones(len(sums), np.int64), means_of, replicates, seed)
    low, high = np.nanpercentile(drawn, TAILS, axis=0)
    means = sums.sum(axis=0) / counts.sum(axis=0)
    return {
        name: Interval(*(float(part[at]) for part in (means, low, high)))
        for at, name in enumerate(counting)
    }


def _by_group(values: Floats, group_of: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Sums and counts of valid values, of shape (groups, metrics), from (metrics, queries)."""
    counts = [np.bincount(group_of, weights=~np.isnan(one)) for one in values]
    sums = [np.bincount(group_of, weights=np.nan_to_num(one)) for one in values]
    return np.stack(sums, axis=1), np.stack(counts, axis=1)


def resampled(
    counts: NDArray[np.int64], statistic: Callable[[Floats], Floats], replicates: int, seed: int
) -> Floats:
    """A statistic of bootstrap samples of items, of shape (replicates, …).

    Items are drawn with replacement, as often as there are; those of one pattern are drawn
    together, as a multinomial count. Memory is bounded.

    Args:
        counts: how many items have each pattern, of shape (patterns,).
        statistic: gives the statistic, of shape (n, …), from the counts of patterns in n samples,
            of shape (n, patterns).
        replicates: how many samples.
        seed: what they are drawn with.
    """
    generator = np.random.default_rng(seed)
    items, shares = int(counts.sum()), counts / counts.sum()
    at_once = max(1, _DRAWS_AT_ONCE // len(counts))
    return np.concatenate(
        [
            statistic(
                generator.multinomial(items, shares, size=min(at_once, replicates - done)).astype(
                    np.float64
                )
            )
            for done in range(0, replicates, at_once)
        ]
    )


RECALLS = (1, 5, 10)
"""The k of R@k; where k is larger than the gallery, all queries with a match have found it."""
JUNK = -1
"""The identity of gallery items that are left out."""
_MEMORY_MIB = 256

_MOST_QUERIES = 1024  # of a block: more do not make the product any faster
_MOST_GALLERY = 2048  # of a part: tiles stay near the processor
_BYTES_OF_A_PAIR = 120  # of a query and a match, while a block is worked on


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """The result of each query, and the means. Shares lie in [0, 1]; NaN without a match.

    Attributes:
        gallery: how many items the gallery has.
        matches: how many matches each query has in the gallery, of shape (queries,).
        best_rank: the rank of its first match, from 1; 0 without a match.
        average_precision: see `average_precision`.
        similarity_distribution: see `similarity_distribution`; None where scores are no cosines.
        similarity_distribution_released: what the authors' calculator gives instead; it changes
            with the order of the gallery, and is none of the metrics.
        inverse_negative_penalty: see `inverse_negative_penalty`.
    """

    gallery: int
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
        ranks = self.best_rank
        shares = {f"R@{k}": np.where(ranks > 0, ranks <= k, np.nan) for k in RECALLS}
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
        return {**means, "median_rank": float(np.median(self.best_rank[counted]))}

    def rank_curve(self, depth: int) -> Floats:
        """R@1 … R@depth, in percent, of shape (depth,)."""
        return rank_curve(self.best_rank, depth)


def score_retrieval(
    queries: ArrayLike,
    gallery: ArrayLike,
    query_ids: ArrayLike,
    gallery_ids: ArrayLike,
    *,
    memory_mib: int = _MEMORY_MIB,
    workers: int | None = None,
    names: tuple[str, str, str, str] = ("queries", "gallery", "query ids", "gallery ids"),
) -> RetrievalScores:
    """The scores of finding the gallery items of each query's identity.

    Any number of items may have a query's identity; each is a match. Gallery items of the identity
    -1 are junk, as in Market-1501: they are left out. For the other direction, exchange queries and
    gallery.

    Args:
        queries: floats of shape (n, d), of any length and precision; read block by block, so a
            memory-mapped file need not fit into memory.
        gallery: floats of shape (m, d); one float32 copy of it is kept.
        query_ids: integers, of shape (n,).
        gallery_ids: integers, of shape (m,).
        memory_mib: how much working memory to use, beside the embeddings; no result depends on it.
        workers: threads; as many as there are processors, at most 8, by default.
        names: what to call the four arrays in messages.

    Raises:
        UsageError: an array cannot be used, or no query has a match in the gallery.
    """
    if memory_mib < 1:
        raise UsageError(f"memory must be at least 1 MiB; got {memory_mib}")
    asked = checked_shape(queries, names[0])
    ids = checked_ids(query_ids, len(asked), names[2])
    rows = unit_rows(gallery, names[1])
    known = checked_ids(gallery_ids, len(rows), names[3])
    if (is_junk := known == JUNK).any():
        rows, known = rows[~is_junk], known[~is_junk]
    sorted_gallery = _Gallery.of(rows, known)
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
    return RetrievalScores(len(sorted_gallery.rows), counts, *found)


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
    def of(cls, rows: FloatRows, ids: Ids) -> "_Gallery":
        order = np.argsort(ids, kind="stable")
        total = rows.sum(axis=0, dtype=np.float64)
        return cls(rows[order], ids[order], np.argsort(order), total)

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
        from loupe.retrieval.kernels import rank_tile

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
        from loupe.retrieval.kernels import QueryBlock

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
        from loupe.retrieval.kernels import FIXED_POINT

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
        from loupe.retrieval.kernels import sum_up_to

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
