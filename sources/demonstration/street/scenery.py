"""The scenery of a street, and sprites of the people in it."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from schemas.base import Record
from sources.demonstration.drawing import STATURE_METRES
from sources.demonstration.figure import paint_figure
from sources.demonstration.layer import Layer
from sources.demonstration.people import Chance, Person, Rgb
from sources.demonstration.poses import Frame, Pose
from sources.demonstration.street.optics import NEAREST_METRES, Camera, Shift

# Figures painted once for each moment of a step, and kept at the sizes in which they appear.

_REACH_METRES, _UP_METRES, _DOWN_METRES = 0.85, 1.95, 0.20
_SUPERSAMPLING = 2
_OPAQUE = 128


@dataclass(frozen=True)
class Sprite:
    """A cut-out picture; `left` and `top` are where its corner lies from the point it stands on.

    `mask` of shape (height, width) marks the pixels that hide what is behind them.
    """

    picture: Image.Image
    mask: NDArray[np.bool_]
    left: int
    top: int

    @property
    def area_px(self) -> int:
        """How many pixels it hides."""
        return int(np.count_nonzero(self.mask))

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The box of `mask` (left, top, right, bottom), from the point it stands on."""
        columns, rows = np.flatnonzero(self.mask.any(0)), np.flatnonzero(self.mask.any(1))
        if not columns.size:
            return self.left, self.top, self.left, self.top
        return (
            self.left + int(columns[0]),
            self.top + int(rows[0]),
            self.left + int(columns[-1]) + 1,
            self.top + int(rows[-1]) + 1,
        )


def cut_out(picture: Image.Image, foot: tuple[float, float]) -> Sprite:
    """A sprite from an RGBA picture in which it stands on the point `foot`, without empty rims."""
    extent = picture.getchannel("A").getbbox() or (0, 0, 1, 1)
    cut = picture.crop(extent)
    mask = np.asarray(cut.getchannel("A")) >= _OPAQUE
    return Sprite(cut, mask, round(extent[0] - foot[0]), round(extent[1] - foot[1]))


class Figures:
    """The figures of one person, painted at `stature_px` and made smaller from there."""

    def __init__(self, person: Person, stature_px: float) -> None:
        self.person, self.stature_px = person, stature_px
        self._painted: dict[Pose, tuple[Image.Image, tuple[float, float]]] = {}
        self._sized: dict[tuple[Pose, int], Sprite] = {}

    def at(self, pose: Pose, stature_px: int) -> Sprite:
        """The figure in a pose, so high that somebody who stands upright has `stature_px`."""
        key = (pose, stature_px)
        if key not in self._sized:
            self._sized[key] = self._at_size(pose, stature_px)
        return self._sized[key]

    def _at_size(self, pose: Pose, stature_px: int) -> Sprite:
        if pose not in self._painted:
            self._painted[pose] = self._paint(pose)
        picture, foot = self._painted[pose]
        ratio = stature_px / self.stature_px
        size = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
        if size != picture.size:
            picture = picture.resize(size, Image.Resampling.HAMMING)
        return cut_out(picture, (foot[0] * ratio, foot[1] * ratio))

    def _paint(self, pose: Pose) -> tuple[Image.Image, tuple[float, float]]:
        """The figure in full size, and the point that it stands on."""
        scale = self.stature_px / STATURE_METRES
        wide = 2 * round(_REACH_METRES * scale)
        up, down = round(_UP_METRES * scale), round(_DOWN_METRES * scale)
        fine = _SUPERSAMPLING
        layer = Layer(
            wide * fine,
            (up + down) * fine,
            scale * fine,
            (wide * fine / 2, up * fine),
        )
        paint_figure(Frame(self.person, pose, layer))
        return layer.picture.reduce(fine), (wide / 2, up)


