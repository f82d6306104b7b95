"""Recall among samples: how many queries find their positive among the first k."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from retrieval.embeddings import Ids


class SampleRecall(NamedTuple):
    """R@k of some queries among some candidates.

    Attributes:
        queries: how many queries there are.
        candidates: how many candidates each of them has, its positives included.
        percent: for each k the percentage of the queries that find their positive among the first
            k; None where there are no queries.
    """

    queries: int
    candidates: int
    percent: dict[int, float | None]


def sample_recall(competing: Ids, candidates: int, depths: Iterable[int]) -> SampleRecall:
    """R@k of queries for which `competing` candidates each are at least as similar as the positive.

    Ties are errors: the positive comes after all that are as similar as it. Where k reaches the
    number of candidates, every query finds its positive.
    """
    queries = len(competing)
    percent = {
        depth: 100 * int(np.count_nonzero(competing < depth)) / queries if queries else None
        for depth in depths
    }
    return SampleRecall(queries, candidates, percent)
