"""Surfaces, typefaces, and a pen that writes and draws on them, in print or handwriting.

The typefaces are files inside Python packages, which are located without importing them. All are
free: SIL Open Font License 1.1, except Permanent Marker (Apache 2.0), and DejaVu (Bitstream Vera)
and STIX (OFL), which are part of matplotlib.
"""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from loupe.models.weights import installed_folder
from loupe.schemas.base import Record
from loupe.schemas.checkout import install_command
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.recos import RenderedTruth
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.validation import packaged_toml
from loupe.sources.chance import Chance

Colour = tuple[int, int, int]
Size = tuple[int, int]
Box = tuple[int, int, int, int]


class Ink(Record):
    """An ink and the width of its lines, in pixels."""

    name: str
    colour: Colour
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


LOOKS = packaged_toml(__package__, "looks.toml")
SURFACES = tuple(
    Surface.model_validate({**one, "inks": LOOKS["inks"][one["inks"]]}) for one in LOOKS["surfaces"]
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
    shaded(picture, chance)
    dx, dy = round(0.09 * width), round(0.09 * height)
    return picture, (dx, dy, width - dx, height - dy)


def shaded(picture: Image.Image, chance: Chance) -> None:
    """Add uneven light and fine grain to an image in place."""
    width, height = picture.size
    coarse = np.clip(chance.noise((4, 5)) * 40 + 128, 0, 255).astype(np.uint8)
    light = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    shade = (np.asarray(light, np.float32) - 128) * 0.12 + chance.noise((height, width)) * 1.3
    pixels = np.asarray(picture, np.int16) + np.rint(shade).astype(np.int16)[..., None]
    picture.paste(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))


GENERATOR = "sources.rendered@4"
"""The drawing code and its version, which changes if the same seed draws other images."""


class RenderedImage(NamedTuple):
    """A drawn image as PNG, and its truth."""

    truth: RenderedTruth
    png: bytes


class Draft(NamedTuple):
    """A task that was drawn at random but not yet rendered.

    Attributes:
        question: the question, unique within a draw.
        answer: the right answer.
        render: returns the image and its truth, given a random generator and the seed.
    """

    question: str
    answer: str
    render: Callable[[Chance, int], RenderedImage]


