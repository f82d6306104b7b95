"""A measured value held against the threshold of a rule: what every finding is made from."""

from typing import Literal, NamedTuple

from schemas.video import Finding

Outcome = Literal["passed", "suspected", "dropped"]
Direction = Literal["at least", "at most", "more than"]
"""What a good value is to its threshold."""

BAND = 0.2
"""How near to its threshold a value must be to be suspected, as a share of the threshold."""
DECIMALS = 4
"""Of values that are compared and reported: few enough that findings are the same bytes whatever
linear algebra they were computed with."""


class Measurement(NamedTuple):
    """What one rule measured of a frame (or of the whole track, where `frame` is None).

    Attributes:
        rule: the name of the rule.
        setting: the field of `FilterSettings` that holds the threshold.
        frame: the frame, or the one that a new part would begin with.
        value: what was measured.
        threshold: what it was held against.
        outcome: what came of it.
        beside: the frame that this one was compared with, where there is one.
    """

    rule: str
    setting: str
    frame: int | None
    value: float
    threshold: float
    outcome: Outcome
    beside: int | None = None

    @property
    def finding(self) -> Finding | None:
        """The measurement as it is reported; None where it passed."""
        if self.outcome == "passed":
            return None
        return Finding(
            frame=self.frame,
            rule=self.rule,
            value=self.value,
            threshold=self.threshold,
            outcome=self.outcome,
        )


def rounded(value: float) -> float:
    """A value as it is compared and reported."""
    return round(float(value), DECIMALS)


def outcome_of(
    value: float,
    threshold: float,
    direction: Literal["at least", "at most"],
    *,
    scale_end: float = 0.0,
) -> Outcome:
    """What comes of a value: beyond the threshold it drops, within `BAND` of it it is suspected.

    The band lies on the side of the threshold that passes, and is a share of the threshold's
    distance from `scale_end`: the end of the scale that the threshold keeps away from. Where that
    is the threshold itself, there is no band.
    """
    band = BAND * abs(threshold - scale_end)
    if direction == "at least":
        return _graded(threshold - value, band)
    return _graded(value - threshold, band)


def _graded(excess: float, band: float) -> Outcome:
    if excess > 0:
        return "dropped"
    return "suspected" if excess > -band else "passed"
