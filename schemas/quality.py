"""Shares with confidence intervals, results of audits, and checks of texts."""

from collections.abc import Iterable
from statistics import NormalDist
from typing import Literal, NamedTuple

from pydantic import Field

from loupe.schemas.base import IF_ANY, IF_KNOWN, EntityRecord, Record

# Shares counted on a sample, with their confidence intervals.

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

LONGEST_MINUTES = 15.0
"""An answer counts for at most this long: a task may have been left open."""


class Interval(NamedTuple):
    """A confidence interval of a share; both ends are in [0, 1]."""

    lower: float
    upper: float


class Stratum(NamedTuple):
    """A part of a population: its size, the number audited, and the number counted among these."""

    population: int
    audited: int
    counted: int


class Estimate(NamedTuple):
    """A share in a whole population, estimated from a sample."""

    share: float
    interval: Interval


def wilson_interval(count: float, total: float) -> Interval:
    """Return the 95 % score interval of the share `count / total` (Wilson 1927).

    It is 0 to 1 if `total` is 0. Both may be fractions: `total` may be an effective sample size.
    It is computed here because importing statsmodels takes longer than most commands.
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
    """Estimate the share in the population that a stratified sample was drawn from.

    Each stratum is weighted by its population; strata without audited items are left out. The
    interval is Wilson's with the effective sample size, at which a simple sample has the variance
    of the stratified one (Korn and Graubard 1998). The effective size is at most the number of
    audited items, as a stratum without errors tells little about its variance.
    """
    seen = [stratum for stratum in strata if stratum.audited]
    audited = sum(stratum.audited for stratum in seen)
    population = sum(stratum.population for stratum in seen)
    if not population:
        return Estimate(0.0, wilson_interval(0, 0))
    share = variance = 0.0
    for stratum in seen:
        weight, part = stratum.population / population, stratum.counted / stratum.audited
        share += weight * part
        variance += weight**2 * part * (1 - part) / stratum.audited
    effective = min(audited, share * (1 - share) / variance) if variance else audited
    return Estimate(share, wilson_interval(share * effective, effective))


# The results of an audit of a sample of accepted items.

_PLACES = 4  # precise to 0.01 %, and the same on every machine


class AuditedDraw(NamedTuple):
    """A sample drawn from a queue and its results, by stratum.

    `by` names what it was stratified by; `drawn` is its size. For each stratum, `counted` is the
    number of items found wrong, which `wrong_items` names.
    """

    queue: str
    by: tuple[str, ...]
    drawn: int
    strata: dict[str, Stratum]
    wrong_items: tuple[str, ...]


class AuditStatistics(Record):
    """The error rate among the accepted items of a queue, estimated by an audit of a sample.

    Of `drawn` items, `audited` were audited by a person who had no part in accepting them, and
    `wrong` would not have been accepted as they are. `error_rate` is the share in the whole queue
    (0 to 1; strata are weighted by size), with a 95 % interval from `lower` to `upper`.
    """

    queue: str
    by: tuple[str, ...]
    drawn: int = Field(ge=0)
    audited: int = Field(ge=0)
    wrong: int = Field(ge=0)
    error_rate: float = Field(ge=0, le=1)
    lower: float = Field(ge=0, le=1)
    upper: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        unseen = f"; {self.drawn - self.audited:,} to come" if self.audited < self.drawn else ""
        return (
            f"{self.wrong:,} of {self.audited:,} wrong, {100 * self.error_rate:.1f} % "
            f"(95 % interval {100 * self.lower:.1f}–{100 * self.upper:.1f} %){unseen}"
        )


def summarise(draw: AuditedDraw) -> AuditStatistics:
    """Return the error rate estimated from a draw."""
    found = stratified_estimate(draw.strata.values())
    return AuditStatistics(
        queue=draw.queue,
        by=draw.by,
        drawn=draw.drawn,
        audited=sum(stratum.audited for stratum in draw.strata.values()),
        wrong=sum(stratum.counted for stratum in draw.strata.values()),
        error_rate=round(found.share, _PLACES),
        lower=round(found.interval.lower, _PLACES),
        upper=round(found.interval.upper, _PLACES),
    )


class KindErrors(Record):
    """The share of wrong items among the `items` of a kind, with a 95 % interval.

    People answered about `answered` of them, and `audited` are in an audit.
    """

    kind: str
    items: int = Field(ge=0)
    answered: int = Field(ge=0)
    audited: int = Field(ge=0)
    error_rate: float = Field(ge=0, le=1)
    lower: float = Field(ge=0, le=1)
    upper: float = Field(ge=0, le=1)


class ErrorStatistics(KindErrors):
    """The share of wrong items among all accepted items of a queue, and by kind.

    It is inferred from the answers of `people`, `gold_answers` of them to items with a known
    answer, by the model of Dawid and Skene. `unmeasured` accepted items are left out, because
    nobody answered about any item of their kind; `unmeasured_edits` of them are edits by people,
    which nobody else judged.
    """

    kind: str = "all"
    queue: str
    people: int = Field(ge=0)
    gold_answers: int = Field(ge=0)
    unmeasured: int = Field(ge=0)
    unmeasured_edits: int | None = IF_KNOWN
    kinds: tuple[KindErrors, ...]


class JudgeMeasurement(Record):
    """How good a judge is, counted on pairs with known truth (`loupe judge calibrate`).

    Of `changed` pairs with a wrong fact it objected to `found`, of `faithful` ones to `alarms`.
    `pairs` names their set, `prompt` the judge's prompt and its version.
    """

    pairs: str
    prompt: str
    found: int = Field(ge=0)
    changed: int = Field(ge=0)
    alarms: int = Field(ge=0)
    faithful: int = Field(ge=0)

    @property
    def youden(self) -> Estimate:
        """Youden's J, found minus false alarms: 1 is perfect, 0 is chance.

        The interval is that of a difference of two independent shares with score intervals
        (Newcombe 1998, method 10).
        """
        found = self.found / self.changed if self.changed else 0.0
        alarms = self.alarms / self.faithful if self.faithful else 0.0
        low, high = wilson_interval(self.found, self.changed)
        least, most = wilson_interval(self.alarms, self.faithful)
        difference = found - alarms
        lower = difference - ((found - low) ** 2 + (most - alarms) ** 2) ** 0.5
        upper = difference + ((high - found) ** 2 + (alarms - least) ** 2) ** 0.5
        return Estimate(difference, Interval(max(-1.0, lower), min(1.0, upper)))


class MeasuredJudge(JudgeMeasurement, EntityRecord, kind="measured_judge"):
    """How good a judge (`model@revision`) was found, on pairs with known truth.

    Of `changed` pairs with a wrong fact it objected to `found`, of `faithful` ones to `alarms`.
    `pairs` names their set, `prompt` the judge's prompt and its version.
    """

    judge: str

    @property
    def measured(self) -> JudgeMeasurement:
        """The counts alone."""
        return JudgeMeasurement.model_validate(self.model_dump(exclude={"judge"}))


SHARED_CAPTION = "shared_caption"
"""Reason against a text: captions of several identities have it."""


class CaptionCheck(EntityRecord, kind="caption_check"):
    """Reasons against a text, in sentences for people; empty if there are none.

    Flagged texts are reviewed by people if the policy asks any, and are left out otherwise. `judge`
    is the model that gave the reasons; None if they are measured. `beside` says that it compared
    the text with its image, and not with a text. `reasons` are short names of the warnings, for
    counting the captions of sources.
    """

    warnings: tuple[str, ...] = ()
    reasons: tuple[str, ...] = IF_ANY
    judge: str | None = IF_KNOWN
    beside: Literal["image"] | None = IF_KNOWN
