"""A person drawn from a pose, at any size, onto any canvas."""

import math
from typing import NamedTuple

import numpy as np
from PIL import Image

from sources.demonstration.figure import Figure
from sources.demonstration.people import Person
from sources.demonstration.poses import Pose
from sources.demonstration.strokes import Layer

STATURE_METRES = 1.76
_SUPERSAMPLING = 3


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
    layer = Layer(
        (area[2] - area[0]) * _SUPERSAMPLING,
        (area[3] - area[1]) * _SUPERSAMPLING,
        scale * _SUPERSAMPLING,
        (
            ((box.left + box.right) / 2 - area[0]) * _SUPERSAMPLING,
            (box.bottom - area[1]) * _SUPERSAMPLING,
        ),
        light,
    )
    Figure(person, pose, layer).paint()
    return _composite(canvas, layer, area)


def _painted_area(canvas: Image.Image, box: Box, scale: float) -> tuple[int, int, int, int]:
    """The whole pixels of the canvas that the figure can reach: (left, top, right, bottom)."""
    middle, reach = (box.left + box.right) / 2, 0.75 * scale
    return (
        max(0, math.floor(middle - reach)),
        max(0, math.floor(box.top - 0.4 * scale)),
        min(canvas.width, math.ceil(middle + reach)),
        min(canvas.height, math.ceil(box.bottom + 0.15 * scale)),
    )


def _composite(canvas: Image.Image, layer: Layer, area: tuple[int, int, int, int]) -> Box:
    width, height = area[2] - area[0], area[3] - area[1]
    blocks = (height, _SUPERSAMPLING, width, _SUPERSAMPLING)
    alpha = layer.alpha.reshape(blocks).mean(axis=(1, 3))
    premultiplied = layer.colour * layer.alpha[..., None]
    colour = premultiplied.reshape(*blocks, 3).mean(axis=(1, 3))
    under = np.asarray(canvas.crop(area), np.float32)
    mixed = np.clip(np.rint(colour + under * (1 - alpha[..., None])), 0, 255).astype(np.uint8)
    canvas.paste(Image.fromarray(mixed), area[:2])
    rows, columns = np.nonzero(alpha.max(axis=1))[0], np.nonzero(alpha.max(axis=0))[0]
    if not rows.size:
        return Box(area[0], area[1], area[0], area[1])
    return Box(
        area[0] + int(columns[0]),
        area[1] + int(rows[0]),
        area[0] + int(columns[-1]) + 1,
        area[1] + int(rows[-1]) + 1,
    )
