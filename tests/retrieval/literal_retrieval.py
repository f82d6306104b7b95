"""Literal reference of the retrieval metrics, query by query in plain Python."""

import math
from collections.abc import Sequence
from statistics import mean, median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LiteralQuery(NamedTuple):
    """Scores of one query, as fractions from 0 to 1."""

    first_rank: int
    average_precision: float
    similarity_distribution: float
    inverse_negative_penalty: float


def literal_query(similarities: Sequence[float], is_match: Sequence[bool]) -> LiteralQuery | None:
    """Scores of one query against a gallery, or None without a match; matches lose ties."""
    if not any(is_match):
        return None
    pairs = sorted(zip(similarities, is_match, strict=True), key=lambda one: (-one[0], one[1]))
    ranks = [rank for rank, (_, match) in enumerate(pairs, 1) if match]
    values = [(cosine + 1) / 2 for cosine, _ in pairs]
    precision = mean(found / rank for found, rank in enumerate(ranks, 1))
    shares, total, of_matches = [], 0.0, 0.0
    for value, (_, match) in zip(values, pairs, strict=True):
        total += value
        of_matches += value * match
        if match:
            shares.append(of_matches / total)
    others = [value for value, (_, match) in zip(values, pairs, strict=True) if not match]
    mine = [value for value, (_, match) in zip(values, pairs, strict=True) if match]
    ratio = mean(mine) / mean(others) if others else math.inf
    distribution = (1 - math.exp(-ratio)) * mean(shares)
    return LiteralQuery(ranks[0], precision, distribution, len(ranks) / ranks[-1])


def literal_scores(
    queries: NDArray[np.floating],
    gallery: NDArray[np.floating],
    query_ids: Sequence[int],
    gallery_ids: Sequence[int],
) -> dict[str, float]:
    """All metrics but `mSD_released`, in percent (the median rank in ranks)."""
    found = []
    for query, identity in zip(queries.astype(float), query_ids, strict=True):
        similarities = [float(query @ row) for row in gallery.astype(float)]
        one = literal_query(similarities, [other == identity for other in gallery_ids])
        if one is not None:
            found.append(one)
    scores = {f"R@{k}": 100 * mean(one.first_rank <= k for one in found) for k in (1, 5, 10)}
    scores["mAP"] = 100 * mean(one.average_precision for one in found)
    scores["mSD"] = 100 * mean(one.similarity_distribution for one in found)
    scores["mINP"] = 100 * mean(one.inverse_negative_penalty for one in found)
    scores["median_rank"] = float(median(one.first_rank for one in found))
    return scores
