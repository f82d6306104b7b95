"""What a second look at a sample of accepted items came to."""

from typing import NamedTuple

from pydantic import Field

from schemas.base import Record
from schemas.proportion import Stratum, stratified_estimate

_PLACES = 4  # enough for a tenth of a per mille, and the same on every machine


class LookedDraw(NamedTuple):
    """A sample that was drawn from a queue, and what was found in it, by stratum.

    `by` names what it was stratified by; `drawn` is its size; of a stratum, `counted` are the items
    that were found wrong, which `wrong_items` names.
    """

    queue: str
    by: tuple[str, ...]
    drawn: int
    strata: dict[str, Stratum]
    wrong_items: tuple[str, ...]


class SecondLookStatistics(Record):
    """The error rate among the accepted items of a queue, as a second look at a sample tells.

    Of `drawn` items, `looked` were looked at by somebody who had no part in accepting them, and
    `wrong` would not have been accepted as they are. `error_rate` is the share in the whole queue
    (0 to 1; strata count by their size), with a 95 % interval from `lower` to `upper`.
    """

    queue: str
    by: tuple[str, ...]
    drawn: int = Field(ge=0)
    looked: int = Field(ge=0)
    wrong: int = Field(ge=0)
    error_rate: float = Field(ge=0, le=1)
    lower: float = Field(ge=0, le=1)
    upper: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        unseen = f"; {self.drawn - self.looked:,} to come" if self.looked < self.drawn else ""
        return (
            f"{self.wrong:,} of {self.looked:,} wrong, {100 * self.error_rate:.1f} % "
            f"(95 % interval {100 * self.lower:.1f}–{100 * self.upper:.1f} %){unseen}"
        )


def summarise(draw: LookedDraw) -> SecondLookStatistics:
    """The error rate that a draw comes to."""
    found = stratified_estimate(draw.strata.values())
    return SecondLookStatistics(
        queue=draw.queue,
        by=draw.by,
        drawn=draw.drawn,
        looked=sum(stratum.looked for stratum in draw.strata.values()),
        wrong=sum(stratum.counted for stratum in draw.strata.values()),
        error_rate=round(found.share, _PLACES),
        lower=round(found.interval.lower, _PLACES),
        upper=round(found.interval.upper, _PLACES),
    )
