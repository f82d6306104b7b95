"""Drawn people: colours of garments, sides of bags, size and position."""

import itertools

import numpy as np
from PIL import Image

from loupe.demo.worlds.figure import STATURE_METRES, Action, Pose, draw_figure
from loupe.demo.worlds.people import (
    CLOTH,
    Carried,
    Garment,
    Hair,
    Person,
    Side,
    draw_person_attributes,
)
from loupe.sources.chance import Chance

_BACKGROUND = (7, 201, 190)
_SHORT = Hair(colour="black", length="short")
_FOOT, _SCALE = (80, 300), 280 / STATURE_METRES


def _draw(person: Person, yaw_degrees: float) -> Image.Image:
    canvas = Image.new("RGB", (160, 320), _BACKGROUND)
    pose = Pose(action=Action.STANDING, yaw_degrees=yaw_degrees, phase=0.0)
    draw_figure(person, pose, _SCALE).paste(canvas, _FOOT)
    return canvas


def _person_in_plain_clothes(number: int, **changes: object) -> Person:
    person = draw_person_attributes(Chance("drawing", number))
    bare = {"jacket": None, "carried": None, "headwear": None}
    upper = Garment(kind="sweater", colour="red", sleeve="long")
    lower = Garment(kind="jeans", colour="blue", length="long")
    return person.model_copy(update=bare | {"upper": upper, "lower": lower} | changes)


def _median_colour(picture: Image.Image, box: tuple[int, int, int, int]) -> np.ndarray:
    return np.median(np.asarray(picture.crop(box), np.float64).reshape(-1, 3), axis=0)


def test_the_chest_has_the_colour_of_the_garment() -> None:
    for colour, yaw_degrees in zip(CLOTH, itertools.cycle((0, 180)), strict=False):
        upper = Garment(kind="sweater", colour=colour, sleeve="long")
        picture = _draw(_person_in_plain_clothes(1, upper=upper, hair=_SHORT), yaw_degrees)
        seen = _median_colour(picture, (70, 105, 90, 135))
        assert np.abs(seen - CLOTH[colour]).max() < 22, (colour, yaw_degrees)


def test_a_bag_is_on_the_left_or_right_of_the_person() -> None:
    for side, (yaw_degrees, mirrored) in itertools.product(Side, ((0, False), (180, True))):
        person = _person_in_plain_clothes(
            4, carried=Carried(kind="handbag", colour="yellow", side=side)
        )
        pixels = np.asarray(_draw(person, yaw_degrees), float)
        bag = np.abs(pixels - CLOTH["yellow"]).max(axis=2) < 50
        assert bag.sum() > 100, (side, yaw_degrees)
        on_the_right_of_the_image = np.nonzero(bag)[1].mean() > 80
        assert on_the_right_of_the_image == ((side is Side.LEFT) != mirrored), (side, yaw_degrees)
