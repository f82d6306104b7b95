"""Scores of a retrieval whose similarities are no products of two vectors.

Items may have several vectors, of which the most similar two count, and the first items of each
query may be sorted by a model that looks at pairs. Similarities are computed block by block.
"""

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.retrieval.embeddings import FloatRows, Ids, unit_rows
from loupe.retrieval.ranking import (
    Floats,
    RankedMatches,
    RetrievalScores,
    average_precision,
    best_ranks,
    inverse_negative_penalty,
    similarity_distribution,
)
from loupe.retrieval.similarity.products import Neighbours, nearest_rows
from loupe.schemas.errors import UsageError

_PRODUCTS_AT_ONCE = 1 << 24


class Rerank(NamedTuple):
    """Sorts the `first` items of each query by `match` of a query's and an item's number, (p,)."""

    first: int
    match: Callable[[Ids, Ids], Floats]


def score_similarities(
    queries: FloatRows,
    gallery: FloatRows,
    query_ids: Ids,
    gallery_ids: Ids,
    rerank: Rerank | None = None,
) -> RetrievalScores:
    """As `score_retrieval`, of items with several vectors, or reranked; without the released mSD.

    Args:
        queries: unit rows of shape (n, k·d): k vectors of one length, laid end to end.
        gallery: unit rows of shape (m, l·d); d is the shorter of the two shapes.
        query_ids: of shape (n,).
        gallery_ids: of shape (m,).
        rerank: adds its judgement to the similarity of the first items, which stay first, as BLIP
            does. Such scores are no cosines, and have no mSD.

    Raises:
        UsageError: rows cannot be compared, or no query has a match.
    """
    dimension = min(queries.shape[1], gallery.shape[1])
    if queries.shape[1] % dimension or gallery.shape[1] % dimension:
        raise UsageError(f"{queries.shape[1]} numbers cannot be compared with {gallery.shape[1]}")
    step = max(1, _PRODUCTS_AT_ONCE // (gallery.size * queries.shape[1] // dimension**2))
    blocks: list[RankedMatches] = []
    for start in range(0, len(queries), step):
        block = slice(start, min(start + step, len(queries)))
        similarities = greatest_cosines(queries[block], gallery, dimension)
        if rerank is not None:
            _sort_first(similarities, rerank, start)
        blocks.append(_ranked(similarities, query_ids[block, None] == gallery_ids))
    matches = np.concatenate([one.counts for one in blocks])
    if not matches.any():
        raise UsageError("no query has a match in the gallery: there is nothing to score")

    def joined(of: Callable[[RankedMatches], NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([of(one) for one in blocks])

    return RetrievalScores(
        gallery=len(gallery),
        matches=matches,
        best_rank=joined(best_ranks).astype(np.int64),
        average_precision=joined(average_precision).astype(np.float64),
        similarity_distribution=(
            None if rerank else joined(similarity_distribution).astype(np.float64)
        ),
        similarity_distribution_released=np.full(len(queries), np.nan),
        inverse_negative_penalty=joined(inverse_negative_penalty).astype(np.float64),
    )


def greatest_cosines(left: FloatRows, right: FloatRows, dimension: int) -> Floats:
    """The greatest cosine of the vectors of two items, of shape (n, m)."""
    ours, theirs = (rows.reshape(-1, dimension) for rows in (left, right))
    several = (len(ours) // len(left), len(theirs) // len(right))
    products = (ours @ theirs.T).reshape(len(left), several[0], len(right), several[1])
    greatest: Floats = products.max(axis=(1, 3)).astype(np.float64)
    return greatest * float(np.sqrt(several[0] * several[1]))


def text_cosines(texts: NDArray[Any], images: NDArray[Any]) -> Floats:
    """The greatest cosine of each text with the vectors of each image, of shape (m, n), in float64.

    Args:
        texts: unit rows of shape (m, d).
        images: unit rows of shape (n, k·d): k vectors of one length, laid end to end.
    """
    vectors = np.asarray(images, np.float64).reshape(-1, texts.shape[1])
    count = images.shape[1] // texts.shape[1]
    greatest = np.empty((len(texts), len(images)))
    step = max(1, _PRODUCTS_AT_ONCE // max(1, len(vectors)))
    for start in range(0, len(texts), step):
        block = slice(start, start + step)
        products = np.asarray(texts[block], np.float64) @ vectors.T
        greatest[block] = products.reshape(len(products), len(images), count).max(axis=2)
    return greatest * math.sqrt(count)


def nearest_items(
    queries: FloatRows,
    gallery: FloatRows,
    k: int,
    *,
    dimension: int,
    groups: tuple[Ids, Ids],
    excluded: Ids | None = None,
    closed: Collection[int] = (),
) -> Neighbours:
    """As `nearest_rows`, of items with several vectors of length `dimension`: the nearest count."""
    if gallery.shape[1] == dimension:
        return nearest_rows(queries, gallery, k, groups=groups, excluded=excluded, closed=closed)
    found = Neighbours(np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf))
    for at, query in enumerate(queries):
        similarities = greatest_cosines(query[None], gallery, dimension)[0]
        similarities[groups[1] != groups[0][at]] = -np.inf
        similarities[list(closed)] = -np.inf
        if excluded is not None:
            similarities[excluded[at]] = -np.inf
        nearest = np.argsort(-similarities, kind="stable")[:k]
        nearest = nearest[similarities[nearest] > -np.inf]
        found.places[at, : len(nearest)] = nearest
        found.similarities[at, : len(nearest)] = similarities[nearest]
    return found


def mean_vectors(rows: FloatRows, dimension: int) -> FloatRows:
    """One unit vector for each item: the mean of its vectors of length `dimension`."""
    if rows.shape[1] == dimension:
        return rows
    return unit_rows(rows.reshape(len(rows), -1, dimension).mean(axis=1), "mean vectors")


def _sort_first(similarities: Floats, rerank: Rerank, start: int) -> None:
    """Adds what the model says of the first items of each query, and lifts them above all others.

    BLIP gives all others -100 (its `evaluation` in `train_retrieval.py`); here they keep their
    order below.
    """
    first = min(rerank.first, similarities.shape[1])
    found = np.argsort(-similarities, axis=1, kind="stable")[:, :first]
    at = np.repeat(np.arange(len(similarities)), first)
    judged = rerank.match(at + start, found.ravel()) + similarities[at, found.ravel()]
    similarities[at, found.ravel()] = judged - judged.min() + similarities.max() + 1


def _ranked(similarities: Floats, is_match: NDArray[np.bool_]) -> RankedMatches:
    """The matches of each query, by falling similarity; of equals, matches come last."""
    normalised = np.maximum((similarities + 1) / 2, 0)
    mine, above, above_sum, others_sum = [], [], [], []
    for row, wanted in zip(normalised, is_match, strict=True):
        others = np.sort(row[~wanted])[::-1]
        mine.append(np.sort(row[wanted])[::-1])
        above.append(np.searchsorted(-others, -mine[-1], side="right"))
        above_sum.append(np.concatenate(([0.0], np.cumsum(others)))[above[-1]])
        others_sum.append(others.sum())
    return RankedMatches(
        gallery=similarities.shape[1],
        starts=np.concatenate(([0], np.cumsum(is_match.sum(axis=1)))),
        similarities=np.concatenate(mine),
        others_above=np.concatenate(above).astype(np.int64),
        others_above_sum=np.concatenate(above_sum),
        others_sum=np.array(others_sum),
    )
