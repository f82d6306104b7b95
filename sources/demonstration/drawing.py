"""A person drawn from a pose, at any size, onto any canvas."""

import math
from typing import NamedTuple

import numpy as np
from PIL import Image

from sources.demonstration.figure import paint_figure
from sources.demonstration.frame import Frame
from sources.demonstration.people import Person
from sources.demonstration.poses import Pose
from sources.demonstration.strokes import Layer

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

    The figure is as high as `box` and stands in its horizontal middle; what sticks out (swinging
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
        light,
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
    picture = Image.fromarray(layer.pixels).reduce(fine)
    extent = picture.getchannel("A").getbbox()
    if extent is None:
        return Box(area[0], area[1], area[0], area[1])
    corner = (area[0] + extent[0], area[1] + extent[1])
    cut = picture.crop(extent)
    canvas.paste(cut, corner, cut)
    return Box(*(value + area[index % 2] for index, value in enumerate(extent)))
