from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from loupe.demo.stills.drawing import draw_still
from loupe.demo.worlds.stills import lay_out, vary
from loupe.retrieval.edit_measures import (
    caption_shift,
    change_between,
    concerns_all,
    judge_edit,
    measure_edit,
)
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import EditMeasurement
from loupe.schemas.taxonomy import DifferenceType
from tests.retrieval.image_edits.pictures import as_a_model_would, chance, pasted, still, truth

SETTINGS = EditCheckSettings()
SIZE = (400, 300)
GREY = (120, 130, 140)


def painted(*boxes: tuple[tuple[int, int, int, int], tuple[int, int, int]]) -> Image.Image:
    picture = Image.new("RGB", SIZE, GREY)
    for box, colour in boxes:
        picture.paste(colour, box)
    return picture


def measured_between(
    anchor: Image.Image, edited: Image.Image, difference: DifferenceType, **known: Any
) -> EditMeasurement:
    change = change_between(anchor, edited, SETTINGS)
    return measure_edit(change, anchor.size, difference, **known)


BIG, SMALL = (100, 100, 220, 200), (300, 30, 350, 80)


def test_changes_outside_a_given_region_are_counted() -> None:
    edited = painted((BIG, (200, 30, 30)), (SMALL, (30, 200, 30)))
    region = ((100.0, 100.0, 220.0, 200.0),)
    kind = DifferenceType.ENTITY_TYPE
    measured = measured_between(painted(), edited, kind, regions=region)
    assert measured.changed_share == pytest.approx((12_000 + 2_500) / 120_000, rel=0.06)
    assert measured.outside_share == pytest.approx(2_500 / 120_000, rel=0.2)
    assert measured.region_xyxy == pytest.approx(region[0])
    assert (measured.region_by, measured.apart_share) == ("the editor", None)
    both = (*region, (290.0, 20.0, 360.0, 90.0))
    around = measured_between(painted(), edited, kind, regions=both)
    assert around.outside_share == 0
    assert around.region_xyxy == (100.0, 20.0, 360.0, 200.0)
    warnings = judge_edit(measured, kind, SETTINGS)
    assert isinstance(warnings, tuple)
    assert [doubt.split(" % ")[1] for doubt in warnings] == [
        "of the picture changed outside the wanted region."
    ]


def test_without_a_region_separate_changed_places_are_counted(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[DifferenceType, bool | None]] = [
        (DifferenceType.ENTITY_TYPE, True),
        (DifferenceType.ENTITY_ATTRIBUTE, True),
        (DifferenceType.ENTITY_RELATION, False),
        (DifferenceType.EVENT_ATTRIBUTE, False),
        (DifferenceType.SCENE_TYPE, None),
        (DifferenceType.STYLE, None),
    ]
    for difference, apart in cases:
        with subtests.test(difference=difference, apart=apart):
            edited = painted((BIG, (200, 30, 30)), (SMALL, (30, 200, 30)))
            measured = measured_between(painted(), edited, difference)
            assert (measured.outside_share, measured.region_xyxy, measured.region_by) == (
                None,
                None,
                None,
            )
            assert (measured.apart_share is None) is (apart is None) is concerns_all(difference)
            assert bool(measured.apart_share) is bool(apart)
            warnings = judge_edit(measured, difference, EditCheckSettings(doubtful_global_share=0))
            assert isinstance(warnings, tuple)
            assert [doubt.split(" % ")[1] for doubt in warnings] == [
                "of the picture changed in further places than one such change explains."
            ] * bool(apart)


def test_objects_recoloured_alike_count_as_one_change() -> None:
    red = painted((BIG, (200, 30, 30)), (SMALL, (200, 30, 30)))
    kind = DifferenceType.ENTITY_ATTRIBUTE
    assert measured_between(painted(), red, kind).apart_share == 0
    assert measured_between(painted(), red, DifferenceType.ENTITY_TYPE).apart_share


def test_variants_of_drawn_stills_are_accepted_after_re_encoding(subtests: pytest.Subtests) -> None:
    for place in range(0, 24, 6):
        with subtests.test(place=place):
            known = truth(place)
            varied, change = vary(chance("vary", place), known.content, known.task)
            anchor = draw_still(lay_out(known.content, chance("layout", place)))
            drawn = draw_still(lay_out(varied, chance("layout", place)))
            edited = as_a_model_would(drawn)
            kind = (
                DifferenceType.SCENE_TYPE if change == "place" else DifferenceType.ENTITY_ATTRIBUTE
            )
            measured = measured_between(anchor, edited, kind)
            assert measured.changed_share > 3 * SETTINGS.least_changed_share
            assert isinstance(judge_edit(measured, kind, SETTINGS), tuple)


def test_the_region_is_in_pixels_of_the_anchor() -> None:
    anchor = still(4).resize((960, 720))
    edited = pasted(anchor, (300, 200, 540, 420))
    region = (290.0, 190.0, 550.0, 430.0)
    measured = measured_between(anchor, edited, DifferenceType.ENTITY_TYPE, regions=[region])
    assert measured.outside_share == pytest.approx(0, abs=0.002)
    assert (measured.region_xyxy, measured.region_by) == (region, "the editor")


UNIT = st.lists(st.floats(-1, 1), min_size=6, max_size=6).filter(lambda row: any(map(abs, row)))


def unit(row: list[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    vector = np.array(row) / max(np.abs(row))
    return np.asarray(vector / np.linalg.norm(vector))


@given(UNIT, UNIT, UNIT, UNIT)
def test_the_caption_shift_equals_its_definition(
    one: list[float], two: list[float], three: list[float], four: list[float]
) -> None:
    anchor, candidate, caption, wanted = map(unit, (one, two, three, four))
    literal = (candidate @ wanted - candidate @ caption) - (anchor @ wanted - anchor @ caption)
    assert caption_shift(anchor, candidate, caption, wanted) == pytest.approx(literal, abs=1e-5)
    assert caption_shift(candidate, anchor, caption, wanted) == pytest.approx(-literal, abs=1e-5)
    assert caption_shift(anchor, anchor, caption, wanted) == 0