class Shadows:
    """Soft shadows around the feet, by size."""

    def __init__(self, light: float) -> None:
        self.light = light
        self._made: dict[int, Sprite] = {}

    def at(self, stature_px: int) -> Sprite:
        """The shadow of somebody of that height; it hides nothing."""
        if stature_px not in self._made:
            self._made[stature_px] = self._make(stature_px / STATURE_METRES)
        return self._made[stature_px]

    def _make(self, scale: float) -> Sprite:
        wide, high = max(2, round(0.62 * scale)), max(1, round(0.15 * scale))
        across = (np.arange(2 * wide) + 0.5 - wide)[None, :] / wide * 1.8
        down = (np.arange(2 * high) + 0.5 - high)[:, None] / high * 1.8
        dark = np.clip(0.5 * np.exp(-(across**2) - down**2) - 0.02, 0, 1)
        pixels = np.zeros((2 * high, 2 * wide, 4), np.uint8)
        pixels[..., 3] = np.round(dark * 255)
        mask = np.zeros((2 * high, 2 * wide), np.bool_)
        aside = round(-0.12 * scale * self.light)
        return Sprite(Image.fromarray(pixels), mask, aside - wide, -high - round(0.02 * scale))


# What stands still in the street: houses, pavement, and obstacles that people pass behind.

_WALLS: tuple[Rgb, ...] = (
    (186, 176, 160),
    (196, 184, 158),
    (204, 202, 196),
    (176, 170, 166),
    (188, 168, 150),
)
_AWNINGS: tuple[Rgb, ...] = ((132, 78, 70), (84, 108, 100), (96, 104, 126), (140, 124, 96))
_PAVEMENTS: tuple[Rgb, ...] = ((176, 172, 166), (166, 164, 162), (184, 178, 166))
_STOREY_METRES = 3.6


class ObstacleKind(StrEnum):
    """What people can pass behind."""

    LAMP_POST = "lamp post"
    KIOSK = "kiosk"
    CAR = "parked car"


class Obstacle(Record):
    """An object in the street, `z` metres away from the camera."""

    kind: ObstacleKind
    x: float
    z: float


def draw_street(camera: Camera, margins: Shift, chance: Chance) -> Image.Image:
    """Houses behind a pavement, as large as the frame with its margins on all sides."""
    painter = _StreetPainter(camera, margins, chance)
    painter.houses()
    painter.pavement()
    softness = 0.004 * camera.stature_px + 0.3
    return painter.picture.filter(ImageFilter.GaussianBlur(softness))


@dataclass(frozen=True)
class _Band:
    """A front between two columns, in pixels."""

    left: float
    right: float
    wall: Rgb


