"""Shares that were counted on a sample, and how far they can be trusted."""

from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Interval(NamedTuple):
    """A confidence interval of a share; both ends lie in 0 to 1."""

    lower: float
    upper: float


class Stratum(NamedTuple):
    """A part of a population: its size, how many of it were looked at, and how many counted."""

    population: int
    looked: int
    counted: int


class Estimate(NamedTuple):
    """A share in a whole population, as far as a sample tells."""

    share: float
    interval: Interval


def wilson_interval(count: float, total: float) -> Interval:
    """The 95 % score interval of the share `count / total` (Wilson 1927); 0 to 1 for no total.

    Neither need be a whole number: `total` may be an effective sample size. It is computed here,
    and only tested against statsmodels, whose import takes longer than most commands.
    """
    if total <= 0:
        return Interval(0.0, 1.0)
    share = count / total
    scale = 1 + _Z**2 / total
    middle = (share + _Z**2 / (2 * total)) / scale
    half = _Z * (share * (1 - share) / total + _Z**2 / (4 * total**2)) ** 0.5 / scale
    lower = 0.0 if count == 0 else max(0.0, middle - half)
    upper = 1.0 if count == total else min(1.0, middle + half)
    return Interval(lower, upper)


def stratified_estimate(strata: Iterable[Stratum]) -> Estimate:
    """The share in the population that a stratified sample was drawn from.

    Each stratum counts by its population; one of which nothing was looked at is left out. The
    interval is Wilson's with the effective sample size (the one at which a simple sample would have
    the variance that the stratified one has; Korn and Graubard 1998 use it so), but with no more
    than were looked at: a stratum in which nothing was wrong says little of its spread.
    """
    seen = [stratum for stratum in strata if stratum.looked]
    looked = sum(stratum.looked for stratum in seen)
    population = sum(stratum.population for stratum in seen)
    if not population:
        return Estimate(0.0, wilson_interval(0, 0))
    share = variance = 0.0
    for stratum in seen:
        weight, part = stratum.population / population, stratum.counted / stratum.looked
        share += weight * part
        variance += weight**2 * part * (1 - part) / stratum.looked
    effective = min(looked, share * (1 - share) / variance) if variance else looked
    return Estimate(share, wilson_interval(share * effective, effective))
