"""A drawn picture that is to be changed: its pixels, and what is known of it."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.drawing.pen import Pen, inked, pad_px, put_inked
from models.builtin.drawing.people_and_signs import POSTURES, Figure, paint_figure, paint_sign
from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.things import PAINTERS
from models.builtin.drawing.vocabulary import COLOURS, HAIR, KINDS, SKIN, Action, Style
from models.builtin.stills.reading import Content, content_of_image
from models.builtin.stills.seeing import (
    PERSON,
    SIGN,
    WIDTH_PX,
    Cut,
    Mask,
    Pixels,
    Seen,
    Thing,
    cut_things,
    prepare,
    see_still,
)
from schemas.proposals import Box

# What an edit gives: the pixels, and what is to be seen in them.

_EDITED_MARGIN_PX = 7.0
"""Ink fades out around a thing, and a mosaic is drawn in whole stones."""


class Edited(NamedTuple):
    """An edited drawing, of shape (height, width, 3), and what must be seen in it."""

    pixels: Pixels
    expected: Seen


def intended_boxes(
    before: Seen, expected: Seen, margin_px: float = _EDITED_MARGIN_PX
) -> tuple[Box, ...]:
    """Where a picture is to change: around each thing that is to go, to come, or to be otherwise.

    That follows from what was asked and seen, not from what was then done to the pixels. There is
    no box where the whole picture is to change.
    """
    if (before.place, before.style) != (expected.place, expected.style):
        return ()
    changed = set(before.things) ^ set(expected.things)
    return tuple(sorted(_box(thing, margin_px) for thing in changed))


def _box(thing: Thing, margin_px: float) -> Box:
    return (
        max(0.0, thing.left - margin_px),
        max(0.0, thing.top - margin_px),
        thing.right + margin_px,
        thing.bottom + margin_px,
    )


def departures(expected: Seen, found: Seen) -> list[str]:
    """What is seen otherwise than expected, by the names of its parts; sizes of things aside."""
    wanted, there = (content_of_image(seen) for seen in (expected, found))
    named = {
        "things": (_groups(wanted), _groups(there)),
        "clothes": (dict(wanted.clothes), dict(there.clothes)),
        "action": (wanted.action, there.action),
        "place": (wanted.place, there.place),
        "style": (wanted.style, there.style),
        "relations": (set(wanted.relations), set(there.relations)),
        "word": (wanted.word, there.word),
    }
    return [name for name, (one, two) in named.items() if one != two]


def _groups(content: Content) -> list[tuple[str, str, int]]:
    return sorted((group.kind, group.colour or "", group.number or 0) for group in content.groups)


# How a thing that was seen is drawn: which box, which way round, so that it can be drawn again.

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


# A drawn picture that is to be changed: its pixels, and what is known of it.

TILE_PX = 4
_CANVAS_MARGIN_PX = 3  # ink fades out over so many pixels


class UneditableError(Exception):
    """A change that cannot be made to this picture: `reason` is a word, the text a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Drawn:
    """A thing in the picture: what was seen, what was cut out, and how it is drawn."""

    thing: Thing
    cut: Cut
    look: Look


