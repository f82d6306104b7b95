"""R@k: the share of queries that have a match among the first k of the gallery."""

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids
from retrieval.matches import RankedMatches


def best_ranks(matches: RankedMatches) -> Ids:
    """The rank of each query's first match, from 1, of shape (queries,); 0 without matches."""
    ranks = np.zeros(len(matches.counts), dtype=np.int64)
    matched = matches.counts > 0
    ranks[matched] = matches.ranks[matches.starts[:-1][matched]]
    return ranks


def recall_at(k: int, ranks: Ids) -> NDArray[np.float64]:
    """1 for each query with a match among the first k, else 0; NaN without matches.

    Where k is larger than the gallery, every query with a match has found it.

    Args:
        k: from 1.
        ranks: of the first match of each query, as `best_ranks` gives them, of shape (queries,).
    """
    return np.where(ranks > 0, (ranks <= k).astype(np.float64), np.nan)


def rank_curve(ranks: Ids, depth: int) -> NDArray[np.float64]:
    """R@1 … R@depth in percent over all queries that have a match, of shape (depth,)."""
    found = np.bincount(ranks[(ranks > 0) & (ranks <= depth)], minlength=depth + 1)[1:]
    curve: NDArray[np.float64] = 100 * np.cumsum(found) / max(1, int(np.count_nonzero(ranks)))
    return curve
