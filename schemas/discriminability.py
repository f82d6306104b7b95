"""When a caption passes, and when the criterion itself says nothing (ReCoS, section 3.2)."""

import math
from collections.abc import Collection, Sequence
from statistics import median
from typing import NamedTuple

from schemas.errors import DegenerateCriterionError
from schemas.recos import CaptionVerdict, DiscriminabilitySettings

FEWEST_JUDGED = 20
"""Of fewer captions nothing is said about the criterion: all of them may pass by chance."""
LEAST_PASSING, MOST_PASSING = 0.01, 0.99
"""Where a smaller or larger share of captions pass, the criterion does not tell them apart."""

_BINS = 12
_WIDEST = 40


class AcceptedInterval(NamedTuple):
    """The dis(t) that pass, both ends included: (1 ∓ η) / 2 · log k."""

    lower: float
    upper: float

    @classmethod
    def of(cls, k: int, eta: float) -> "AcceptedInterval":
        """The interval for `k` images. A larger `eta` widens it (the paper's prose errs there)."""
        return cls((1 - eta) / 2 * math.log(k), (1 + eta) / 2 * math.log(k))

    def verdict(self, dis: float) -> CaptionVerdict:
        """What dis(t) says of a caption: low is over-detailed, high is under-detailed."""
        if dis < self.lower:
            return CaptionVerdict.OVER_DETAILED
        return CaptionVerdict.UNDER_DETAILED if dis > self.upper else CaptionVerdict.PASS


def share_passing(verdicts: Collection[CaptionVerdict]) -> float:
    """The share, in [0, 1], of captions that pass; 0 of none."""
    return sum(one is CaptionVerdict.PASS for one in verdicts) / max(1, len(verdicts))


def is_degenerate(verdicts: Collection[CaptionVerdict]) -> bool:
    """Whether under 1 % or over 99 % of at least 20 captions pass.

    To be asked of captions as they were first written: after regeneration all are to pass.
    """
    judged = len(verdicts) >= FEWEST_JUDGED
    return judged and not LEAST_PASSING <= share_passing(verdicts) <= MOST_PASSING


def check_not_degenerate(
    dis: Sequence[float], settings: DiscriminabilitySettings, temperature: float
) -> None:
    """Stops where the criterion separates no captions, before any is rewritten.

    Args:
        dis: of the captions as they were first written.
        settings: when a caption passes.
        temperature: what similarities were divided by.

    Raises:
        DegenerateCriterionError: see `is_degenerate`; its message has the histogram.
    """
    interval = AcceptedInterval.of(settings.k, settings.eta)
    verdicts = [interval.verdict(one) for one in dis]
    if is_degenerate(verdicts):
        raise DegenerateCriterionError(degeneracy_text(dis, settings, temperature))


def degeneracy_text(
    dis: Sequence[float], settings: DiscriminabilitySettings, temperature: float
) -> str:
    """What is wrong with the criterion and what to do, then the histogram of `dis`."""
    interval = AcceptedInterval.of(settings.k, settings.eta)
    verdicts = [interval.verdict(one) for one in dis]
    passing = sum(one is CaptionVerdict.PASS for one in verdicts)
    most = max(
        (CaptionVerdict.OVER_DETAILED, CaptionVerdict.UNDER_DETAILED, CaptionVerdict.PASS),
        key=verdicts.count,
    )
    return (
        f"the criterion does not tell captions apart: {passing:,} of {len(dis):,} pass (wanted "
        f"{LEAST_PASSING:.0%} to {MOST_PASSING:.0%}) with k {settings.k}, eta {settings.eta:g} and "
        f"temperature {temperature:g}; {_advice(most, dis, settings)}\n"
        f"{dis_histogram(dis, settings.k, interval)}"
    )


_PROFILE = "in a profile [captioning.discriminability]"
_LEAST_ETA = 0.01
_ADVICE = {
    CaptionVerdict.UNDER_DETAILED: (
        f"similarities lie too close together for this temperature ({_PROFILE}): take a lower one, "
        f"or none, so that it is calibrated"
    ),
    CaptionVerdict.OVER_DETAILED: (
        f"similarities lie too far apart for this temperature ({_PROFILE}): take a higher one, or "
        f"none, so that it is calibrated"
    ),
}


def _advice(most: CaptionVerdict, dis: Sequence[float], settings: DiscriminabilitySettings) -> str:
    """The setting to change, and to what: where all pass, to the eta with which half would."""
    if most is not CaptionVerdict.PASS:
        return _ADVICE[most]
    middle = math.log(settings.k) / 2
    needed = median(abs(one - middle) / middle for one in dis)
    if needed < _LEAST_ETA:
        return (
            f"all are near the middle, so that a smaller eta alone does not help: take a larger k "
            f"({_PROFILE}), which needs as many images, or an embedder that tells more apart"
        )
    return f"take a smaller eta ({_PROFILE}): with {needed:.2g} half of them would pass"


def dis_histogram(dis: Sequence[float], k: int, interval: AcceptedInterval) -> str:
    """A histogram in text: a line for each twelfth of the range from 0 to log k.

    The range of values comes first, because a bar does not show how thin it is. Bars of values that
    pass are full, others are light; a bar across an end of the interval has both.
    """
    width = math.log(k) / _BINS
    counts: list[dict[bool, int]] = [{True: 0, False: 0} for _ in range(_BINS)]
    for one in dis:
        passes = interval.verdict(one) is CaptionVerdict.PASS
        counts[min(_BINS - 1, int(one / width))][passes] += 1
    highest = max(1, *(sum(count.values()) for count in counts))
    lines = [
        f"  {place * width:6.3f} – {(place + 1) * width:6.3f} {sum(count.values()):>7,} "
        f"{'█' * _bar(count[True], highest)}{'░' * _bar(count[False], highest)}".rstrip()
        for place, count in enumerate(counts)
    ]
    head = (
        f"dis(t) from {min(dis, default=0):.6g} to {max(dis, default=0):.6g}; passes from "
        f"{interval.lower:.6g} to {interval.upper:.6g}, log k is {math.log(k):.6g}"
    )
    return "\n".join([head, *lines])


def _bar(count: int, highest: int) -> int:
    return math.ceil(_WIDEST * count / highest)