class Canvas:
    """A picture of a width of 320 pixels, looked at once.

    Attributes:
        pixels: of shape (height, 320, 3), 0 … 255.
        seen: what is in it.
        plain: the same as if it were drawn flat.
        style: how it is drawn.
    """

    def __init__(self, image: Image.Image, seen: Seen, style: Style) -> None:
        prepared = prepare(image)
        self.seen = seen
        self.style = style
        self.pixels: Pixels = _sized(image, prepared.pixels.shape[0])
        self.plain = prepared.pixels
        self._cuts = list(cut_things(prepared))

    @property
    def line_px(self) -> float:
        """How wide the ink around things is."""
        return LINE_PX[self.style]

    @cached_property
    def content(self) -> Content:
        """What is seen, as a value."""
        return content_of_image(self.seen)

    @cached_property
    def drawn(self) -> tuple[Drawn, ...]:
        """Every thing with how it is drawn.

        Raises:
            UneditableError: a thing is drawn in a way that is not known.
        """
        return tuple(self._drawn(thing) for thing in self.seen.things)

    def _drawn(self, thing: Thing) -> Drawn:
        cut = next(one for one in self._cuts if (one.left, one.top) == (thing.left, thing.top))
        look = fitted(thing, cut, self.plain, self.style)
        if look is None:
            raise UneditableError(
                "not_recognised", f"it is not clear how the {thing.kind} is drawn"
            )
        return Drawn(thing, cut, look)

    def find(self, kind: str, colour: str | None = None) -> list[Drawn]:
        """All things of a kind, and of a colour.

        Raises:
            UneditableError: there is none.
        """
        found = [
            one
            for one in self.drawn
            if one.thing.kind == kind and colour in (None, one.thing.colour)
        ]
        if not found:
            named = f"{colour} {kind}" if colour else kind
            raise UneditableError("nothing_to_change", f"no {named} is seen in the picture")
        return found

    def region(self, drawn: Drawn) -> Mask:
        """Everything that a thing covers, its ink and what shows through it, fading edges too."""
        mask = np.zeros(self.pixels.shape[:2], np.uint8)
        cut = drawn.cut
        mask[cut.top : cut.top + cut.height, cut.left : cut.left + cut.width] = cut.shape
        return self.widened(mask > 0)

    def widened(self, mask: Mask) -> Mask:
        """`mask` and what is next to it, in whole stones where it is a mosaic."""
        side = 2 * _CANVAS_MARGIN_PX + 1
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
        wide = cv2.dilate(mask.astype(np.uint8), disc)
        return snapped(wide > 0) if self.style is Style.MOSAIC else wide > 0

    @cached_property
    def taken(self) -> Mask:
        """All that is not background: whatever has a line of ink around it."""
        mask = np.zeros(self.pixels.shape[:2], np.uint8)
        for cut in self._cuts:
            window = mask[cut.top : cut.top + cut.height, cut.left : cut.left + cut.width]
            window[cut.shape] = 1
        return self.widened(mask > 0)

    def cover_of(self, look: Look) -> Pixels:
        """How much of each pixel a drawing covers, ink included: (height, width), 0 … 1."""
        return cover_on(self.pixels.shape[:2], look, self.line_px)


def canvas_of(image: Image.Image) -> Canvas | None:
    """The canvas of an RGB image; None where it is no drawing of a kind that is known."""
    seen = see_still(image)
    return Canvas(image, seen, Style(seen.style)) if seen.style else None


def cover_on(shape: tuple[int, ...], look: Look, line_px: float) -> Pixels:
    """How much of each pixel of a picture of `shape` (height, width) a drawing covers."""
    _, cover, (left, top) = rendered_alone(look, line_px)
    whole = np.zeros(shape, np.float32)
    height, width = cover.shape
    y0, x0 = max(0, top), max(0, left)
    y1, x1 = min(shape[0], top + height), min(shape[1], left + width)
    whole[y0:y1, x0:x1] = cover[y0 - top : y1 - top, x0 - left : x1 - left]
    return whole


def snapped(mask: Mask) -> Mask:
    """Whole stones of a mosaic, wherever `mask` touches one."""
    height, width = mask.shape
    rows, columns = -(-height // TILE_PX), -(-width // TILE_PX)
    padded = np.zeros((rows * TILE_PX, columns * TILE_PX), bool)
    padded[:height, :width] = mask
    touched = padded.reshape(rows, TILE_PX, columns, TILE_PX).any(axis=(1, 3))
    return np.repeat(np.repeat(touched, TILE_PX, 0), TILE_PX, 1)[:height, :width]


def _sized(image: Image.Image, height: int) -> Pixels:
    if image.size != (WIDTH_PX, height):
        image = image.resize((WIDTH_PX, height), Image.Resampling.BICUBIC)
    return np.asarray(image, np.float32)
