"""Puts everything into another place, and lets it rain there."""

import numpy as np

from models.builtin.drawing.draws import Draws
from models.builtin.drawing.places import draw_place
from models.builtin.drawing.vocabulary import Place, Style
from models.builtin.editor.canvas import Canvas, UneditableError
from models.builtin.editor.changes import Resettle
from models.builtin.editor.edited import Edited
from models.builtin.editor.layers import on_ground, styled_picture
from models.builtin.stills.preparing import Pixels

_DROPS = 260
_LENGTH_PX = (9.0, 15.0)
_DARK_GROUND = 120.0  # mean of 255
_ON_LIGHT, _ON_DARK = (84, 116, 168), (196, 210, 236)
_STRENGTH = 0.72


def resettled(canvas: Canvas, change: Resettle, seed: int) -> Edited:
    """The picture with everything where it was, in another place."""
    if canvas.seen.place != change.old or change.old == change.new:
        raise UneditableError("nothing_to_change", f"the place is not a {change.old}")

    def ground_of(old: Pixels) -> Pixels:
        size = (old.shape[1], old.shape[0])
        picture = draw_place(Draws("place", seed), Place(change.new), size)
        return styled_picture(picture, canvas.style, seed)

    return Edited(on_ground(canvas, ground_of), canvas.seen._replace(place=change.new))


def rained_on(canvas: Canvas, seed: int) -> Edited:
    """The picture with rain behind its things."""
    if canvas.seen.place in (None, "kitchen"):
        raise UneditableError("nothing_to_change", "it does not rain indoors")
    if canvas.style is not Style.FLAT:
        raise UneditableError("not_drawable", f"rain is not drawn in a {canvas.style.value}")
    return Edited(on_ground(canvas, lambda old: _rain(old, seed)), canvas.seen)


def _rain(ground: Pixels, seed: int) -> Pixels:
    """Slanting strokes all over the ground."""
    import cv2

    chance = Draws("rain", seed)
    height, width = ground.shape[:2]
    cover = np.zeros((height * 4, width * 4), np.uint8)
    for _ in range(_DROPS):
        x, y = chance.between(-10, width), chance.between(-10, height)
        long = chance.between(*_LENGTH_PX)
        start, end = (x, y), (x - 0.32 * long, y + long)
        ends = [(round(4 * px), round(4 * py)) for px, py in (start, end)]
        cv2.line(cover, ends[0], ends[1], 255, 5, cv2.LINE_AA)
    small = cv2.resize(cover, (width, height), interpolation=cv2.INTER_AREA)
    share = (small.astype(np.float32) / 255 * _STRENGTH)[..., None]
    dark = float(ground.mean()) < _DARK_GROUND
    drop = np.array(_ON_DARK if dark else _ON_LIGHT, np.float32)
    return np.asarray(ground + share * (drop - ground), np.float32)
