"""What scores do not show: how similarities are spread, and what the worst queries found instead.

Rows are those of `retrieval.embeddings.unit_rows`. Memory is bounded: only some queries are looked
at, a few million similarities at most.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids
from retrieval.similarity.products import Similarities, pair_similarities

BINS = 48
_LEAST_QUERIES = 16
_STEPS = 20  # the borders of a histogram are multiples of a twentieth


class SimilarityCounts(NamedTuple):
    """How many pairs have a cosine in which of `BINS` equal bins from `low` to `high`.

    `matches` are pairs of one identity, `others` of two; `queries` is how many queries were paired
    with the whole gallery.
    """

    low: float
    high: float
    matches: NDArray[np.int64]
    others: NDArray[np.int64]
    queries: int


class Find(NamedTuple):
    """A row of the gallery at a rank (from 1) of a query's list."""

    row: int
    rank: int
    similarity: float
    is_match: bool


class WorstQuery(NamedTuple):
    """A query by its row, and what it found: the first few, and its first match below them."""

    row: int
    first_match_rank: int
    finds: tuple[Find, ...]


def similarity_counts(
    queries: FloatRows,
    gallery: FloatRows,
    query_ids: Ids,
    gallery_ids: Ids,
    *,
    seed: int = 0,
    most_pairs: int = 4_000_000,
) -> SimilarityCounts:
    """The spread of similarities of matches and of others.

    Where there are more than about `most_pairs` pairs, queries are drawn with `seed`.
    """
    wanted = min(len(queries), max(_LEAST_QUERIES, most_pairs // len(gallery)))
    drawn = np.sort(np.random.default_rng(seed).permutation(len(queries))[:wanted])
    similarities = np.clip(queries[drawn] @ gallery.T, -1, 1)
    low = float(np.floor(similarities.min() * _STEPS) / _STEPS)
    high = float(np.ceil(similarities.max() * _STEPS) / _STEPS)
    high = max(high, low + 1 / _STEPS)
    is_match = query_ids[drawn, None] == gallery_ids[None, :]
    counts = [
        np.histogram(similarities[chosen], BINS, (low, high))[0] for chosen in (is_match, ~is_match)
    ]
    return SimilarityCounts(low, high, counts[0], counts[1], wanted)


def worst_queries(
    queries: FloatRows,
    gallery: FloatRows,
    query_ids: Ids,
    gallery_ids: Ids,
    first_match_ranks: NDArray[np.integer],
    *,
    count: int,
    shown: int,
) -> list[WorstQuery]:
    """The queries whose first match stands lowest, the lowest first, one of an identity.

    A query that found a match first is none of them: it did what it should.

    Args:
        queries: rows of unit length, of shape (n, d).
        gallery: rows of unit length, of shape (m, d).
        query_ids: the identity of each query, of shape (n,).
        gallery_ids: the identity of each row of the gallery, of shape (m,).
        first_match_ranks: of each query, from 1, as `RetrievalScores.best_rank` has them; 0 where
            it has no match.
        count: how many queries are wanted.
        shown: how many of the first rows of the gallery are shown for each.
    """
    lowest_first = np.argsort(-first_match_ranks, kind="stable")
    lowest_first = lowest_first[first_match_ranks[lowest_first] > 1]
    _, firsts = np.unique(query_ids[lowest_first], return_index=True)
    rows = lowest_first[np.sort(firsts)[:count]]
    return [
        WorstQuery(
            row=int(row),
            first_match_rank=int(first_match_ranks[row]),
            finds=_finds(
                _similarities(queries, gallery, row),
                gallery_ids == query_ids[row],
                int(first_match_ranks[row]),
                shown,
            ),
        )
        for row in rows
    ]


def _similarities(queries: FloatRows, gallery: FloatRows, row: np.intp) -> Similarities:
    """Those of a query with the whole gallery, by the rule that its rank was found by."""
    places = np.arange(len(gallery))
    return pair_similarities(queries, gallery, np.full_like(places, row), places)


def _finds(
    similarities: Similarities, is_match: NDArray[np.bool_], first_match_rank: int, shown: int
) -> tuple[Find, ...]:
    order = np.lexsort((is_match, -similarities))  # of equals, matches come last
    ranks = [*range(1, min(shown, len(order)) + 1)]
    ranks += [first_match_rank] if first_match_rank > shown else []
    return tuple(
        Find(int(place), rank, float(similarities[place]), bool(is_match[place]))
        for rank, place in ((rank, order[rank - 1]) for rank in ranks)
    )
