"""Drawn people: colours where the garments are, the right side, the right place."""

import itertools

import numpy as np
import pytest
from PIL import Image

from sources.demonstration.drawing import Box, draw_person
from sources.demonstration.people import (
    CLOTH,
    Carried,
    Chance,
    Garment,
    Pattern,
    Person,
    Side,
    draw_person_attributes,
)
from sources.demonstration.poses import Action, Pose, View, draw_pose

_BACKGROUND = (7, 201, 190)
_BOX = Box(30, 20, 130, 300)


def _draw(person: Person, yaw_degrees: float) -> Image.Image:
    canvas = Image.new("RGB", (160, 320), _BACKGROUND)
    pose = Pose(action=Action.STANDING, yaw_degrees=yaw_degrees, phase=0.0)
    draw_person(canvas, person, pose, _BOX)
    return canvas


def _plainly_dressed(number: int, **changes: object) -> Person:
    person = draw_person_attributes(Chance("drawing", number))
    bare = {"jacket": None, "scarf": None, "carried": None, "headwear": None}
    upper = Garment(kind="sweater", colour="red", sleeve="long")
    lower = Garment(kind="jeans", colour="blue", length="long")
    return person.model_copy(update=bare | {"upper": upper, "lower": lower} | changes)


def _median_colour(picture: Image.Image, box: tuple[int, int, int, int]) -> np.ndarray:
    return np.median(np.asarray(picture.crop(box), np.float64).reshape(-1, 3), axis=0)


def test_the_chest_has_the_colour_of_the_garment(subtests: pytest.Subtests) -> None:
    for colour, yaw_degrees in itertools.product(CLOTH, (0, 180)):
        with subtests.test(colour=colour, yaw_degrees=yaw_degrees):
            upper = Garment(kind="sweater", colour=colour, sleeve="long")
            person = _plainly_dressed(1, upper=upper)
            person = person.model_copy(
                update={
                    "hair": person.hair.model_copy(update={"length": "short", "style": "straight"})
                }
            )
            seen = _median_colour(_draw(person, yaw_degrees), (70, 105, 90, 135))
            assert np.abs(seen - CLOTH[colour]).max() < 22


@pytest.mark.parametrize("colour", ["black", "blue", "khaki"])
def test_the_legs_have_the_colour_of_the_trousers(colour: str) -> None:
    person = _plainly_dressed(2, lower=Garment(kind="trousers", colour=colour, length="long"))
    seen = _median_colour(_draw(person, 0), (62, 200, 72, 215))
    assert np.abs(seen - CLOTH[colour]).max() < 30


@pytest.mark.parametrize("pattern", [Pattern.STRIPED, Pattern.PLAID, Pattern.DOTTED])
def test_a_pattern_shows_its_second_colour(pattern: Pattern) -> None:
    upper = Garment(
        kind="shirt", colour="blue", pattern=pattern, second_colour="white", sleeve="long"
    )
    torso = np.asarray(_draw(_plainly_dressed(3, upper=upper), 180).crop((65, 95, 95, 160)), float)
    white = (np.abs(torso - CLOTH["white"]).max(axis=2) < 70).mean()
    blue = (np.abs(torso - CLOTH["blue"]).max(axis=2) < 45).mean()
    assert white > 0.03
    assert blue > 0.3


def test_a_bag_is_on_the_persons_own_side(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, bool]] = [(0, False), (180, True)]
    for side, (yaw_degrees, mirrored) in itertools.product(Side, cases):
        with subtests.test(side=side, yaw_degrees=yaw_degrees, mirrored=mirrored):
            person = _plainly_dressed(
                4, carried=Carried(kind="handbag", colour="yellow", side=side)
            )
            pixels = np.asarray(_draw(person, yaw_degrees), float)
            bag = np.abs(pixels - CLOTH["yellow"]).max(axis=2) < 50
            assert bag.sum() > 100
            on_the_right_of_the_image = np.nonzero(bag)[1].mean() > 80
            assert on_the_right_of_the_image == ((side is Side.LEFT) != mirrored)


def test_a_backpack_covers_the_back_and_shows_only_its_straps_in_front() -> None:
    person = _plainly_dressed(5, carried=Carried(kind="backpack", colour="yellow"))
    shares = []
    for yaw_degrees in (0, 180):
        torso = np.asarray(_draw(person, yaw_degrees).crop((50, 70, 110, 170)), float)
        shares.append((np.abs(torso - CLOTH["yellow"]).max(axis=2) < 60).mean())
    assert 0.01 < shares[0] < 0.25
    assert shares[1] > 0.35


def test_the_figure_stands_in_its_box() -> None:
    for number in range(6):
        canvas = Image.new("RGB", (160, 320), _BACKGROUND)
        person = _plainly_dressed(number)
        pose = draw_pose(Chance("box", number), person, View.FRONT)
        figure = draw_person(canvas, person, pose, _BOX)
        assert abs(figure.top - _BOX.top) < 16
        assert abs(figure.bottom - _BOX.bottom) < 14
        assert 0 < figure.left < 80 < figure.right < 160


def test_a_figure_partly_or_wholly_outside_the_canvas_is_cut() -> None:
    person = _plainly_dressed(6)
    pose = Pose(action=Action.WALKING, yaw_degrees=90, phase=0.3)
    canvas = Image.new("RGB", (100, 200), _BACKGROUND)
    cut = draw_person(canvas, person, pose, Box(70, 20, 130, 260))
    assert cut.right == 100
    assert cut.bottom == 200
    blank = Image.new("RGB", (100, 200), _BACKGROUND)
    draw_person(blank, person, pose, Box(900, 20, 960, 190))
    assert blank.getcolors() == [(100 * 200, _BACKGROUND)]


def test_every_person_can_be_drawn_from_every_view() -> None:
    for number in range(6):
        person = draw_person_attributes(Chance("all", number))
        for view in View:
            canvas = Image.new("RGB", (64, 128), _BACKGROUND)
            pose = draw_pose(Chance("all", number, view), person, view)
            assert pose.view is view
            figure = draw_person(canvas, person, pose, Box(16, 28, 48, 122))
            assert figure.bottom - figure.top > 80
