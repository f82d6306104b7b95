"""Street backgrounds, a little out of focus as behind a person in a photograph."""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from sources.demonstration.people import Chance, Rgb

_WALLS: tuple[Rgb, ...] = (
    (168, 140, 118),
    (186, 176, 160),
    (150, 156, 164),
    (196, 184, 150),
    (142, 104, 88),
    (204, 202, 196),
    (120, 128, 138),
)
_CARS: tuple[Rgb, ...] = (
    (182, 186, 190),
    (60, 66, 78),
    (150, 46, 46),
    (64, 92, 132),
    (226, 226, 222),
)


class _Painter:
    """A canvas with its measures: where the ground begins, and pixels per metre in front."""

    def __init__(self, chance: Chance, size: tuple[int, int], horizon: float, unit: float) -> None:
        self.chance, self.horizon, self.unit = chance, horizon, unit
        self.width, self.height = size
        self.picture = Image.new("RGB", size)
        self.draw = ImageDraw.Draw(self.picture)

    def sky(self) -> None:
        """From a deeper blue or grey down to a pale horizon."""
        top = self.chance.pick(((122, 164, 212), (176, 186, 196), (150, 182, 214)))
        self.gradient(0, self.horizon, top, (222, 226, 228))

    def gradient(self, top: float, bottom: float, first: Rgb, last: Rgb) -> None:
        """A band of colour from `first` above to `last` below."""
        y0, y1 = int(top), max(int(top) + 1, int(bottom))
        share = np.linspace(0, 1, y1 - y0)[:, None]
        rows = np.array(first) * (1 - share) + np.array(last) * share
        band = np.repeat(rows[:, None, :], self.width, axis=1).astype(np.uint8)
        self.picture.paste(Image.fromarray(band), (0, y0))

    def box(self, left: float, top: float, right: float, bottom: float, colour: Rgb) -> None:
        """A filled rectangle."""
        self.draw.rectangle((left, top, max(left, right), max(top, bottom)), fill=colour)

    def shade(self, colour: Rgb, factor: float) -> Rgb:
        """The colour made lighter or darker."""
        red, green, blue = (max(0, min(255, round(part * factor))) for part in colour)
        return red, green, blue


def draw_scene(chance: Chance, size: tuple[int, int], ground_y: float) -> Image.Image:
    """A street of the given size in pixels; `ground_y` is where somebody in front stands."""
    unit = ground_y / 2.0
    painter = _Painter(chance, size, ground_y * chance.between(0.60, 0.80), unit)
    painter.sky()
    chance.pick((_brick_wall, _houses, _shop, _park, _parked_car))(painter)
    _ground(painter)
    return painter.picture.filter(ImageFilter.GaussianBlur(0.012 * unit + 0.4))


def finish(picture: Image.Image, chance: Chance) -> Image.Image:
    """The picture as a camera gives it: a light of its own, slight noise, slight softness."""
    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.35)), np.float32)
    warm, bright = chance.between(-0.03, 0.03), chance.between(0.92, 1.06)
    across = np.linspace(-1, 1, picture.width, dtype=np.float32)[None, :, None]
    light = bright * (1 + chance.between(-0.05, 0.05) * across)
    tint = np.array([1 + warm, 1.0, 1 - warm], np.float32)
    noise = 2.2 * chance.noise((picture.height, picture.width, 1))
    return Image.fromarray(np.clip(pixels * light * tint + noise, 0, 255).astype(np.uint8))


