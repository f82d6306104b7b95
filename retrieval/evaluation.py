"""One direction of an evaluation: from vectors to the record of its scores."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval import chance
from retrieval.bootstrap import REPLICATES, bootstrap_means
from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.inspection import Find, similarity_counts, worst_queries
from retrieval.ranking import RetrievalScores, score_retrieval
from schemas.errors import UsageError
from schemas.evaluation import (
    Direction,
    DirectionResult,
    GroupResult,
    HardQuery,
    Retrieved,
    Score,
    Scores,
    ShownItem,
    SimilarityHistogram,
)

CURVE_DEPTH = 50
"""How far rank curves go."""
HARDEST = 8
"""How many of the hardest queries are kept, and how much of what each of them found."""
SHOWN = 6
INTERVAL = f"95 %, percentile bootstrap over persons, {REPLICATES:,} draws"
PROTOCOL = (
    "every query against the whole gallery by cosine; what has the query's person is a match; "
    "of equals, matches count last"
)


class Side(NamedTuple):
    """Queries or gallery: what each item is, its vector, and which groups it belongs to.

    `groups` gives, by dimension ("source", "granularity" …), the group of every item.
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
        """Items with their vectors, of any length, brought to unit length.

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
        """Those items that are wanted; of their groups those that still tell them apart."""
        places = np.flatnonzero(wanted).tolist()
        groups = {name: [labels[at] for at in places] for name, labels in self.groups.items()}
        telling = {name: labels for name, labels in groups.items() if len(set(labels)) > 1}
        return Side([self.items[at] for at in places], self.rows[wanted], telling)

    @property
    def ids(self) -> Ids:
        """The person of each item."""
        return np.array([item.person for item in self.items], dtype=np.int64)


class Scored(NamedTuple):
    """A direction with its parts."""

    direction: DirectionResult
    groups: tuple[GroupResult, ...]


def score_direction(direction: Direction, queries: Side, gallery: Side, seed: int = 0) -> Scored:
    """Scores all queries, and each group of them, against the whole gallery.

    Raises:
        UsageError: the vectors of the two sides are of different length, or nothing has a match.
    """
    asked = (queries.rows, gallery.rows, queries.ids, gallery.ids)
    scores = score_retrieval(*asked)
    depth = min(CURVE_DEPTH, len(gallery.items))
    result = DirectionResult(
        direction=direction,
        queries=scores.queries,
        gallery=scores.gallery,
        unmatched=scores.unmatched,
        scores=_with_intervals(scores, queries.ids, seed),
        rank_curve=tuple(scores.rank_curve(depth).tolist()),
        chance=_chance(scores),
        chance_curve=tuple(chance.rank_curve(scores.matches.tolist(), scores.gallery, depth)),
        histogram=_histogram(*asked, seed),
        hardest=tuple(_hardest(scores, queries, gallery)),
    )
    return Scored(result, tuple(_groups(direction, scores, queries, seed)))


def score_setting(
    setting: str, direction: Direction, queries: Side, gallery: Side, seed: int = 0
) -> GroupResult:
    """R@k of all queries in a gallery of their own, as the group `setting`.

    Raises:
        UsageError: as above.
    """
    scores = score_retrieval(queries.rows, gallery.rows, queries.ids, gallery.ids)
    found = _with_intervals(scores, queries.ids, seed)
    return GroupResult(
        dimension="setting",
        group=setting,
        direction=direction,
        queries=scores.queries,
        unmatched=scores.unmatched,
        scores={name: score for name, score in found.items() if name.startswith("R@")},
    )


def _chance(scores: RetrievalScores) -> Scores:
    expected = chance.chance_scores(scores.matches.tolist(), scores.gallery)
    return {name: Score(value=value) for name, value in expected.items()}


def _histogram(
    queries: FloatRows, gallery: FloatRows, query_ids: Ids, gallery_ids: Ids, seed: int
) -> SimilarityHistogram:
    counts = similarity_counts(queries, gallery, query_ids, gallery_ids, seed=seed)
    return SimilarityHistogram(
        low=counts.low,
        high=counts.high,
        matches=tuple(counts.matches.tolist()),
        others=tuple(counts.others.tolist()),
        queries=counts.queries,
    )


def _hardest(scores: RetrievalScores, queries: Side, gallery: Side) -> Iterator[HardQuery]:
    asked = (queries.rows, gallery.rows, queries.ids, gallery.ids)
    for worst in worst_queries(*asked, scores.best_rank, count=HARDEST, shown=SHOWN):
        yield HardQuery(
            query=queries.items[worst.row],
            first_match_rank=worst.first_match_rank,
            retrieved=tuple(_retrieved(find, gallery) for find in worst.finds),
        )


def _retrieved(find: Find, gallery: Side) -> Retrieved:
    return Retrieved(
        item=gallery.items[find.row],
        rank=find.rank,
        similarity=find.similarity,
        is_match=find.is_match,
    )


def _groups(
    direction: Direction, scores: RetrievalScores, queries: Side, seed: int
) -> Iterator[GroupResult]:
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
                scores=_with_intervals(scores, queries.ids, seed, chosen) if matched else {},
            )


def _with_intervals(
    scores: RetrievalScores, ids: Ids, seed: int, chosen: NDArray[np.bool_] | None = None
) -> Scores:
    """The means over (chosen) queries; what is a mean of queries has its interval over persons."""
    if chosen is None:
        chosen = np.ones(scores.queries, dtype=np.bool_)
    found = {name: Score(value=value) for name, value in scores.means(chosen).items()}
    by_query = {name: values[chosen] for name, values in scores.by_query.items()}
    intervals = bootstrap_means(by_query, ids[chosen], seed=seed)
    return found | {name: Score(**one._asdict()) for name, one in intervals.items()}
