import pytest

from loupe.retrieval.edit_measures import NO_CHANGE, judge_edit
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import EditMeasurement
from loupe.schemas.records import Rejection
from loupe.schemas.taxonomy import DifferenceType

SETTINGS = EditCheckSettings()
COLOUR, STYLE = DifferenceType.ENTITY_ATTRIBUTE, DifferenceType.STYLE


def measured(
    changed: float,
    outside: float | None = None,
    shift: float | None = None,
    apart: float | None = None,
) -> EditMeasurement:
    return EditMeasurement(
        changed_share=changed, outside_share=outside, shift=shift, apart_share=apart
    )


def test_a_good_edit_has_no_warnings() -> None:
    assert judge_edit(measured(0.04, 0.0, 0.2), COLOUR, SETTINGS) == ()
    assert judge_edit(measured(0.04, 0.001), COLOUR, SETTINGS) == ()
    assert judge_edit(measured(0.9, None, 0.2), STYLE, SETTINGS) == ()


def test_a_no_op_is_rejected_with_its_figures(subtests: pytest.Subtests) -> None:
    cases: list[tuple[EditMeasurement, str]] = [
        (measured(0.0, None, 0.4), "0 % of the picture changed visibly, wanted 0.1 % at least"),
        (measured(0.0009, 0.0), "0.09 % of the picture changed visibly, wanted 0.1 % at least"),
        (measured(0.2, 0.0, 0.0), "the wanted detail did not change"),
        (measured(0.2, 0.0, -0.1), "no better than the anchor does (shift -0.100, wanted more"),
    ]
    for measurement, detail in cases:
        with subtests.test(measurement=measurement, detail=detail):
            found = judge_edit(measurement, COLOUR, SETTINGS)
            assert isinstance(found, Rejection)
            assert (found.stage, found.reason) == ("judge_edits", NO_CHANGE)
            assert detail in found.detail
            assert EditMeasurement.model_validate(found.context) == measurement


def test_warnings_are_sentences(subtests: pytest.Subtests) -> None:
    cases: list[tuple[EditMeasurement, DifferenceType, list[str]]] = [
        (
            measured(0.1, 0.031, 0.2),
            COLOUR,
            ["3.1 % of the picture changed outside the wanted region."],
        ),
        (
            measured(0.1, 0.0995, 0.2),
            COLOUR,
            [
                "Next to nothing changed in the wanted region.",
                "10 % of the picture changed outside the wanted region.",
            ],
        ),
        (
            measured(0.1, None, 0.2, 0.02),
            COLOUR,
            ["2 % of the picture changed in further places than one such change explains."],
        ),
        (measured(0.1, None, 0.2, 0.019), COLOUR, []),
        (
            measured(0.62, 0.0),
            COLOUR,
            ["62 % of the picture changed, though Entity Attribute concerns one thing in it."],
        ),
        (
            measured(0.05),
            STYLE,
            [
                "Only 5 % of the picture changed, though Style & Presentation concerns all of it.",
            ],
        ),
        (
            measured(0.7, 0.2, 0.01),
            COLOUR,
            [
                "20 % of the picture changed outside the wanted region.",
                "70 % of the picture changed, though Entity Attribute concerns one thing in it.",
                (
                    "The wanted detail may not have changed: the image fits the wanted caption "
                    "hardly better than the anchor does (shift +0.010)."
                ),
            ],
        ),
    ]
    for measurement, difference, warnings in cases:
        with subtests.test(measurement=measurement, difference=difference):
            assert judge_edit(measurement, difference, SETTINGS) == tuple(warnings)


def test_without_a_region_the_embedder_threshold_is_higher() -> None:
    easy = EditCheckSettings(least_shift=-0.02, doubtful_shift=-0.02)
    assert judge_edit(measured(0.04, 0.0, 0.01), COLOUR, easy) == ()
    assert judge_edit(measured(0.9, None, 0.01), STYLE, easy) == ()
    (doubt,) = judge_edit(measured(0.04, None, 0.01, 0.0), COLOUR, easy)
    assert "may not have changed" in doubt


def test_the_embedder_can_be_left_out() -> None:
    without_embedder = EditCheckSettings(least_shift=None)
    assert judge_edit(measured(0.2, 0.0, -0.3), COLOUR, without_embedder) == ()
