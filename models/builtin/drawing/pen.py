"""A pen that draws in shares of a box, its ink, and seeded draws."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from models.builtin.drawing.vocabulary import OUTLINE, Rgb
from schemas.base import digest_of

# Seeded draws: what chance decides in a drawing.

T = TypeVar("T")


class Draws:
    """A stream of draws named by `parts`: equal names give equal streams, on every machine."""

    def __init__(self, *parts: str | int) -> None:
        self._generator = np.random.default_rng(int(digest_of(*(str(part) for part in parts)), 16))

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`, all equally likely."""
        return options[int(self._generator.integers(len(options)))]

    def happens(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(self._generator.random() < probability)

    def between(self, low: float, high: float) -> float:
        """A number drawn evenly from [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Standard normal noise of the given shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)


# A pen that draws in shares of a box, on a transparent sheet, several times finer than shown.

FINE = 4
"""How many times finer than the picture a sheet is."""

Point = tuple[float, float]


class Pen:
    """Draws on a sheet of `width_px` × `height_px` pixels of the picture.

    All places are shares of the box: (0, 0) is its upper left corner, (1, 1) the lower right one.
    Widths of lines are shares of its height.
    """

    def __init__(self, width_px: float, height_px: float) -> None:
        self._width, self._height = width_px * FINE, height_px * FINE
        self.sheet = Image.new("RGBA", (max(1, round(self._width)), max(1, round(self._height))))
        self._draw = ImageDraw.Draw(self.sheet)

    def polygon(self, points: Sequence[Point], fill: Rgb) -> None:
        """A filled shape with straight edges."""
        self._draw.polygon([self._at(point) for point in points], fill=fill)

    def ellipse(self, left: float, top: float, right: float, bottom: float, fill: Rgb) -> None:
        """A filled upright ellipse."""
        self._draw.ellipse((*self._at((left, top)), *self._at((right, bottom))), fill=fill)

    def disc(self, middle: Point, radius: float, fill: Rgb) -> None:
        """A filled circle; `radius` is a share of the height."""
        x, y = self._at(middle)
        r = radius * self._height
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)

    def ring(self, middle: Point, radius: float, width: float, fill: Rgb) -> None:
        """A circle of which only the rim is drawn."""
        x, y = self._at(middle)
        r = radius * self._height
        thick = max(1, round(width * self._height))
        self._draw.ellipse((x - r, y - r, x + r, y + r), outline=fill, width=thick)

    def box(
        self, left: float, top: float, right: float, bottom: float, fill: Rgb, round_: float = 0
    ) -> None:
        """A filled rectangle; `round_` is the radius of its corners."""
        edges = (*self._at((left, top)), *self._at((right, bottom)))
        self._draw.rounded_rectangle(edges, radius=round_ * self._height, fill=fill)

    def line(self, points: Sequence[Point], width: float, fill: Rgb) -> None:
        """A line with round joints and ends."""
        thick = max(1, round(width * self._height))
        places = [self._at(point) for point in points]
        self._draw.line(places, fill=fill, width=thick, joint="curve")
        for x, y in places:
            r = thick / 2
            self._draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)

    def slice(
        self, left: float, top: float, right: float, bottom: float, angles: Point, fill: Rgb
    ) -> None:
        """A slice of an ellipse between two `angles`, in degrees clockwise from three o'clock."""
        self._draw.pieslice((*self._at((left, top)), *self._at((right, bottom))), *angles, fill)

    def arc(
        self, box: tuple[float, float, float, float], angles: Point, width: float, fill: Rgb
    ) -> None:
        """A part of the rim of an ellipse."""
        thick = max(1, round(width * self._height))
        edges = (*self._at(box[:2]), *self._at(box[2:]))
        self._draw.arc(edges, *angles, fill=fill, width=thick)

    def _at(self, point: Point) -> Point:
        return point[0] * self._width, point[1] * self._height


def darker(colour: Rgb, factor: float = 0.78) -> Rgb:
    """A shade of the colour; a colour that is nearly black gets lighter, not to become ink."""
    if max(colour) < 90:
        return lighter(colour, 0.22)
    red, green, blue = (round(part * factor) for part in colour)
    return red, green, blue


def lighter(colour: Rgb, share: float = 0.35) -> Rgb:
    """A tint of the colour, `share` of the way to white."""
    red, green, blue = (round(part + (255 - part) * share) for part in colour)
    return red, green, blue


# Puts what is drawn onto a picture, with a line of ink around it.


def put_inked(
    canvas: Image.Image, sheet: Image.Image, corner: tuple[float, float], line_px: float
) -> None:
    """Puts a sheet onto the canvas, its upper left at `corner`, with ink around what is on it."""
    small = inked(sheet, line_px)
    left, top = corner
    pad = pad_px(line_px)
    canvas.paste(small, (round(left) - pad, round(top) - pad), small)


def pad_px(line_px: float) -> int:
    """By how many pixels of the picture ink may reach beyond a sheet, on each side."""
    return round((line_px + 2) * FINE) // FINE


def inked(sheet: Image.Image, line_px: float) -> Image.Image:
    """What is on the sheet with its ink (RGBA), at the size of the picture, padded."""
    pad = round((line_px + 2) * FINE)
    padded = Image.new("RGBA", (sheet.width + 2 * pad, sheet.height + 2 * pad))
    padded.paste(sheet, (pad, pad))
    shape = Image.fromarray(_widened(np.asarray(padded.getchannel("A")), line_px * FINE))
    drawn = Image.new("RGBA", padded.size, (*OUTLINE, 0))
    drawn.putalpha(shape)
    drawn = Image.alpha_composite(drawn, padded)
    size = (max(1, drawn.width // FINE), max(1, drawn.height // FINE))
    return _reduced(drawn, size)


def _widened(alpha: NDArray[np.uint8], by_px: float) -> NDArray[np.uint8]:
    """What is covered, of shape (height, width), and everything as near to it as `by_px`."""
    import cv2

    side = 2 * round(by_px) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray(cv2.dilate(alpha, disc), np.uint8)


def _reduced(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The sheet at the picture's size; colours weighted by how much they cover."""
    pixels = np.asarray(picture, np.float32)
    pixels[..., :3] *= pixels[..., 3:] / 255
    small = np.stack(
        [
            np.asarray(
                Image.fromarray(pixels[..., band]).resize(size, Image.Resampling.BOX), np.float32
            )
            for band in range(4)
        ],
        axis=-1,
    )
    small[..., :3] *= 255 / np.maximum(small[..., 3:], 1)
    return Image.fromarray(np.clip(small.round(), 0, 255).astype(np.uint8))
