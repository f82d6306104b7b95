"""Bounds of the choice among search results, and a warning where nobody measured them."""

from flows.ccd.image_choice import LEAST_KNOWN
from schemas.contrast import ChoiceCalibration, SuggestedBound
from schemas.profile import ContrastSettings


def uncalibrated_threshold_warning(
    settings: ContrastSettings, found: ChoiceCalibration
) -> str | None:
    """A warning on the bounds of the choice; None where they were measured with the embedder.

    Args:
        settings: the bounds in force, and whose they are.
        found: what the results of searches suggest.
    """
    if _are_measured(settings):
        return None
    bounds = settings.choice
    return (
        f"the bounds of the choice (floor {bounds.floor:g}, ceiling {bounds.ceiling:g}) were not "
        f"measured with {settings.embedder.name}; results suggest "
        f"{_suggested('a floor', found.floor)} and {_suggested('a ceiling', found.ceiling)}; "
        "once they are yours, say so in the profile (contrast.bounds_measured_with)"
    )


def edit_bounds_warning(settings: ContrastSettings) -> str | None:
    """A warning on the bounds of the check of edits; None where they were measured."""
    check = settings.edit_check
    if _are_measured(settings) or check.least_shift is None:
        return None
    return (
        f"whether an edit changed the wanted detail is judged by bounds (shift above "
        f"{check.least_shift:g}, doubtful below {check.doubtful_shift:g}) that were not measured "
        f"with {settings.embedder.name}"
    )


def _are_measured(settings: ContrastSettings) -> bool:
    return settings.bounds_measured_with == settings.embedder.name


def _suggested(what: str, bound: SuggestedBound) -> str:
    if bound.value is None:
        return f"no {what.split()[-1]} yet ({bound.known} of {LEAST_KNOWN} are known)"
    return f"{what} of {bound.value:g}"
