"""Paired comparison of two models on the same queries.

Queries of one person depend on each other, so persons are what is drawn and exchanged.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.ranking import REPLICATES, SEED, TAILS, Floats, divided, resampled

_PERMUTATIONS = 9_999
_AT_ONCE = 1 << 22  # signs that are drawn together


class PairedDifference(NamedTuple):
    """How much the first model is better than the second, in the unit of the values.

    `low` and `high` limit the 95 % percentile bootstrap interval over persons. `p_value` is from a
    two-sided permutation test that exchanges the models person by person.
    """

    difference: float
    low: float
    high: float
    p_value: float


def paired_difference(
    first: ArrayLike, second: ArrayLike, queries: ArrayLike, *, seed: int = SEED
) -> PairedDifference:
    """Compare the means of two models over queries.

    Args:
        first: the sum of a metric over the queries of each person, of shape (persons,).
        second: the same of the second model, on the same queries.
        queries: the number of queries of each person, of shape (persons,).
        seed: what samples and permutations are drawn with.
    """
    gains = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    counts = np.asarray(queries, np.float64)
    difference = float(gains.sum() / counts.sum())

    def means_of(weights: Floats) -> Floats:
        return divided(weights @ gains, weights @ counts, without=0.0)

    drawn = resampled(np.ones(len(gains), np.int64), means_of, REPLICATES, seed)
    low, high = np.percentile(drawn, TAILS)
    exchanged = _exchanged(gains, np.random.default_rng(seed)) / counts.sum()
    as_large = int((np.abs(exchanged) >= abs(difference) - 1e-12).sum())
    p_value = (as_large + 1) / (_PERMUTATIONS + 1)
    return PairedDifference(difference, float(low), float(high), p_value)


def corrected_for_best(p_value: float, models: int) -> float:
    """Return the p-value of a comparison with the best of so many models.

    The best one is known only from the same queries, as if all pairs had been compared; so the
    p-value is corrected for all pairs (Bonferroni).
    """
    return min(1.0, p_value * models * (models - 1) / 2)


def _exchanged(gains: Floats, random: np.random.Generator) -> Floats:
    """Return the sum of gains after each permutation, with the sign of each drawn."""
    at_once = max(1, _AT_ONCE // len(gains))
    sums: list[NDArray[np.float64]] = []
    for done in range(0, _PERMUTATIONS, at_once):
        size = (min(at_once, _PERMUTATIONS - done), len(gains))
        signs = random.integers(0, 2, size, dtype=np.int8) * 2 - 1
        sums.append(signs @ gains)
    return np.concatenate(sums)
