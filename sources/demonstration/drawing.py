"""Draws a person in a scene, and says what of the person is visible."""

import math
from typing import NamedTuple

import numpy as np
from PIL import Image

from schemas.base import Record
from sources.demonstration.figure import paint_figure
from sources.demonstration.layer import Layer
from sources.demonstration.people import (
    Age,
    Build,
    Carried,
    Footwear,
    Garment,
    Hair,
    Headwear,
    Jacket,
    Pattern,
    Person,
    Sex,
)
from sources.demonstration.poses import Action, Frame, Pose, View

# What of a person can be seen in an image: captions may say nothing else.


class Visible(Record):
    """The visible part of a person's attributes; None where an attribute does not show or exist.

    `open_jacket` is None where one cannot tell, or where there is no jacket.
    """

    sex: Sex
    age: Age | None
    build: Build
    skin: str | None
    hair: Hair
    beard: bool
    headwear: Headwear | None
    glasses: str | None
    scarf: str | None
    upper: Garment | None
    jacket: Jacket | None
    open_jacket: bool | None
    lower: Garment | None
    footwear: Footwear
    carried: Carried | None
    action: Action
    view: View


def visible_attributes(person: Person, pose: Pose) -> Visible:
    """What shows of `person` in `pose`."""
    back, front = pose.view is View.BACK, pose.view is View.FRONT
    return Visible(
        sex=person.sex,
        age=None if back and person.age is not Age.ELDERLY else person.age,
        build=person.build,
        skin=None if back else person.skin,
        hair=_hair(person.hair, front=front),
        beard=person.beard and not back,
        headwear=person.headwear,
        glasses=None if back else person.glasses,
        scarf=None if back and person.hair.length != "short" else person.scarf,
        upper=_upper(person, front=front),
        jacket=person.jacket,
        open_jacket=person.jacket.open if person.jacket and front else None,
        lower=person.lower,
        footwear=person.footwear,
        carried=_carried(person.carried, pose.view),
        action=pose.action,
        view=pose.view,
    )


def _hair(hair: Hair, *, front: bool) -> Hair:
    """From the front a ponytail only shows as hair that is tied back."""
    return hair.model_copy(update={"style": "tied"}) if front and hair.style == "ponytail" else hair


def _upper(person: Person, *, front: bool) -> Garment | None:
    """The upper garment without its print, which is on the chest, where that does not show."""
    jacket = person.jacket
    if jacket and jacket.kind != "vest" and not (front and jacket.open):
        return None
    garment = person.upper
    if jacket and jacket.kind != "vest":
        garment = garment.model_copy(update={"sleeve": None})
    if garment.pattern is Pattern.PRINTED and not front:
        plain = {"pattern": Pattern.PLAIN, "second_colour": None}
        garment = garment.model_copy(update=plain)
    return garment


def _carried(carried: Carried | None, view: View) -> Carried | None:
    """What hangs on the far side of somebody seen from the side is hidden; an umbrella never is."""
    if carried is None or carried.side is None or carried.kind == "umbrella":
        return carried
    hidden = {View.LEFT: "right", View.RIGHT: "left"}.get(view)
    return None if carried.side == hidden else carried


# A person drawn from a pose, at any size, onto any canvas.

STATURE_METRES = 1.76
_COARSE_SCALE = 140
"""Below this many pixels per metre a figure is supersampled three times, above twice."""


class Box(NamedTuple):
    """A place on a canvas in pixels: the soles stand on `bottom`, the crown is at `top`."""

    left: float
    top: float
    right: float
    bottom: float


def draw_person(
    canvas: Image.Image, person: Person, pose: Pose, box: Box, light: float = -0.5
) -> Box:
    """Paints the person onto `canvas` (RGB) and returns the box of the painted pixels.

    The figure is as high as `box` and is in its horizontal middle; what sticks out (swinging
    arms, an open umbrella) is painted too, as far as the canvas reaches. `light` says where the
    light comes from, -1 (left) to 1 (right).
    """
    scale = (box.bottom - box.top) / STATURE_METRES
    area = _painted_area(canvas, box, scale)
    if area[0] >= area[2] or area[1] >= area[3]:
        return Box(area[0], area[1], area[0], area[1])
    _cast_shadow(canvas, box, scale, light)
    fine = 3 if scale < _COARSE_SCALE else 2
    layer = Layer(
        (area[2] - area[0]) * fine,
        (area[3] - area[1]) * fine,
        scale * fine,
        (
            ((box.left + box.right) / 2 - area[0]) * fine,
            (box.bottom - area[1]) * fine,
        ),
    )
    paint_figure(Frame(person, pose, layer))
    return _composite(canvas, layer, area, fine)


def _painted_area(canvas: Image.Image, box: Box, scale: float) -> tuple[int, int, int, int]:
    """The whole pixels of the canvas that the figure can reach: (left, top, right, bottom)."""
    middle, reach = (box.left + box.right) / 2, 0.75 * scale
    return (
        max(0, math.floor(middle - reach)),
        max(0, math.floor(box.top - 0.5 * scale)),
        min(canvas.width, math.ceil(middle + reach)),
        min(canvas.height, math.ceil(box.bottom + 0.15 * scale)),
    )


def _cast_shadow(canvas: Image.Image, box: Box, scale: float, light: float) -> None:
    """A soft shadow on the ground around the feet, away from the light."""
    wide, high = 0.34 * scale, 0.075 * scale
    x, y = (box.left + box.right) / 2 - 0.12 * scale * light, box.bottom - 0.025 * scale
    left, top = max(0, math.floor(x - 2 * wide)), max(0, math.floor(y - 2 * high))
    right = min(canvas.width, math.ceil(x + 2 * wide))
    bottom = min(canvas.height, math.ceil(y + 2 * high))
    if left >= right or top >= bottom:
        return
    across = (np.arange(left, right) + 0.5 - x)[None, :] / wide
    down = (np.arange(top, bottom) + 0.5 - y)[:, None] / high
    dark = 1 - 0.45 * np.exp(-1.6 * (across**2 + down**2))
    under = np.asarray(canvas.crop((left, top, right, bottom)), np.float32)
    canvas.paste(Image.fromarray((under * dark[..., None]).astype(np.uint8)), (left, top))


def _composite(
    canvas: Image.Image, layer: Layer, area: tuple[int, int, int, int], fine: int
) -> Box:
    """Blends the reduced layer into the canvas and returns the box of what it covers."""
    picture = layer.picture.reduce(fine)
    extent = picture.getchannel("A").getbbox()
    if extent is None:
        return Box(area[0], area[1], area[0], area[1])
    corner = (area[0] + extent[0], area[1] + extent[1])
    cut = picture.crop(extent)
    canvas.paste(cut, corner, cut)
    return Box(*(value + area[index % 2] for index, value in enumerate(extent)))
