"""One direction of an evaluation: from vectors to the record of its scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.retrieval.embeddings import FloatRows, Ids, unit_rows
from loupe.retrieval.ranking import REPLICATES, RetrievalScores, bootstrap_means, score_retrieval
from loupe.retrieval.score_matrix import Rerank, score_similarities
from loupe.retrieval.similarity.products import pair_similarities
from loupe.schemas.errors import UsageError
from loupe.schemas.evaluation import (
    Direction,
    DirectionResult,
    GroupResult,
    HardQuery,
    PersonHits,
    Retrieved,
    Score,
    Scores,
    ShownItem,
    SimilarityHistogram,
)

_CURVE_DEPTH = 50
"""The depth of rank curves."""
_HARDEST = 8
"""The number of hardest queries that are kept, and of results kept for each."""
SHOWN = 6
INTERVAL = f"95 %, percentile bootstrap over identities, {REPLICATES:,} draws"
PROTOCOL = (
    "every query against the whole gallery by cosine; items of the query's identity match; ties "
    "count as errors"
)
RERANKED = "; the first {} of each query are sorted by cosine plus the score of the matching head"
"""Added to the protocol of a reranked evaluation."""


class Side(NamedTuple):
    """Queries or gallery: the items, their vectors, and the groups that they belong to.

    `groups` gives the group of every item by dimension ("source", "granularity" …).
    """

    items: Sequence[ShownItem]
    rows: FloatRows
    groups: Mapping[str, Sequence[str]]

    @classmethod
    def of(
        cls,
        items: Sequence[ShownItem],
        vectors: NDArray[np.generic],
        groups: Mapping[str, Sequence[str]],
        name: str,
    ) -> "Side":
        """Items with their vectors, normalised to unit length.

        Raises:
            UsageError: the vectors are not one for each item, or one of them cannot be compared.
        """
        if len(vectors) != len(items):
            raise UsageError(
                f"{name} must have a row for each of the {len(items):,} of the release; "
                f"got {len(vectors):,}"
            )
        return cls(items, unit_rows(vectors, name), groups)

    def chosen(self, wanted: NDArray[np.bool_]) -> "Side":
        """The chosen items, with the groups that still divide them."""
        places = np.flatnonzero(wanted).tolist()
        groups = {name: [labels[at] for at in places] for name, labels in self.groups.items()}
        telling = {name: labels for name, labels in groups.items() if len(set(labels)) > 1}
        return Side([self.items[at] for at in places], self.rows[wanted], telling)

    @property
    def ids(self) -> Ids:
        """The person of each item."""
        return np.array([item.person for item in self.items], dtype=np.int64)


class Scored(NamedTuple):
    """The result of a direction, and of its groups."""

    direction: DirectionResult
    groups: tuple[GroupResult, ...]


def score_direction(
    direction: Direction,
    queries: Side,
    gallery: Side,
    rerank: Rerank | None = None,
) -> Scored:
    """Scores all queries, and each group of them, against the whole gallery.

    There is no histogram and there are no hardest queries if items have several vectors or are
    reranked.

    Raises:
        UsageError: the vectors of the two sides are of different length, or nothing has a match.
    """
    asked = (queries.rows, gallery.rows, queries.ids, gallery.ids)
    plain = rerank is None and queries.rows.shape[1] == gallery.rows.shape[1]
    scores = score_retrieval(*asked) if plain else score_similarities(*asked, rerank)
    depth = min(_CURVE_DEPTH, len(gallery.items))
    chance = chance_scores(scores.matches.tolist(), scores.gallery)
    result = DirectionResult(
        direction=direction,
        queries=scores.queries,
        gallery=scores.gallery,
        unmatched=scores.unmatched,
        scores=_with_intervals(scores, queries.ids),
        rank_curve=tuple(scores.rank_curve(depth).tolist()),
        chance={name: Score(value=value) for name, value in chance.items()},
        chance_curve=tuple(rank_curve(scores.matches.tolist(), scores.gallery, depth)),
        histogram=similarity_histogram(*asked) if plain else None,
        hardest=hardest_queries(queries, gallery, scores.best_rank) if plain else (),
        by_person=person_hits(scores, queries.ids),
    )
    return Scored(result, tuple(_groups(direction, scores, queries)))


def score_setting(
    setting: str,
    direction: Direction,
    queries: Side,
    gallery: Side,
    dimension: str = "setting",
) -> GroupResult:
    """R@k of all queries in a gallery of their own, as the group `setting` of a dimension.

    Raises:
        UsageError: as above.
    """
    has_several = queries.rows.shape[1] != gallery.rows.shape[1]
    score = score_similarities if has_several else score_retrieval
    scores = score(queries.rows, gallery.rows, queries.ids, gallery.ids)
    found = _with_intervals(scores, queries.ids)
    return GroupResult(
        dimension=dimension,
        group=setting,
        direction=direction,
        queries=scores.queries,
        unmatched=scores.unmatched,
        scores={name: score for name, score in found.items() if name.startswith("R@")},
    )


def _groups(direction: Direction, scores: RetrievalScores, queries: Side) -> Iterator[GroupResult]:
    for dimension, labels in queries.groups.items():
        of = np.array(labels)
        for group in dict.fromkeys(labels):
            chosen = of == group
            matched = int((scores.matches[chosen] > 0).sum())
            yield GroupResult(
                dimension=dimension,
                group=group,
                direction=direction,
                queries=int(chosen.sum()),
                unmatched=int(chosen.sum()) - matched,
                scores=_with_intervals(scores, queries.ids, chosen) if matched else {},
            )


def _with_intervals(
    scores: RetrievalScores, ids: Ids, chosen: NDArray[np.bool_] | None = None
) -> Scores:
    """The means over (chosen) queries, with intervals over persons."""
    if chosen is None:
        chosen = np.ones(scores.queries, dtype=np.bool_)
    found = {name: Score(value=value) for name, value in scores.means(chosen).items()}
    by_query = {name: values[chosen] for name, values in scores.by_query.items()}
    intervals = bootstrap_means(by_query, ids[chosen], seed=0)
    return found | {name: Score(**one._asdict()) for name, one in intervals.items()}


def person_hits(scores: RetrievalScores, ids: Ids) -> PersonHits:
    """The queries of each person with a match, and how many have one in the first place.

    Args:
        scores: of all queries.
        ids: the person of each query, of shape (queries,).
    """
    has_match = scores.matches > 0
    _, person_of = np.unique(ids[has_match], return_inverse=True)
    is_hit = scores.best_rank[has_match] == 1
    hits = np.bincount(person_of[is_hit], minlength=person_of.max() + 1)
    return PersonHits(queries=tuple(np.bincount(person_of).tolist()), hits=tuple(hits.tolist()))


# What scores do not show: the distribution of similarities, and what the hardest queries found.
#
# Memory is bounded: only a sample of queries is used, a few million similarities at most.

BINS = 48
_LEAST_QUERIES = 16
_STEPS = 20  # the borders of a histogram are multiples of a twentieth


def similarity_histogram(
    queries: FloatRows,
    gallery: FloatRows,
    query_ids: Ids,
    gallery_ids: Ids,
    *,
    seed: int = 0,
    most_pairs: int = 4_000_000,
) -> SimilarityHistogram:
    """The cosines of matches and of others, in `BINS` equal bins.

    Above about `most_pairs` pairs, a sample of the queries is drawn with `seed`. Rows have unit
    length and shapes (n, d) and (m, d).
    """
    wanted = min(len(queries), max(_LEAST_QUERIES, most_pairs // len(gallery)))
    drawn = np.sort(np.random.default_rng(seed).permutation(len(queries))[:wanted])
    similarities = np.clip(queries[drawn] @ gallery.T, -1, 1)
    low = float(np.floor(similarities.min() * _STEPS) / _STEPS)
    high = float(np.ceil(similarities.max() * _STEPS) / _STEPS)
    high = max(high, low + 1 / _STEPS)
    is_match = query_ids[drawn, None] == gallery_ids[None, :]
    matches, others = (
        tuple(np.histogram(similarities[chosen], BINS, (low, high))[0].tolist())
        for chosen in (is_match, ~is_match)
    )
    return SimilarityHistogram(low=low, high=high, matches=matches, others=others, queries=wanted)


def hardest_queries(
    queries: Side,
    gallery: Side,
    best_ranks: NDArray[np.integer],
    count: int = _HARDEST,
    shown: int = SHOWN,
) -> tuple[HardQuery, ...]:
    """The queries whose first match ranks lowest, the lowest first, one for each person.

    Queries whose first result is a match, or that have no match, are left out.

    Args:
        queries: all queries.
        gallery: what they are compared with.
        best_ranks: the rank of each query's first match, from 1; 0 without a match. Of shape (n,).
        count: the number of queries to return.
        shown: the number of first results to return for each; the first match is added below them.
    """
    lowest_first = np.argsort(-best_ranks, kind="stable")
    lowest_first = lowest_first[best_ranks[lowest_first] > 1]
    _, firsts = np.unique(queries.ids[lowest_first], return_index=True)
    rows = lowest_first[np.sort(firsts)[:count]].tolist()
    return tuple(_hard_query(queries, gallery, row, int(best_ranks[row]), shown) for row in rows)


def _hard_query(queries: Side, gallery: Side, row: int, best_rank: int, shown: int) -> HardQuery:
    """A query with its first results, ranked by the same similarities as in the scores."""
    places = np.arange(len(gallery.items))
    of_row = np.full_like(places, row)
    similarities = pair_similarities(queries.rows, gallery.rows, of_row, places)
    is_match = gallery.ids == queries.ids[row]
    order = np.lexsort((is_match, -similarities))  # of equals, matches come last
    ranks = [*range(1, min(shown, len(order)) + 1)]
    ranks += [best_rank] if best_rank > shown else []
    return HardQuery(
        query=queries.items[row],
        first_match_rank=best_rank,
        retrieved=tuple(
            Retrieved(
                item=gallery.items[place],
                rank=rank,
                similarity=float(similarities[place]),
                is_match=bool(is_match[place]),
            )
            for rank in ranks
            for place in [order[rank - 1]]
        ),
    )


# Scores of a random ranking: exact expectations over all orders of the gallery.
#
# mSD is left out: it depends on the distribution of similarities.

_DEPTHS = (1, 5, 10)


def chance_scores(matches: Iterable[int], gallery: int) -> dict[str, float]:
    """R@1, R@5, R@10, mAP and mINP in percent, and the median rank, of random orders.

    Args:
        matches: for each query, how many of the gallery match it; those with none are left out.
        gallery: how many there are in the gallery.
    """
    counts = Counter(count for count in matches if count)
    if not counts:
        return {}
    found = rank_curve(counts.elements(), gallery, gallery)
    scores = {f"R@{k}": float(found[min(k, gallery) - 1]) for k in _DEPTHS}
    scores["mAP"] = 100 * _mean(counts, lambda n: average_precision(n, gallery))
    scores["mINP"] = 100 * _mean(counts, lambda n: inverse_negative_penalty(n, gallery))
    scores["median_rank"] = float(1 + np.searchsorted(found, 50.0 - 1e-9))
    return scores


def rank_curve(matches: Iterable[int], gallery: int, depth: int) -> NDArray[np.float64]:
    """The expected percentage of queries with a match among the first 1 … `depth`.

    Of n matches in a gallery of N, none is among the first k with probability
    C(N − n, k) / C(N, k), which falls by the factor (N − n − k) / (N − k) from k to k + 1.
    """
    counts = Counter(count for count in matches if count)
    place = np.arange(min(depth, gallery))
    curve = np.zeros(len(place))
    for n, queries in counts.items():
        missed = np.cumprod(np.maximum(gallery - n - place, 0) / (gallery - place))
        curve += queries * (1 - missed)
    return 100 * curve / max(1, counts.total())


def average_precision(n: int, gallery: int) -> float:
    """The expected average precision of n matches in a random order.

    Place r holds a match with probability n / N, and then (r − 1)(n − 1) / (N − 1) of those before
    it are expected to be matches too; the sum over r has the harmonic number of N in it.
    """
    if gallery == 1:
        return 1.0
    harmonic = float((1 / np.arange(1, gallery + 1)).sum())
    return (harmonic + (n - 1) / (gallery - 1) * (gallery - harmonic)) / gallery


def inverse_negative_penalty(n: int, gallery: int) -> float:
    """The expected n / r, where r is the rank of the last of n matches in a random order.

    r is last with probability C(r − 1, n − 1) / C(N, n): n / N at r = N, and from r to r − 1 it
    falls by the factor (r − n) / (r − 1).
    """
    last = np.arange(gallery, n - 1, -1, dtype=np.float64)
    falls = np.concatenate(([n / gallery], (last[:-1] - n) / (last[:-1] - 1)))
    return float((np.cumprod(falls) * n / last).sum())


def _mean(counts: Counter[int], expected: Callable[[int], float]) -> float:
    return sum(queries * expected(n) for n, queries in counts.items()) / counts.total()
