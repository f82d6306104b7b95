"""Random retrieval problems by identity, with ties, and literal reference metrics."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.retrieval.embeddings import unit_rows
from loupe.retrieval.ranking import RetrievalScores, score_retrieval


class Problem(NamedTuple):
    """Embeddings and identities of queries and gallery."""

    queries: NDArray[np.floating]
    gallery: NDArray[np.floating]
    query_ids: NDArray[np.int64]
    gallery_ids: NDArray[np.int64]

    def scores(self, **options: Any) -> RetrievalScores:
        return score_retrieval(*self, **options)

    def with_gallery(self, order: NDArray[np.intp]) -> "Problem":
        return self._replace(gallery=self.gallery[order], gallery_ids=self.gallery_ids[order])

    @property
    def swapped(self) -> "Problem":
        """The problem with queries and gallery swapped."""
        return Problem(self.gallery, self.queries, self.gallery_ids, self.query_ids)


def random_problem(
    seed: int, queries: int = 25, gallery: int = 60, dimension: int = 8, identities: int = 12
) -> Problem:
    """Noisy clusters; about a third of the gallery are copies, a third differ in the last bits."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((identities + 3, dimension))
    query_ids = random.integers(identities + 3, size=queries)
    gallery_ids = random.integers(identities, size=gallery)
    query_rows = centres[query_ids] + random.standard_normal((queries, dimension))
    gallery_rows = centres[gallery_ids] + random.standard_normal((gallery, dimension))
    copied = random.random(gallery) < 0.4
    gallery_rows[copied] = gallery_rows[random.integers(gallery, size=copied.sum())]
    nudged = random.random(gallery) < 0.3
    gallery_rows[nudged] *= 1 + 1e-7 * random.standard_normal((nudged.sum(), dimension))
    return Problem(query_rows, gallery_rows, query_ids, gallery_ids)


class LiteralScores(NamedTuple):
    """Scores of one query by definition; 0 and NaN without a match."""

    best_rank: int
    average_precision: float
    distribution: float
    released: float
    inverse_negative_penalty: float


def literal_scores(problem: Problem) -> list[LiteralScores]:
    """Scores of every query against the sorted gallery, in float64."""
    queries = unit_rows(problem.queries, "queries").tolist()
    gallery = unit_rows(problem.gallery, "gallery").tolist()
    return [
        _literal_query(
            [_dot(query, item) for item in gallery],
            [identity == its for its in problem.gallery_ids],
        )
        for query, identity in zip(queries, problem.query_ids, strict=True)
    ]


def _dot(left: list[float], right: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _literal_query(cosines: list[float], is_match: list[bool]) -> LiteralScores:
    order = sorted(range(len(cosines)), key=lambda at: (-cosines[at], is_match[at]))
    ranks = [rank for rank, at in enumerate(order) if is_match[at]]  # from 0
    if not ranks:
        return LiteralScores(0, math.nan, math.nan, math.nan, math.nan)
    given = [(cosine + 1) / 2 for cosine in cosines]
    precision = math.fsum((k + 1) / (rank + 1) for k, rank in enumerate(ranks)) / len(ranks)
    return LiteralScores(
        ranks[0] + 1,
        precision,
        _distribution([given[at] for at in order], ranks),
        _distribution(given, ranks),  # as in the released calculator: sorted ranks, unsorted values
        len(ranks) / (ranks[-1] + 1),
    )


def _distribution(values: list[float], ranks: list[int]) -> float:
    """SD if the `values` at `ranks` (from 0) are the matches."""
    matches = [values[rank] for rank in ranks]
    others = [value for place, value in enumerate(values) if place not in ranks]
    if others:
        ratio = (math.fsum(matches) / len(matches)) / (math.fsum(others) / len(others))
    else:
        ratio = math.inf
    shares = [
        math.fsum(matches[: k + 1]) / math.fsum(values[: rank + 1]) for k, rank in enumerate(ranks)
    ]
    return (1 - math.exp(-ratio)) * math.fsum(shares) / len(shares)