class _StreetPainter:
    """Paints in pixels of the picture with its margins; the houses stand at one distance."""

    def __init__(self, camera: Camera, margins: Shift, chance: Chance) -> None:
        self.camera, self.margins, self.chance = camera, margins, chance
        self.width = camera.width_px + 2 * margins[0]
        self.height = camera.height_px + 2 * margins[1]
        self.picture = Image.new("RGB", (self.width, self.height), (198, 208, 216))
        self.draw = ImageDraw.Draw(self.picture)
        self.unit = camera.scale_at(camera.wall_metres)
        self.foot = camera.place(0, camera.wall_metres)[1] + margins[1]

    def houses(self) -> None:
        """Fronts beside each other, each with a shop and rows of windows above."""
        left = -self.chance.between(0, 5) * self.unit
        while left < self.width:
            right = left + self.chance.between(6, 10) * self.unit
            self._house(_Band(left, right, self.chance.pick(_WALLS)))
            left = right
        self._box(0, self.foot - 0.18 * self.unit, self.width, self.foot, (120, 116, 112))

    def _house(self, band: _Band) -> None:
        unit = self.unit
        self._box(band.left, 0, band.right, self.foot, band.wall)
        self._box(band.right - 0.12 * unit, 0, band.right, self.foot, _shaded(band.wall, 0.8))
        self._shop(band)
        bottom = self.foot - _STOREY_METRES * unit
        while bottom > 0:
            self._box(band.left, bottom, band.right, bottom + 0.12 * unit, _shaded(band.wall, 0.88))
            self._windows(band, bottom - 2.6 * unit, bottom - 0.9 * unit)
            bottom -= _STOREY_METRES * unit

    def _shop(self, band: _Band) -> None:
        """Wide panes under an awning: nothing upright that could be taken for a person."""
        unit, foot = self.unit, self.foot
        left, right, top = band.left + 0.5 * unit, band.right - 0.5 * unit, foot - 2.7 * unit
        self._box(left, top, right, foot - 0.5 * unit, (134, 142, 148))
        self._goods(left, right, foot - 0.5 * unit)
        self._box(left, foot - 0.5 * unit, right, foot, _shaded(band.wall, 0.78))
        middle = (left + right) / 2
        self._box(middle - 0.05 * unit, top, middle + 0.05 * unit, foot, (150, 146, 140))
        self._awning(left - 0.2 * unit, right + 0.2 * unit, top)

    def _goods(self, left: float, right: float, bottom: float) -> None:
        """Low things behind the pane."""
        x = left + 0.2 * self.unit
        while x < right - 0.8 * self.unit:
            end = x + self.chance.between(0.3, 0.8) * self.unit
            high = self.chance.between(0.15, 0.45) * self.unit
            colour = self.chance.pick(((158, 138, 116), (120, 126, 128), (166, 160, 148)))
            self._box(x, bottom - high, end, bottom, colour)
            x = end + self.chance.between(0.05, 0.5) * self.unit

    def _awning(self, left: float, right: float, top: float) -> None:
        """Striped cloth above a shop."""
        unit, cloth = self.unit, self.chance.pick(_AWNINGS)
        self._box(left, top - 0.2 * unit, right, top + 0.42 * unit, cloth)
        x = left
        while x < right:
            end = min(right, x + 0.3 * unit)
            self._box(x, top - 0.2 * unit, end, top + 0.42 * unit, (206, 200, 188))
            x += 0.6 * unit
        self._box(left, top + 0.36 * unit, right, top + 0.42 * unit, _shaded(cloth, 0.8))

    def _windows(self, band: _Band, top: float, bottom: float) -> None:
        unit = self.unit
        x = band.left + 0.8 * unit
        while x + 1.9 * unit < band.right:
            frame = _shaded(band.wall, 1.12)
            self._box(x - 3, top - 3, x + 1.6 * unit + 3, bottom + 3, frame)
            glass = self.chance.pick(((126, 138, 150), (140, 150, 158), (114, 124, 136)))
            self._box(x, top, x + 1.6 * unit, bottom, glass)
            x += 2.7 * unit

    def pavement(self) -> None:
        """Slabs whose joints run together towards the horizon, and a kerb before the houses."""
        colour, camera = self.chance.pick(_PAVEMENTS), self.camera
        self._gradient(self.foot, self.height, _shaded(colour, 0.9), _shaded(colour, 1.03))
        joint = _shaded(colour, 0.88)
        far, near = camera.wall_metres, 0.7 * NEAREST_METRES
        reach = int(camera.half_width_metres(far) * self.width / camera.width_px) + 2
        for metres in np.arange(-reach, reach + 0.1, 1.2):
            self.draw.line((*self._ground(metres, far), *self._ground(metres, near)), fill=joint)
        for z in np.arange(far, near, -1.2):
            row = self._ground(0, z)[1]
            self.draw.line((0, row, self.width, row), fill=joint)

    def _ground(self, x: float, z: float) -> tuple[float, float]:
        column, row = self.camera.place(float(x), float(z))
        return column + self.margins[0], row + self.margins[1]

    def _box(self, left: float, top: float, right: float, bottom: float, colour: Rgb) -> None:
        self.draw.rectangle((left, top, max(left, right), max(top, bottom)), fill=colour)

    def _gradient(self, top: float, bottom: float, first: Rgb, last: Rgb) -> None:
        start, end = round(top), round(bottom)
        share = np.linspace(0, 1, end - start)[:, None]
        rows = np.array(first) * (1 - share) + np.array(last) * share
        band = np.repeat(rows[:, None, :], self.width, axis=1).astype(np.uint8)
        self.picture.paste(Image.fromarray(band), (0, start))


