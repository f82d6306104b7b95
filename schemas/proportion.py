"""Shares that were counted on a sample, and how far they can be trusted."""

from typing import NamedTuple

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A confidence interval of a share; both ends lie in 0 to 1."""

    lower: float
    upper: float


def wilson_interval(count: float, total: float) -> Interval:
    """The 95 % Wilson score interval of the share `count / total`; all of 0 to 1 for no total.

    `total` may be an effective sample size and so need not be a whole number.
    """
    if total <= 0:
        return Interval(0.0, 1.0)
    from statsmodels.stats.proportion import proportion_confint

    lower, upper = proportion_confint(count, total, alpha=1 - CONFIDENCE, method="wilson")
    return Interval(float(lower), float(upper))
