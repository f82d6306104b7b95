"""How a thing that was seen is drawn: which box, which way round, so that it can be drawn again."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.drawing.figures import POSTURES, Figure, paint_figure
from models.builtin.drawing.ink import inked, pad_px, put_inked
from models.builtin.drawing.pen import Pen
from models.builtin.drawing.signs import paint_sign
from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.things import PAINTERS
from models.builtin.drawing.vocabulary import COLOURS, HAIR, KINDS, SKIN, Action, Style
from models.builtin.stills.cutting import Cut
from models.builtin.stills.preparing import Pixels
from models.builtin.stills.seeing import PERSON, SIGN, Thing

_PROBE_PX = 160.0
_SHIFTS = (0, -1, 1)
_STRETCHES = (0.985, 1.015)
_MOST_DIFFERENCE = 34.0  # of 255, on the mean; another kind of thing differs by more


class Look(NamedTuple):
    """A drawing: what it is of, and the box of the pen in pixels of the picture."""

    kind: str
    colour: str | None
    left: float
    top: float
    width: float
    height: float
    mirrored: bool = False
    figure: Figure | None = None
    word: str | None = None

    def sheet(self) -> Image.Image:
        """The thing alone, on a transparent sheet, finer than the picture."""
        pen = Pen(self.width, self.height)
        if self.figure is not None:
            paint_figure(pen, self.figure)
        elif self.word is not None:
            paint_sign(pen, self.word)
        else:
            PAINTERS[self.kind](pen, COLOURS[self.colour or "red"])
        if self.mirrored:
            return pen.sheet.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return pen.sheet

    def put_onto(self, canvas: Image.Image, line_px: float) -> None:
        """Draws the thing with its line of ink."""
        put_inked(canvas, self.sheet(), (self.left, self.top), line_px)


def aspect_of(look: Look) -> float:
    """The width of a drawing's box over its height."""
    if look.figure is not None:
        return POSTURES[look.figure.action].aspect
    if look.word is not None:
        return (0.5 + 0.58 * len(look.word)) / 1.7
    return KINDS[look.kind].aspect


def fitted(thing: Thing, cut: Cut, pixels: Pixels, style: Style) -> Look | None:
    """How a thing is drawn that was cut out of `pixels`; None where nothing fits well."""
    line_px = LINE_PX[style]
    best, least = None, math.inf
    for guess in _guesses(thing):
        found, difference = _shifted(_placed(guess, cut, line_px), pixels, line_px)
        if difference < least:
            best, least = found, difference
    if best is None:
        return None
    for stretched in [_stretched(best, factor) for factor in _STRETCHES]:
        found, difference = _shifted(stretched, pixels, line_px)
        if difference < least:
            best, least = found, difference
    return best if least < _MOST_DIFFERENCE else None


def _guesses(thing: Thing) -> list[Look]:
    start = Look(thing.kind, thing.colour, 0, 0, 1, 1)
    if thing.kind == SIGN:
        return [start._replace(word=thing.word)] if thing.word else []
    if thing.kind != PERSON:
        return [start, start._replace(mirrored=True)]
    clothes = dict(thing.clothes)
    return [
        start._replace(
            figure=Figure(
                action=Action(thing.action or ""),
                shirt=clothes["shirt"],
                trousers=clothes["trousers"],
                hat=clothes.get("hat"),
                hair=hair,
                skin=skin,
            )
        )
        for hair in HAIR
        for skin in SKIN
    ]


def _placed(look: Look, cut: Cut, line_px: float) -> Look:
    """The look with the box that its drawing needs to fill the cut."""
    left, top, right, bottom = _extent(look._replace(left=0, top=0, width=1, height=1))
    aspect = aspect_of(look)
    high = (cut.height - 2 * line_px) / (bottom - top)
    wide = (cut.width - 2 * line_px) / (right - left)
    height = math.sqrt(high * wide / aspect)
    width = height * aspect
    middle_x = cut.left + cut.width / 2 - (left + right) / 2 * width
    middle_y = cut.top + cut.height / 2 - (top + bottom) / 2 * height
    return look._replace(left=middle_x, top=middle_y, width=width, height=height)


@lru_cache(4096)
def _extent(look: Look) -> tuple[float, float, float, float]:
    """What of its box a drawing covers: left, top, right and bottom, in shares."""
    height = _PROBE_PX
    sheet = look._replace(width=aspect_of(look) * height, height=height).sheet()
    box = sheet.getchannel("A").getbbox() or (0, 0, *sheet.size)
    return (
        box[0] / sheet.width,
        box[1] / sheet.height,
        box[2] / sheet.width,
        box[3] / sheet.height,
    )


def drawn_extent(look: Look) -> tuple[float, float, float, float]:
    """What of its box a drawing covers: left, top, right and bottom, in shares."""
    return _extent(look._replace(left=0, top=0, width=1, height=1))


def _stretched(look: Look, factor: float) -> Look:
    width, height = look.width * factor, look.height * factor
    return look._replace(
        left=look.left + (look.width - width) / 2,
        top=look.top + (look.height - height) / 2,
        width=width,
        height=height,
    )


def _shifted(look: Look, pixels: Pixels, line_px: float) -> tuple[Look, float]:
    """The look a pixel aside where it fits better, and by how much it differs then."""
    rendered, mask, (left, top) = rendered_alone(look, line_px)
    weight = float(mask.sum()) or 1.0
    rows, columns = pixels.shape[:2]
    pad = max(0, -left, -top, left + mask.shape[1] - columns, top + mask.shape[0] - rows) + 1
    if pad > mask.shape[0]:
        return look, math.inf
    framed = np.pad(pixels, ((pad, pad), (pad, pad), (0, 0)), mode="edge")
    best, least = look, math.inf
    for down in _SHIFTS:
        for right in _SHIFTS:
            y, x = top + down + pad, left + right + pad
            there = framed[y : y + mask.shape[0], x : x + mask.shape[1]]
            off = np.abs(there - rendered).mean(axis=2)
            difference = float((off * mask).sum()) / weight
            if difference < least:
                best, least = look._replace(left=look.left + right, top=look.top + down), difference
    return best, least


def rendered_alone(
    look: Look, line_px: float
) -> tuple[Pixels, NDArray[np.float32], tuple[int, int]]:
    """The drawing with its ink: colours, how much it covers (0 … 1), and its corner (left, top)."""
    drawn = np.asarray(inked(look.sheet(), line_px), np.float32)
    pad = pad_px(line_px)
    corner = (round(look.left) - pad, round(look.top) - pad)
    return drawn[..., :3], (drawn[..., 3] / 255).astype(np.float32), corner
