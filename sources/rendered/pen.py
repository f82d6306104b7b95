"""Surfaces, typefaces, and a pen that writes and draws on them, in print or handwriting.

The typefaces are files inside Python packages, which are located without importing them. All are
free: SIL Open Font License 1.1, except Permanent Marker (Apache 2.0), and DejaVu (Bitstream Vera)
and STIX (OFL), which are part of matplotlib.
"""

import importlib.util
import io
import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from schemas.base import Record
from schemas.errors import ConfigurationError
from schemas.records import Rejection
from schemas.recos import RenderedTruth
from schemas.taxonomy import RetrievalTask
from sources.demonstration.people import Chance

Colour = tuple[int, int, int]
Size = tuple[int, int]
Box = tuple[int, int, int, int]


@cache
def looks() -> dict[str, Any]:
    """Return the tables of `looks.toml`."""
    file = resources.files("sources.rendered").joinpath("looks.toml")
    return tomllib.loads(file.read_text("utf-8"))


class Ink(Record):
    """An ink. `grain` is how much of the surface shows through, from 0 to 1."""

    name: str
    colour: Colour
    grain: float = 0.0
    stroke: float = 2.0


class Surface(Record):
    """A surface to write on.

    Attributes:
        phrase: its name in captions.
        inks: suitable inks.
        grounds: its colours.
        lines: distance of ruled lines in pixels, 0 for none; `squared` rules both directions.
        frame: colour of a frame around it.
        handwritten: whether the writing on it is handwritten or printed.
    """

    name: str
    phrase: str
    inks: tuple[Ink, ...]
    grounds: tuple[Colour, ...]
    lines: int = 0
    squared: bool = False
    frame: Colour | None = None
    handwritten: bool = True


_INKS = {name: tuple(map(Ink.model_validate, inks)) for name, inks in looks()["inks"].items()}
SURFACES = tuple(
    Surface.model_validate({**one, "inks": _INKS[one["inks"]]}) for one in looks()["surfaces"]
)


def paint_surface(surface: Surface, size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    """Draw the empty surface; return it and its writable box (left, top, right, bottom)."""
    (width, height), line = size, (188, 204, 222)
    picture = Image.new("RGB", size, chance.pick(surface.grounds))
    draw = ImageDraw.Draw(picture)
    if surface.lines:
        for y in range(surface.lines, height, surface.lines):
            draw.line((0, y, width, y), line, 1)
    if surface.squared:
        for x in range(surface.lines, width, surface.lines):
            draw.line((x, 0, x, height), line, 1)
    if surface.frame:
        draw.rectangle((0, 0, width - 1, height - 1), None, surface.frame, 13)
    shaded(picture, chance, 7, 1.4)
    dx, dy = round(0.09 * width), round(0.09 * height)
    return picture, (dx, dy, width - dx, height - dy)


def lay_ink(picture: Image.Image, mask: Image.Image, ink: Ink, chance: Chance) -> None:
    """Colour `picture` with `ink` at `mask`; a grainy ink leaves gaps."""
    if ink.grain:
        fine = np.clip(chance.noise((mask.height, mask.width)) * 0.5 + 0.35, 0, 1)
        gaps = np.rint(255 * (1 - ink.grain * fine)).astype(np.uint8)
        cover = np.asarray(mask, np.uint16) * gaps // 255
        mask = Image.fromarray(cover.astype(np.uint8))
    picture.paste(ink.colour, (0, 0), mask)


def shaded(picture: Image.Image, chance: Chance, strength: float = 10, grain: float = 1.6) -> None:
    """Add uneven light and fine grain to an image in place."""
    width, height = picture.size
    coarse = np.clip(chance.noise((4, 5)) * 40 + 128, 0, 255).astype(np.uint8)
    light = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    shade = (np.asarray(light, np.float32) - 128) * (strength / 60)
    shade += chance.noise((height, width)) * grain
    pixels = np.asarray(picture, np.int16) + np.rint(shade).astype(np.int16)[..., None]
    picture.paste(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """Return the colour at `share` of the way from one to the other."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


GENERATOR = "sources.rendered@2"
"""The drawing code and its version, which changes if the same seed draws other images."""


class RenderedImage(Record):
    """A drawn image as PNG, and its truth."""

    truth: RenderedTruth
    png: bytes = Field(repr=False)


class Draft(NamedTuple):
    """A task that was drawn at random but not yet rendered.

    Attributes:
        question: the question, unique within a draw.
        answer: the right answer; None if a program must be run to know it.
        render: returns the image and its truth, given a random generator and the seed; or why the
            task is unusable.
    """

    question: str
    answer: str | None
    render: Callable[[Chance, int], RenderedImage | Rejection]


def rendered(
    task: RetrievalTask,
    seed: int,
    picture: Image.Image,
    *,
    question: str,
    answer: str,
    look: dict[str, str],
    truth: dict[str, Any],
    facts: tuple[str, ...],
) -> RenderedImage:
    """Return an image with its truth; `facts` are the most important first."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3)
    known = RenderedTruth(
        task=task,
        generator=GENERATOR,
        seed=seed,
        question=question,
        answer=answer,
        look=look,
        truth=truth,
        facts=facts,
    )
    return RenderedImage(truth=known, png=buffer.getvalue())


def with_article(noun: str) -> str:
    """Return `noun` with its indefinite article: `an L-shaped figure`."""
    return ("an " if noun[0] in "aeiouAEIOL" else "a ") + noun


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
