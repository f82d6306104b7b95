"""A run says where bounds were not measured with the embedder that they are applied to."""

import pytest

from flows.ccd.image_choice import edit_bounds_warning, uncalibrated_threshold_warning
from models.profiles.loader import load_profile
from schemas.contrast import ChoiceCalibration, ChoiceSettings, EditCheckSettings, SuggestedBound
from schemas.profile import ContrastSettings

LITTLE = SuggestedBound(value=None, known=7, reason="too little is known")
ENOUGH = SuggestedBound(value=0.42, known=31, reason="enough is")


def found(floor: SuggestedBound, ceiling: SuggestedBound) -> ChoiceCalibration:
    return ChoiceCalibration(
        embedder="some@1",
        settings=ChoiceSettings(),
        anchors=3,
        results=12,
        near_duplicates=0,
        judged=0,
        accepted=0,
        quantiles=(),
        unrelated=(),
        floor=floor,
        ceiling=ceiling,
        within=12,
        within_suggested=12,
    )


@pytest.mark.parametrize("name", ["small", "paper", "current"])
def test_bounds_of_other_embedders_are_called_unmeasured(name: str) -> None:
    settings = load_profile(name).contrast
    message = uncalibrated_threshold_warning(settings, found(ENOUGH, LITTLE))
    assert message is not None
    assert settings.embedder.name in message
    assert "(floor 0.3, ceiling 0.97) were not measured" in message
    assert "results suggest a floor of 0.42 and no ceiling yet (7 of 20 are known)" in message
    edits = edit_bounds_warning(settings)
    assert edits is not None
    assert "(shift above -4, doubtful below 0)" in edits
    assert settings.edit_check.least_shift == -4, "no edit is thrown out by an unmeasured bound"


def test_of_measured_bounds_nothing_is_said() -> None:
    settings = load_profile("builtin").contrast
    assert uncalibrated_threshold_warning(settings, found(LITTLE, LITTLE)) is None
    assert edit_bounds_warning(settings) is None
    other = settings.model_copy(update={"bounds_measured_with": "another"})
    assert uncalibrated_threshold_warning(other, found(LITTLE, LITTLE)) is not None


def test_where_the_embedder_is_unused_its_bounds_are_not_reported() -> None:
    assert edit_bounds_warning(ContrastSettings()) is not None
    deaf = ContrastSettings(edit_check=EditCheckSettings(least_shift=None))
    assert edit_bounds_warning(deaf) is None