def draw_obstacle(kind: ObstacleKind, scale: float) -> Sprite:
    """The obstacle at `scale` pixels per metre."""
    wide, high = {
        ObstacleKind.LAMP_POST: (1.0, 4.6),
        ObstacleKind.KIOSK: (1.8, 2.7),
        ObstacleKind.CAR: (4.6, 1.7),
    }[kind]
    size = (max(2, round(wide * scale)), max(2, round(high * scale)))
    picture = Image.new("RGBA", (size[0] * 2, size[1] * 2))
    brush = _Brush(ImageDraw.Draw(picture), 2 * scale, size[0], size[1] * 2)
    {
        ObstacleKind.LAMP_POST: _lamp_post,
        ObstacleKind.KIOSK: _kiosk,
        ObstacleKind.CAR: _car,
    }[kind](brush)
    return cut_out(picture.reduce(2), (size[0] / 2, size[1]))


@dataclass(frozen=True)
class _Brush:
    """Draws in metres: x from the obstacle's middle, y up from the ground."""

    draw: ImageDraw.ImageDraw
    scale: float
    middle: float
    bottom: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.middle + x * self.scale, self.bottom - y * self.scale

    def box(self, left: float, top: float, right: float, bottom: float, colour: Rgb) -> None:
        self.draw.rectangle((*self.at(left, top), *self.at(right, bottom)), fill=colour)

    def shape(self, points: list[tuple[float, float]], colour: Rgb) -> None:
        self.draw.polygon([self.at(x, y) for x, y in points], fill=colour)

    def disc(self, x: float, y: float, radius: float, colour: Rgb) -> None:
        corners = (*self.at(x - radius, y + radius), *self.at(x + radius, y - radius))
        self.draw.ellipse(corners, fill=colour)


def _lamp_post(brush: _Brush) -> None:
    dark, lit = (62, 70, 70), (92, 102, 102)
    brush.box(-0.11, 0.5, 0.11, 0.0, dark)
    brush.box(-0.065, 4.1, 0.065, 0.4, dark)
    brush.box(-0.03, 4.1, 0.0, 0.5, lit)
    brush.shape([(-0.16, 4.1), (0.16, 4.1), (0.24, 4.45), (-0.24, 4.45)], (232, 228, 206))
    brush.shape([(-0.28, 4.45), (0.28, 4.45), (0.0, 4.6)], dark)


def _kiosk(brush: _Brush) -> None:
    green, dark = (66, 98, 84), (48, 74, 64)
    brush.box(-0.75, 2.3, 0.75, 0.0, green)
    brush.box(-0.75, 0.2, 0.75, 0.0, dark)
    brush.box(-0.6, 1.95, 0.6, 1.1, (52, 58, 64))
    brush.box(-0.65, 1.1, 0.65, 1.0, (150, 142, 124))
    for step, colour in enumerate(((196, 120, 96), (214, 200, 140), (122, 150, 176))):
        brush.box(-0.56 + 0.4 * step, 0.94, -0.24 + 0.4 * step, 0.4, colour)
    brush.shape([(-0.9, 2.3), (0.9, 2.3), (0.7, 2.65), (-0.7, 2.65)], (150, 70, 60))
    brush.box(-0.9, 2.36, 0.9, 2.24, (226, 218, 200))


def _car(brush: _Brush) -> None:
    paint, shade, glass = (96, 116, 148), (74, 90, 118), (52, 60, 70)
    body = [(-2.2, 0.35), (-2.22, 0.75), (-1.5, 0.92), (-0.9, 1.45), (0.75, 1.45), (1.35, 0.95)]
    brush.shape([*body, (2.15, 0.8), (2.2, 0.35)], paint)
    brush.shape([(-2.2, 0.3), (2.2, 0.3), (2.2, 0.5), (-2.2, 0.5)], shade)
    brush.shape([(-1.3, 0.95), (-0.82, 1.38), (-0.1, 1.38), (-0.1, 0.95)], glass)
    brush.shape([(0.0, 0.95), (0.0, 1.38), (0.7, 1.38), (1.16, 0.95)], glass)
    for x in (-1.35, 1.35):
        brush.disc(x, 0.33, 0.33, (36, 36, 38))
        brush.disc(x, 0.33, 0.18, (160, 162, 166))
    brush.disc(-2.1, 0.7, 0.09, (240, 236, 210))


def _shaded(colour: Rgb, factor: float) -> Rgb:
    red, green, blue = (max(0, min(255, round(part * factor))) for part in colour)
    return red, green, blue
