"""A scene made visible: the place, then each thing with a line of ink around it, then the style."""

from typing import NamedTuple

from PIL import Image

from models.builtin.drawing.figures import paint_figure
from models.builtin.drawing.ink import put_inked
from models.builtin.drawing.pen import Pen
from models.builtin.drawing.places import draw_place
from models.builtin.drawing.signs import paint_sign
from models.builtin.drawing.styles import LINE_PX, in_style
from models.builtin.drawing.things import PAINTERS
from models.builtin.drawing.vocabulary import COLOURS
from sources.demonstration.chance import Chance
from sources.demonstration.stills.placing import (
    FIGURE,
    HEIGHT_PX,
    SIGN,
    WIDTH_PX,
    Placed,
    place_things,
)
from sources.demonstration.stills.scene import Scene


class Rendering(NamedTuple):
    """The picture (RGB, 320 × 240), and where each thing is in it, in the order of drawing."""

    picture: Image.Image
    placed: list[Placed]


def render_still(scene: Scene, layout_seed: int) -> Rendering:
    """Draws a scene; another `layout_seed` puts the same things elsewhere."""
    chance = Chance("stills", layout_seed)
    canvas = draw_place(chance, scene.place, (WIDTH_PX, HEIGHT_PX))
    placed = place_things(chance, scene)
    line_px = LINE_PX[scene.style]
    for box in sorted(placed, key=lambda box: box.top + box.height):
        put_inked(canvas, _drawn(chance, scene, box), (box.left, box.top), line_px)
    return Rendering(in_style(canvas, scene.style, chance), placed)


def _drawn(chance: Chance, scene: Scene, box: Placed) -> Image.Image:
    """The thing alone, on a transparent sheet, `FINE` times finer than the picture."""
    pen = Pen(box.width, box.height)
    if box.group == SIGN:
        paint_sign(pen, scene.sign or "")
        return pen.sheet
    if box.group == FIGURE:
        if scene.figure is not None:
            paint_figure(pen, scene.figure)
        return pen.sheet
    group = scene.groups[box.group]
    PAINTERS[group.kind](pen, COLOURS[group.colour])
    if chance.happens(0.5) and group.kind not in ("book", "clock"):
        return pen.sheet.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return pen.sheet
