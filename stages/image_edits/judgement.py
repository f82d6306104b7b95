"""Whether an edit is one, and what speaks against it."""

from schemas.contrast import EditCheckSettings
from schemas.proposals import EditMeasurement
from schemas.records import Rejection
from schemas.taxonomy import DifferenceType
from stages.image_edits.measurement import concerns_all

STAGE = "judge_edits"
VERSION = "2"

NO_CHANGE = "no_change"
"""The reason for which an edit is tried again with another seed."""


def judge_edit(
    measurement: EditMeasurement, difference: DifferenceType, settings: EditCheckSettings
) -> tuple[str, ...] | Rejection:
    """What speaks against an edit, a sentence each; a rejection (`no_change`) where it is none.

    It is none where next to nothing changed visibly, or where the embedder finds that the candidate
    fits the wanted caption no better than the anchor does.
    """
    if measurement.changed_share < settings.least_changed_share:
        return _no_change(
            measurement,
            f"{_percent(measurement.changed_share)} of the picture changed visibly, "
            f"wanted {_percent(settings.least_changed_share)} at least",
        )
    shift = measurement.shift
    if shift is not None and settings.least_shift is not None and shift <= settings.least_shift:
        return _no_change(
            measurement,
            "the wanted detail did not change: the edited image fits the wanted caption no better "
            f"than the anchor does (shift {shift:+.3f}, wanted more than "
            f"{settings.least_shift:g})",
        )
    return tuple(_doubts(measurement, difference, settings))


def _doubts(
    measurement: EditMeasurement, difference: DifferenceType, settings: EditCheckSettings
) -> list[str]:
    changed, shift = measurement.changed_share, measurement.shift
    doubts = _doubts_of_place(measurement, settings)
    if concerns_all(difference):
        if changed < settings.doubtful_global_share:
            doubts.append(
                f"Only {_percent(changed)} of the picture changed, though {difference} concerns "
                "all of it."
            )
    elif changed >= settings.doubtful_changed_share:
        doubts.append(
            f"{_percent(changed)} of the picture changed, though {difference} concerns one thing "
            "in it."
        )
    doubtful_shift = settings.doubtful_shift
    if measurement.apart_share is not None:
        doubtful_shift = max(doubtful_shift, settings.doubtful_unplaced_shift)
    if shift is not None and settings.least_shift is not None and shift < doubtful_shift:
        doubts.append(
            f"The wanted detail may not have changed: the image fits the wanted caption hardly "
            f"better than the anchor does (shift {shift:+.3f})."
        )
    return doubts


def _doubts_of_place(measurement: EditMeasurement, settings: EditCheckSettings) -> list[str]:
    """Doubts whether it changed where it was to, or, where nobody knows that, in one place."""
    outside, apart = measurement.outside_share, measurement.apart_share
    doubts = []
    if outside is not None:
        if measurement.changed_share - outside < settings.least_changed_share:
            doubts.append("Next to nothing changed in the wanted region.")
        if outside >= settings.doubtful_outside_share:
            doubts.append(f"{_percent(outside)} of the picture changed outside the wanted region.")
    if apart is not None and apart >= settings.doubtful_outside_share:
        doubts.append(
            f"{_percent(apart)} of the picture changed in further places than one such change "
            "explains."
        )
    return doubts


def _no_change(measurement: EditMeasurement, detail: str) -> Rejection:
    return Rejection(
        stage=STAGE, reason=NO_CHANGE, detail=detail, context=measurement.model_dump(mode="json")
    )


def _percent(share: float) -> str:
    """A share in percents, with as many digits as say something."""
    percents = 100 * share
    return f"{percents:.0f} %" if percents >= 10 else f"{percents:.2g} %"
