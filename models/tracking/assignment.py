"""Who belongs to whom: the cheapest partial matching of rows and columns."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


class Pairs(NamedTuple):
    """Matched rows, rising, and the column of each."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


def cheapest_pairs(cost: NDArray[np.floating[Any]], limit: float) -> Pairs:
    """The partial matching of least cost, where whoever stays alone costs `limit` / 2.

    A pair is worth its cost only below `limit`, since leaving both alone costs as much; and two
    pairs can give way to a single one. Cutting all costs off at `limit` says the same to a solver
    of full assignments: a pair at the limit then stands for two that stay alone.

    Args:
        cost: of shape (n, m); infinite where a pair must never be.
        limit: above 0.
    """
    if not cost.size:
        none = np.empty(0, np.intp)
        return Pairs(none, none)
    rows, columns = linear_sum_assignment(np.minimum(cost, limit))
    worth = cost[rows, columns] < limit
    return Pairs(rows[worth], columns[worth])
