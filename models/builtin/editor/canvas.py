"""A drawn picture that is to be changed: its pixels, and what is known of it."""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from PIL import Image

from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.vocabulary import Style
from models.builtin.editor.looks import Look, fitted, rendered_alone
from models.builtin.stills.cutting import Cut, cut_things
from models.builtin.stills.preparing import WIDTH_PX, Mask, Pixels, prepare
from models.builtin.stills.saying import Content, content_of_image
from models.builtin.stills.seeing import Seen, Thing, see_still

TILE_PX = 4
_MARGIN_PX = 3  # ink fades out over so many pixels


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
        side = 2 * _MARGIN_PX + 1
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
