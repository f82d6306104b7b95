"""How sure a figure is: intervals for shares, and for whatever is computed over items.

All intervals hold 95 %. What cannot be computed is no number but a reason.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from schemas.base import Record
from schemas.proportion import CONFIDENCE, wilson_interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

REPLICATES = 1000
SEED = 20
"""What the bootstrap draws with, so that the same answers give the same interval."""

_TAILS = (100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2)
_WEIGHTS_AT_ONCE = 1 << 20  # 8 MiB, whatever the number of items


class Estimate(Record):
    """A figure over `items` items, and its interval from `low` to `high`.

    Where `value` is None, `reason` says why there is none; where only the interval is missing, why
    that is.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    items: int = 0
    reason: str = ""


class Share(Record):
    """`count` of `of`, as a share from 0 to 1 with its Wilson interval; None where `of` is 0."""

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None


def share(count: int, of: int) -> Share:
    """The share that `count` of `of` is, with its 95 % score interval."""
    if of == 0:
        return Share(count=count, of=of, value=None, low=None, high=None)
    low, high = wilson_interval(count, of)
    return Share(count=count, of=of, value=count / of, low=low, high=high)


def estimate(
    value: float, counts: IntArray, statistic: Callable[[FloatArray], FloatArray]
) -> Estimate:
    """`value` with the interval that a bootstrap over items gives it.

    Items are drawn anew `REPLICATES` times, with replacement; the interval holds the middle 95 % of
    the values found. Items that are alike are drawn together, as a multinomial number of them.
    Replicates in which the statistic is not defined (all answers the same) are left out.

    Args:
        value: the figure over all items.
        counts: how many items there are of each pattern, of shape (patterns,).
        statistic: gives the figure, of shape (replicates,), for weights of the patterns, of shape
            (replicates, patterns); NaN where it is not defined.
    """
    items = int(counts.sum())
    if items < 2:
        return Estimate(value=value, items=items, reason="one item tells nothing of the spread")
    drawn = _replicates(counts, statistic)
    if 2 * len(drawn) < REPLICATES:
        reason = "most samples of so few items hold a single category"
        return Estimate(value=value, items=items, reason=reason)
    low, high = np.percentile(drawn, _TAILS)
    return Estimate(value=value, low=float(low), high=float(high), items=items)


def _replicates(counts: IntArray, statistic: Callable[[FloatArray], FloatArray]) -> FloatArray:
    generator = np.random.default_rng(SEED)
    items = int(counts.sum())
    at_once = max(1, _WEIGHTS_AT_ONCE // len(counts))
    found = [
        statistic(
            generator.multinomial(
                items, counts / items, size=min(at_once, REPLICATES - done)
            ).astype(np.float64)
        )
        for done in range(0, REPLICATES, at_once)
    ]
    values = np.concatenate(found)
    return values[~np.isnan(values)]


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """`above / below`, NaN where `below` is nothing (but for rounding)."""
    defined = below > 1e-12
    result = np.full(np.shape(below), np.nan)
    np.divide(above, below, out=result, where=defined)
    return result