def _ground(painter: _Painter) -> None:
    """Pavement with joints that run together in the distance, or asphalt, or grass."""
    chance, unit = painter.chance, painter.unit
    colour = chance.pick(((166, 162, 156), (146, 144, 144), (178, 168, 152), (124, 124, 128)))
    bottom = painter.height
    painter.gradient(
        painter.horizon, bottom, painter.shade(colour, 0.88), painter.shade(colour, 1.06)
    )
    joint = painter.shade(colour, 0.82)
    vanishing = painter.width * chance.between(0.2, 0.8)
    if chance.happens(0.7):
        for step in range(-9, 10):
            foot = painter.width / 2 + step * 0.45 * unit
            near = vanishing + (foot - vanishing) * 0.25
            painter.draw.line(
                (near, painter.horizon, foot * 1.6 - 0.3 * painter.width, bottom), fill=joint
            )
        y, gap = painter.horizon + 3.0, 5.0
        while y < bottom:
            painter.draw.line((0, y, painter.width, y), fill=joint)
            y, gap = y + gap, gap * 1.45
    if chance.happens(0.5):
        kerb = painter.horizon + 0.04 * unit
        painter.box(0, painter.horizon, painter.width, kerb, (198, 196, 190))
        painter.box(0, kerb, painter.width, kerb + 0.02 * unit, (112, 110, 108))


def _brick_wall(painter: _Painter) -> None:
    wall = painter.chance.pick(_WALLS)
    painter.gradient(0, painter.horizon, painter.shade(wall, 1.05), painter.shade(wall, 0.9))
    high, wide = max(4.0, 0.085 * painter.unit), max(8.0, 0.24 * painter.unit)
    for row in range(int(painter.horizon / high) + 1):
        for column in range(-1, int(painter.width / wide) + 2):
            left, top = (column + 0.5 * (row % 2)) * wide, painter.horizon - (row + 1) * high
            brick = painter.shade(wall, painter.chance.between(0.9, 1.08))
            painter.box(left + 1, top + 1, left + wide - 1, top + high - 1, brick)
    painter.box(
        0,
        painter.horizon - 0.1 * painter.unit,
        painter.width,
        painter.horizon,
        painter.shade(wall, 0.6),
    )


def _houses(painter: _Painter) -> None:
    chance, left = painter.chance, -0.2 * painter.unit
    while left < painter.width:
        right = left + chance.between(0.5, 1.0) * painter.unit
        wall = chance.pick(_WALLS)
        top = painter.horizon * chance.between(-0.1, 0.35)
        painter.box(left, top, right, painter.horizon, wall)
        painter.box(right - 2, top, right, painter.horizon, painter.shade(wall, 0.75))
        _windows(painter, left, top, right, wall)
        left = right
    for _ in range(chance.whole(0, 1)):
        _tree(painter, chance.between(0, painter.width))


def _windows(painter: _Painter, left: float, top: float, right: float, wall: Rgb) -> None:
    unit = painter.unit
    y = top + 0.12 * unit
    while y < painter.horizon - 0.35 * unit:
        x = left + 0.08 * unit
        while x < right - 0.16 * unit:
            painter.box(
                x - 1, y - 1, x + 0.13 * unit + 1, y + 0.2 * unit + 1, painter.shade(wall, 1.2)
            )
            glass = painter.chance.pick(((84, 100, 118), (110, 128, 146), (66, 76, 90)))
            painter.box(x, y, x + 0.13 * unit, y + 0.2 * unit, glass)
            x += 0.25 * unit
        y += 0.38 * unit


