"""The median rank of the first match."""

import numpy as np

from retrieval.embeddings import Ids


def median_rank(ranks: Ids) -> float:
    """The median rank of the first match, from 1, over queries that have one; not in percent.

    Of an even number of queries it is the mean of the two in the middle.

    Args:
        ranks: of the first match of each query, 0 where it has none, of shape (queries,).
    """
    return float(np.median(ranks[ranks > 0]))
