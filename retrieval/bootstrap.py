"""Confidence intervals of means over queries: a bootstrap over identities, or other groups.

Queries of one identity share their matches and are not independent, so whole groups are drawn with
replacement (Davison and Hinkley, Bootstrap Methods and their Application, section 3.8), and
percentiles of the resulting means form the interval.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrieval.metrics import Floats

REPLICATES = 1000
SEED = 20
CONFIDENCE = 0.95

_DRAWS_AT_ONCE = 1 << 20  # 8 MiB, whatever the number of groups


class Interval(NamedTuple):
    """A mean over queries with its interval."""

    value: float
    low: float
    high: float


def bootstrap_means(
    values: Mapping[str, Floats],
    groups: ArrayLike,
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
    confidence: float = CONFIDENCE,
) -> dict[str, Interval]:
    """The mean of each metric with its percentile interval; deterministic for a seed.

    All metrics use the same draws. The order of queries and the numbers of groups do not matter,
    only which queries belong together and the order of the groups. Memory is bounded: groups are
    drawn in portions.

    Args:
        values: of each metric, one of each query, of shape (queries,); NaN where a query does not
            count (it has no match). A metric of which none counts is left out.
        groups: the identity, or other group, of each query, of shape (queries,).
        replicates: how often groups are drawn.
        seed: what they are drawn with.
        confidence: how much of the means found lie in the interval.
    """
    counting = {name: one for name, one in values.items() if not np.isnan(one).all()}
    if not counting:
        return {}
    _, group_of = np.unique(np.asarray(groups), return_inverse=True)
    sums, counts = _by_group(np.stack(list(counting.values())), group_of)
    drawn = _drawn_means(sums, counts, replicates, seed)
    tails = 50 * (1 - confidence), 50 * (1 + confidence)
    low, high = np.nanpercentile(drawn, tails, axis=0)
    means = sums.sum(axis=0) / counts.sum(axis=0)
    return {
        name: Interval(*(float(part[at]) for part in (means, low, high)))
        for at, name in enumerate(counting)
    }


def _by_group(values: Floats, group_of: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Sums and counts of valid values, of shape (groups, metrics), from (metrics, queries)."""
    counts = [np.bincount(group_of, weights=~np.isnan(one)) for one in values]
    sums = [np.bincount(group_of, weights=np.nan_to_num(one)) for one in values]
    return np.stack(sums, axis=1), np.stack(counts, axis=1)


def _drawn_means(sums: Floats, counts: Floats, replicates: int, seed: int) -> Floats:
    """Means over drawn groups, of shape (replicates, metrics); NaN without valid values."""
    generator = np.random.default_rng(seed)
    groups = len(sums)
    at_once = max(1, _DRAWS_AT_ONCE // groups)
    means = []
    for done in range(0, replicates, at_once):
        size = (min(at_once, replicates - done), groups)
        # How often each group is drawn, of so many drawn with replacement.
        drawn = generator.multinomial(groups, np.full(groups, 1 / groups), size=size[0])
        weights = drawn.astype(np.float64)
        counted = weights @ counts
        total = weights @ sums
        means.append(np.divide(total, counted, out=np.full(total.shape, np.nan), where=counted > 0))
    return np.concatenate(means)
