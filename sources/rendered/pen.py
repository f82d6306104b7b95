"""Typefaces, and a pen that writes and draws with them, in print or handwriting.

The typefaces are files inside Python packages, which are located without importing them. All are
free: SIL Open Font License 1.1, except Permanent Marker (Apache 2.0), and DejaVu (Bitstream Vera)
and STIX (OFL), which are part of matplotlib.
"""

import importlib.util
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

from schemas.base import Record
from schemas.errors import ConfigurationError
from sources.demonstration.people import Chance
from sources.rendered.surfaces import looks

Style = Literal["handwritten", "serif", "sans-serif", "monospaced", "chinese"]
FindPackage = Callable[[str], Path | None]


class Typeface(Record):
    """A font file inside an installed package; see `looks.toml`."""

    name: str
    style: Style
    package: str
    file: str
    axes: tuple[int, ...] = ()
    scale: float = 1.0

    @property
    def module(self) -> str:
        """The package as an importable folder."""
        return self.package.replace("-", "_")


TYPEFACES = tuple(map(Typeface.model_validate, looks()["typefaces"]))
BY_NAME = {typeface.name: typeface for typeface in TYPEFACES}


def installed_folder(module: str) -> Path | None:
    """Return the folder of a top-level package without importing it, or None if not installed."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


class FontShelf:
    """Fonts by name and size; `find` returns the folder of a package."""

    def __init__(self, find: FindPackage = installed_folder) -> None:
        self._find = find
        self._load = lru_cache(maxsize=256)(self._loaded)

    def font(self, name: str, size_px: float) -> ImageFont.FreeTypeFont:
        """Return the typeface `name` with letters of about `size_px` pixels.

        Raises:
            ConfigurationError: its package is not installed, or its file cannot be read.
        """
        return self._load(name, round(size_px * BY_NAME[name].scale))

    def require(self, names: Iterable[str]) -> None:
        """Raise unless all the named typefaces are available.

        Raises:
            ConfigurationError: one is not available; the message names it and its package.
        """
        for name in names:
            self.font(name, 20)

    def names(self, *styles: Style) -> tuple[str, ...]:
        """Return the names of all typefaces of these styles, installed or not."""
        return tuple(face.name for face in TYPEFACES if face.style in styles)

    def undrawable(self, text: str, *styles: Style) -> str | None:
        """Return the first character of `text` without a glyph in a typeface of these styles.

        Raises:
            ConfigurationError: a typeface is not available.
        """
        for name in self.names(*styles):
            font = self.font(name, _GLYPH_PX)
            missing = bytes(font.getmask(_NO_CHARACTER))
            for letter in text:
                if not letter.isspace() and bytes(font.getmask(letter)) == missing:
                    return letter
        return None

    def _loaded(self, name: str, pixels: int) -> ImageFont.FreeTypeFont:
        face = BY_NAME[name]
        folder = self._find(face.module)
        if folder is None:
            raise ConfigurationError(
                f"the font {name!r} is not installed, wanted the package {face.package!r}; "
                f"install it with: uv pip install {face.package}"
            )
        try:
            # Basic layout, because the other one depends on a library of the machine.
            font = ImageFont.truetype(folder / face.file, pixels, layout_engine=_LAYOUT)
        except OSError as fault:
            raise ConfigurationError(
                f"the font {name!r} of the package {face.package!r} cannot be read: {fault}"
            ) from fault
        if face.axes:
            font.set_variation_by_axes(list(face.axes))
        return font


_LAYOUT = ImageFont.Layout.BASIC
_GLYPH_PX = 24
_NO_CHARACTER = "\U0010ffff"  # fonts draw this glyph for all missing characters


# The pen.

Point = tuple[float, float]

_FINE = 2  # the mask is drawn larger and scaled down for smooth edges


class Pen:
    """Writes with one typeface into a mask of `size_px` (width, height).

    All coordinates are pixels of the final image, x to the right, y down; `unsteady` is 0 for print
    and about 1 for handwriting. Handwritten letters vary in size, slant and position.
    """

    def __init__(
        self,
        size_px: tuple[int, int],
        shelf: FontShelf,
        typeface: str,
        chance: Chance,
        unsteady: float = 0.0,
    ) -> None:
        self._size_px = size_px
        self._mask = Image.new("L", (size_px[0] * _FINE, size_px[1] * _FINE))
        self._draw = ImageDraw.Draw(self._mask)
        self._shelf = shelf
        self._typeface = typeface
        self._chance = chance
        self._unsteady = unsteady

    @property
    def is_hand(self) -> bool:
        """Whether the pen is for handwriting."""
        return self._unsteady > 0

    def mask(self) -> Image.Image:
        """The drawing: 0 without ink, 255 with full ink."""
        return self._mask.resize(self._size_px, Image.Resampling.BOX)

    def width(self, text: str, size: float) -> float:
        """Return the width of `text` when written."""
        font = self._font(size)
        if not self.is_hand:
            return font.getlength(text) / _FINE
        return sum(self._advance(font, letter) for letter in text) / _FINE

    def write(self, at: Point, text: str, size: float) -> float:
        """Write `text` from `at`, the left end of its baseline; return its width."""
        font = self._font(size)
        x, y = at[0] * _FINE, at[1] * _FINE
        if not self.is_hand:
            self._draw.text((round(x), round(y)), text, 255, font, "ls")
            return self.width(text, size)
        slope = self._chance.between(-0.02, 0.02) * self._unsteady
        for letter in text:
            advance = self._advance(font, letter)
            self._letter(letter, size, x, y + slope * (x - at[0] * _FINE))
            x += advance
        return x / _FINE - at[0]

    def write_centred(self, middle: Point, text: str, size: float) -> None:
        """Write `text` centred on `middle`, which is the middle of its digits."""
        width = self.width(text, size)
        self.write((middle[0] - width / 2, middle[1] + 0.35 * size), text, size)

    def stroke(self, points: Sequence[Point], width: float, *, dashed: bool = False) -> None:
        """Draw a line along `points`, `width` pixels wide."""
        for start, end in pairwise(points):
            line = self._wandering(start, end)
            pieces = list(pairwise(line))
            for number, (one, other) in enumerate(pieces):
                if not (dashed and number % 2):
                    self._segment(one, other, width)

    def arc(
        self, centre: Point, radius: float, width: float, turns: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        """Draw an arc of a circle; `turns` count from the right, clockwise on the image."""
        count = max(12, round(radius * (turns[1] - turns[0])))
        wander = self._chance.between(-0.012, 0.012) * self._unsteady
        points = []
        for number in range(count + 1):
            angle = 2 * math.pi * (turns[0] + (turns[1] - turns[0]) * number / count)
            reach = radius * (1 + wander * math.sin(2 * angle))
            x, y = centre[0] + reach * math.cos(angle), centre[1] + reach * math.sin(angle)
            points.append((x, y))
        for one, other in pairwise(points):
            self._segment(one, other, width)

    def _font(self, size: float) -> ImageFont.FreeTypeFont:
        return self._shelf.font(self._typeface, size * _FINE)

    def _advance(self, font: ImageFont.FreeTypeFont, letter: str) -> float:
        return font.getlength(letter) * (1.03 if letter != " " else 0.9)

    def _letter(self, letter: str, size: float, x: float, y: float) -> None:
        """Draw one letter with a random size, rotation and offset."""
        if letter == " ":
            return
        chance, hand = self._chance, self._unsteady
        font = self._font(size * (1 + chance.between(-0.04, 0.04) * hand))
        side = math.ceil(size * _FINE * 1.3)  # no letter is wider or taller
        patch = Image.new("L", (2 * side, 2 * side))
        ImageDraw.Draw(patch).text((side, side), letter, 255, font, "ls")
        centre = (side + font.getlength(letter) / 2, side - size * _FINE * 0.35)
        turn = round(chance.between(-4, 4) * hand, 2)
        patch = patch.rotate(turn, Image.Resampling.BICUBIC, center=centre)
        shift = chance.between(-0.03, 0.03) * hand * size * _FINE
        self._mask.paste(255, (round(x) - side, round(y + shift) - side), patch)

    def _segment(self, one: Point, other: Point, width: float) -> None:
        line = [round(number * _FINE) for number in (*one, *other)]
        thick = max(1, round(width * _FINE))
        self._draw.line(line, 255, thick)
        if thick > 2:
            r = thick / 2
            for x, y in (line[:2], line[2:]):
                self._draw.ellipse((x - r, y - r, x + r - 1, y + r - 1), 255)

    def _wandering(self, start: Point, end: Point) -> list[Point]:
        """Return points from start to end about 8 pixels apart; handwritten lines bend slightly."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        length = math.hypot(dx, dy)
        count = max(1, round(length / 8)) | 1
        bend = self._chance.between(-1, 1) * min(2.5, 0.012 * length) * self._unsteady
        ripple = self._chance.between(0.3, 0.8) * self._unsteady
        phase = self._chance.between(0, 6)
        points = []
        for number in range(count + 1):
            share = number / count
            off = bend * math.sin(math.pi * share)
            off += ripple * math.sin(phase + share * length / 25) * (0 < number < count)
            x = start[0] + share * dx - off * dy / max(1.0, length)
            y = start[1] + share * dy + off * dx / max(1.0, length)
            points.append((x, y))
        return points