def rendered(picture: Image.Image, truth: RenderedTruth) -> RenderedImage:
    """Return an image with its truth."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3)
    return RenderedImage(truth=truth, png=buffer.getvalue())


Style = Literal["handwritten", "serif", "sans-serif", "monospaced", "chinese"]


class Typeface(Record):
    """A font file inside an installed package; see `looks.toml`."""

    name: str
    style: Style
    package: str
    file: str
    axes: tuple[int, ...] = ()
    scale: float = 1.0


TYPEFACES = tuple(map(Typeface.model_validate, LOOKS["typefaces"]))
BY_NAME = {typeface.name: typeface for typeface in TYPEFACES}


class FontShelf:
    """Fonts by name and size; `find` returns the folder of a package."""

    def __init__(self, find: Callable[[str], Path | None] = installed_folder) -> None:
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
        folder = self._find(face.package.replace("-", "_"))
        if folder is None:
            raise ConfigurationError(
                f"the font {name!r} (package {face.package!r}, extra 'render') is not installed; "
                f"install it with: {install_command('render')}"
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
_LIGHTLY = 90  # of 255
_SIZES = ((640, 480), (720, 480), (720, 540), (800, 600), (768, 576))
_LETTERS = {
    "handwritten": "the writing is a little uneven, as by hand",
    "serif": "the text is printed in letters with serifs",
    "sans-serif": "the text is printed in letters without serifs",
}


class Pen:
    """Writes and draws with one typeface and ink into a mask of `size_px` (width, height).

    All coordinates are pixels of the final image, x to the right, y down. Handwritten letters vary
    in size, slant and position, and lines bend slightly.
    """

    def __init__(
        self,
        size_px: Size,
        shelf: FontShelf,
        typeface: str,
        ink: Ink,
        chance: Chance,
        *,
        is_hand: bool = False,
    ) -> None:
        self._size_px = size_px
        self._mask = Image.new("L", (size_px[0] * _FINE, size_px[1] * _FINE))
        self._draw = ImageDraw.Draw(self._mask)
        self._shelf = shelf
        self._typeface = typeface
        self._stroke_px = ink.stroke
        self._chance = chance
        self._is_hand = is_hand

    def mask(self) -> Image.Image:
        """The drawing: 0 without ink, 255 with full ink."""
        return self._mask.resize(self._size_px, Image.Resampling.BOX)

    def width(self, text: str, size: float) -> float:
        """Return the width of `text` when written."""
        font = self._font(size)
        if not self._is_hand:
            return font.getlength(text) / _FINE
        return sum(self._advance(font, letter) for letter in text) / _FINE

    def write_centred(self, middle: Point, text: str, size: float) -> None:
        """Write `text` centred on `middle`, which is the middle of its digits."""
        font = self._font(size)
        x = _FINE * (middle[0] - self.width(text, size) / 2)
        y = _FINE * (middle[1] + 0.35 * size)
        if not self._is_hand:
            self._draw.text((round(x), round(y)), text, 255, font, "ls")
            return
        slope, start = self._chance.between(-0.02, 0.02), x
        for letter in text:
            self._letter(letter, size, x, y + slope * (x - start))
            x += self._advance(font, letter)

    def write_across(self, box: Box, text: str, most: float) -> None:
        """Write `text` in the middle of `box`, as large as fits and at most `most`."""
        size = min(most, 0.96 * most * (box[2] - box[0]) / self.width(text, most))
        self.write_centred(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), text, size)

    def stroke(self, points: Sequence[Point], *, dashed: bool = False) -> None:
        """Draw a line along `points`."""
        for start, end in pairwise(points):
            for number, (one, other) in enumerate(pairwise(self._wandering(start, end))):
                if not (dashed and number % 2):
                    self._segment(one, other)

    def fill(self, points: Sequence[Point]) -> None:
        """Fill a polygon lightly."""
        self._draw.polygon([(x * _FINE, y * _FINE) for x, y in points], _LIGHTLY)

    def _font(self, size: float) -> ImageFont.FreeTypeFont:
        return self._shelf.font(self._typeface, size * _FINE)

    def _advance(self, font: ImageFont.FreeTypeFont, letter: str) -> float:
        return font.getlength(letter) * (1.03 if letter != " " else 0.9)

    def _letter(self, letter: str, size: float, x: float, y: float) -> None:
        """Draw one letter with a random size, rotation and offset."""
        if letter == " ":
            return
        font = self._font(size * (1 + self._chance.between(-0.04, 0.04)))
        side = math.ceil(size * _FINE * 1.3)  # no letter is wider or taller
        patch = Image.new("L", (2 * side, 2 * side))
        ImageDraw.Draw(patch).text((side, side), letter, 255, font, "ls")
        centre = (side + font.getlength(letter) / 2, side - size * _FINE * 0.35)
        turn = round(self._chance.between(-4, 4), 2)
        patch = patch.rotate(turn, Image.Resampling.BICUBIC, center=centre)
        shift = self._chance.between(-0.03, 0.03) * size * _FINE
        self._mask.paste(255, (round(x) - side, round(y + shift) - side), patch)

    def _segment(self, one: Point, other: Point) -> None:
        line = [round(number * _FINE) for number in (*one, *other)]
        thick = round(self._stroke_px * _FINE)
        self._draw.line(line, 255, thick)
        r = thick / 2
        for x, y in (line[:2], line[2:]):
            self._draw.ellipse((x - r, y - r, x + r - 1, y + r - 1), 255)

    def _wandering(self, start: Point, end: Point) -> list[Point]:
        """Return points from start to end about 8 pixels apart; handwritten lines bend slightly."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        length = math.hypot(dx, dy)
        count = max(1, round(length / 8)) | 1
        bend = self._chance.between(-1, 1) * min(2.5, 0.012 * length) * self._is_hand
        points = []
        for number in range(count + 1):
            share = number / count
            off = bend * math.sin(math.pi * share) / max(1.0, length)
            points.append((start[0] + share * dx - off * dy, start[1] + share * dy + off * dx))
        return points


class Written(NamedTuple):
    """Something to write or draw on a surface, and what is true of it.

    Attributes:
        name: what it is, for the first fact: `the sum 17 + 25`.
        question: the question as it can be read.
        answer: the right answer.
        truth: further truth as JSON.
        facts: facts apart from those about ink, surface and typeface, the most important first.
        draw: draws it with a pen, inside a box.
        by_hand: how it is made by hand.
    """

    name: str
    question: str
    answer: str
    truth: dict[str, Any]
    facts: tuple[str, ...]
    draw: Callable[[Pen, Box], None]
    by_hand: str = "drawn by hand"


def written_draft(task: RetrievalTask, what: Written, shelf: FontShelf) -> Draft:
    """Return the draft of something in print or by hand, on a random surface."""

    def render(chance: Chance, seed: int) -> RenderedImage:
        surface, size = chance.pick(SURFACES), chance.pick(_SIZES)
        ink, is_hand = chance.pick(surface.inks), surface.handwritten
        styles = ("handwritten",) if is_hand else ("serif", "sans-serif")
        face = BY_NAME[chance.pick(shelf.names(*styles))]
        picture, box = paint_surface(surface, size, chance)
        pen = Pen(size, shelf, face.name, ink, chance, is_hand=is_hand)
        what.draw(pen, box)
        picture.paste(ink.colour, (0, 0), pen.mask())
        how = what.by_hand if is_hand else "printed"
        truth = RenderedTruth(
            task=task,
            generator=GENERATOR,
            seed=seed,
            question=what.question,
            answer=what.answer,
            look={
                "surface": surface.name,
                "ink": ink.name,
                "typeface": face.name,
                "writing": "handwritten" if is_hand else "typeset",
            },
            truth=what.truth,
            facts=(
                f"{what.name} is {how} in {ink.name} on {surface.phrase}",
                *what.facts,
                _LETTERS[face.style],
            ),
        )
        return rendered(picture, truth)

    return Draft(what.question, what.answer, render)