def _shop(painter: _Painter) -> None:
    chance, unit = painter.chance, painter.unit
    wall = chance.pick(_WALLS)
    painter.box(0, 0, painter.width, painter.horizon, wall)
    sign = painter.horizon * chance.between(0.10, 0.18)
    colour = chance.pick(((40, 84, 120), (140, 44, 40), (36, 92, 66), (86, 60, 44), (58, 58, 66)))
    painter.box(0, sign, painter.width, sign + 0.2 * unit, colour)
    for step in range(chance.whole(3, 6)):
        x = (0.15 + 0.16 * step) * unit
        painter.box(x, sign + 0.06 * unit, x + 0.1 * unit, sign + 0.14 * unit, (236, 230, 214))
    top, bottom = sign + 0.28 * unit, painter.horizon - 0.16 * unit
    painter.gradient(top, bottom, (126, 142, 156), (74, 82, 92))
    for _ in range(7):
        x, high = chance.between(0, painter.width), chance.between(0.15, 0.5) * unit
        thing = chance.pick(((176, 130, 84), (120, 96, 110), (190, 186, 172), (88, 116, 96)))
        painter.box(x, bottom - high, x + chance.between(0.1, 0.25) * unit, bottom, thing)
    for share in (0.0, 0.34, 0.68, 0.98):
        x = painter.width * share
        painter.box(x, top, x + 0.035 * unit, bottom, painter.shade(wall, 0.55))
    painter.box(0, bottom, painter.width, painter.horizon, painter.shade(wall, 0.7))


def _park(painter: _Painter) -> None:
    chance, unit = painter.chance, painter.unit
    for _ in range(4):
        _tree(painter, chance.between(-0.1, 1.1) * painter.width)
    hedge = painter.horizon - chance.between(0.25, 0.5) * unit
    painter.gradient(hedge, painter.horizon, (92, 122, 70), (62, 88, 50))
    for _ in range(60):
        x, y = chance.between(0, painter.width), chance.between(hedge - 4, painter.horizon)
        size = chance.between(0.02, 0.06) * unit
        green = chance.pick(((104, 136, 78), (78, 106, 58), (58, 84, 48)))
        painter.draw.ellipse((x - size, y - size, x + size, y + size), fill=green)
    grass = painter.horizon - 0.05 * unit
    painter.box(0, grass, painter.width, painter.horizon, (126, 152, 84))


def _tree(painter: _Painter, x: float) -> None:
    chance, unit = painter.chance, painter.unit
    trunk = chance.between(0.03, 0.06) * unit
    painter.box(x - trunk, painter.horizon * 0.3, x + trunk, painter.horizon, (92, 76, 62))
    for _ in range(26):
        cx = x + chance.between(-0.45, 0.45) * unit
        cy = painter.horizon * 0.25 + chance.between(-0.5, 0.35) * unit
        size = chance.between(0.08, 0.18) * unit
        green = chance.pick(((98, 132, 74), (120, 150, 90), (74, 104, 60), (88, 118, 66)))
        painter.draw.ellipse((cx - size, cy - size, cx + size, cy + size), fill=green)


def _parked_car(painter: _Painter) -> None:
    _houses(painter)
    chance, unit = painter.chance, painter.unit
    colour = chance.pick(_CARS)
    left = painter.width * chance.between(-0.5, 0.1)
    floor = painter.horizon + 0.03 * unit

    def place(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(left + x * unit, floor - y * unit) for x, y in points]

    body = [
        (0, 0.1),
        (0.02, 0.34),
        (0.3, 0.42),
        (0.52, 0.66),
        (1.12, 0.66),
        (1.36, 0.42),
        (1.62, 0.36),
        (1.66, 0.1),
    ]
    painter.draw.polygon(place(body), fill=colour)
    painter.draw.polygon(
        place([(0, 0.1), (1.66, 0.1), (1.65, 0.2), (0.01, 0.2)]), fill=painter.shade(colour, 0.8)
    )
    glass = (70, 82, 94)
    painter.draw.polygon(place([(0.38, 0.43), (0.56, 0.62), (0.8, 0.62), (0.8, 0.43)]), fill=glass)
    painter.draw.polygon(
        place([(0.84, 0.43), (0.84, 0.62), (1.09, 0.62), (1.26, 0.43)]), fill=glass
    )
    for x in (0.34, 1.30):
        for radius, shade in ((0.135, (34, 34, 36)), (0.07, (150, 152, 156))):
            box = place([(x - radius, 0.13 + radius), (x + radius, 0.13 - radius)])
            painter.draw.ellipse((*box[0], *box[1]), fill=shade)
