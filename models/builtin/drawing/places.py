"""What is behind everything: eight places in soft colours, none of them as dark as ink."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from models.builtin.drawing.pen import Draws
from models.builtin.drawing.vocabulary import Place, Rgb


class _Backdrop:
    """A canvas with a horizon."""

    def __init__(self, chance: Draws, size: tuple[int, int]) -> None:
        self.chance = chance
        self.width, self.height = size
        self.horizon = round(self.height * chance.between(0.42, 0.5))
        self.picture = Image.new("RGB", size)
        self.draw = ImageDraw.Draw(self.picture)

    def gradient(self, top: float, bottom: float, first: Rgb, last: Rgb) -> None:
        """A band over the whole width from `first` above to `last` below."""
        y0, y1 = int(top), max(int(top) + 1, int(bottom))
        share = np.linspace(0, 1, y1 - y0)[:, None, None]
        rows = np.array(first) * (1 - share) + np.array(last) * share
        band = np.repeat(rows, self.width, axis=1).round().astype(np.uint8)
        self.picture.paste(Image.fromarray(band), (0, y0))
        self.draw = ImageDraw.Draw(self.picture)

    def sky(self, first: Rgb, last: Rgb) -> None:
        """Everything above the horizon."""
        self.gradient(0, self.horizon, first, last)

    def ground(self, first: Rgb, last: Rgb) -> None:
        """Everything below it."""
        self.gradient(self.horizon, self.height, first, last)

    def clouds(self, count: int, colour: Rgb) -> None:
        """Soft heaps in the sky."""
        for _ in range(count):
            x, y = self.chance.between(0, self.width), self.chance.between(10, self.horizon * 0.6)
            for step in range(4):
                r = self.chance.between(7, 14)
                left = x + step * 11 - 20
                self.draw.ellipse((left, y - r * 0.8, left + 2.4 * r, y + r * 0.8), fill=colour)

    def hills(self, colour: Rgb, high: float, count: int = 4) -> None:
        """Round hills on the horizon."""
        for step in range(count + 1):
            x = self.width * (step + self.chance.between(-0.3, 0.3)) / count
            r, h = self.width / count * 0.8, high * self.chance.between(0.6, 1.0)
            box = (x - r, self.horizon - h, x + r, self.horizon + h)
            self.draw.pieslice(box, 180, 360, fill=colour)

    def dots(self, count: int, colour: Rgb, low: float, high: float) -> None:
        """Small strokes strewn over the ground."""
        for _ in range(count):
            x = self.chance.between(0, self.width)
            y = self.chance.between(self.horizon + 6, self.height - 2)
            wide = self.chance.between(low, high)
            self.draw.ellipse((x, y, x + wide, y + 1.6), fill=colour)


def draw_place(chance: Draws, place: Place, size: tuple[int, int]) -> Image.Image:
    """The empty place, of `size` (width, height) in pixels."""
    backdrop = _Backdrop(chance, size)
    _PAINTERS[place](backdrop)
    return backdrop.picture


def _beach(to: _Backdrop) -> None:
    to.sky((128, 196, 240), (206, 234, 248))
    to.draw.ellipse((250, 14, 282, 46), fill=(255, 236, 150))
    to.clouds(2, (246, 250, 252))
    to.ground((246, 226, 172), (234, 206, 146))
    sea = to.horizon + 26
    to.gradient(to.horizon, sea, (70, 156, 206), (122, 206, 220))
    for step in range(8):
        x = step * to.width / 7 - 20
        to.draw.ellipse((x, sea - 5, x + 54, sea + 5), fill=(240, 246, 240))
    to.dots(40, (222, 192, 134), 3, 7)


def _park(to: _Backdrop) -> None:
    to.sky((158, 208, 246), (222, 240, 250))
    to.clouds(3, (248, 250, 252))
    to.hills((134, 190, 120), 34)
    to.ground((150, 208, 116), (112, 182, 88))
    y = to.horizon
    middle = to.width * to.chance.between(0.35, 0.65)
    path = [(middle - 6, y), (middle + 6, y), (middle + 90, to.height), (middle + 10, to.height)]
    to.draw.polygon(path, fill=(226, 208, 168))
    to.dots(60, (94, 166, 78), 2, 5)


def _street(to: _Backdrop) -> None:
    to.sky((190, 212, 228), (226, 234, 238))
    x = 0.0
    while x < to.width:
        wide, high = to.chance.between(36, 62), to.chance.between(50, 92)
        wall = to.chance.pick(((214, 180, 152), (200, 164, 150), (222, 204, 172), (186, 190, 196)))
        to.draw.rectangle((x, to.horizon - high, x + wide, to.horizon), fill=wall)
        for column in range(int(wide // 14)):
            for row in range(int(high // 20)):
                left, top = x + 5 + column * 14, to.horizon - high + 6 + row * 20
                to.draw.rectangle((left, top, left + 7, top + 10), fill=(156, 182, 200))
        x += wide
    to.ground((160, 162, 168), (138, 140, 148))
    to.gradient(to.horizon, to.horizon + 16, (206, 202, 194), (196, 192, 184))
    for step in range(6):
        left = step * 60 + to.chance.between(-4, 4)
        to.draw.rectangle((left, 186, left + 30, 191), fill=(226, 226, 220))


def _kitchen(to: _Backdrop) -> None:
    to.gradient(0, to.height, (248, 236, 210), (244, 228, 196))
    for x in range(0, to.width, 26):
        to.draw.line((x, 44, x, to.horizon), fill=(226, 214, 188))
    for y in range(44, to.horizon, 22):
        to.draw.line((0, y, to.width, y), fill=(226, 214, 188))
    to.draw.rectangle((0, 0, to.width, 34), fill=(150, 190, 180))
    for x in range(0, to.width, 64):
        to.draw.rectangle((x + 3, 3, x + 61, 31), fill=(166, 204, 194))
        to.draw.ellipse((x + 30, 22, x + 35, 27), fill=(232, 226, 200))
    to.ground((196, 148, 108), (184, 134, 96))
    to.draw.rectangle((0, to.horizon, to.width, to.horizon + 7), fill=(216, 172, 130))
    for y in range(to.horizon + 28, to.height, 26):
        to.draw.line((0, y, to.width, y), fill=(174, 126, 90), width=2)


def _desert(to: _Backdrop) -> None:
    to.sky((250, 190, 120), (254, 226, 172))
    to.draw.ellipse((40, 22, 82, 64), fill=(255, 244, 190))
    to.hills((226, 158, 92), 40, 3)
    to.ground((236, 176, 104), (220, 150, 82))
    for _ in range(5):
        x = to.chance.between(-30, to.width)
        y = to.chance.between(to.horizon + 20, to.height)
        to.draw.arc((x, y, x + 120, y + 30), 200, 340, fill=(206, 138, 74), width=2)


def _snow(to: _Backdrop) -> None:
    to.sky((176, 196, 222), (222, 230, 242))
    for step in range(4):
        x = to.width * (step + to.chance.between(0.1, 0.7)) / 3.5
        high = to.chance.between(40, 78)
        peak = [(x - 60, to.horizon), (x, to.horizon - high), (x + 60, to.horizon)]
        to.draw.polygon(peak, fill=(168, 184, 208))
        cap = [(x - 18, to.horizon - 0.7 * high), (x, to.horizon - high),
               (x + 18, to.horizon - 0.7 * high)]  # fmt: skip
        to.draw.polygon(cap, fill=(248, 250, 254))
    to.ground((236, 242, 250), (222, 232, 246))
    for _ in range(50):
        x, y = to.chance.between(0, to.width), to.chance.between(0, to.height)
        to.draw.ellipse((x, y, x + 3, y + 3), fill=(250, 252, 255))


def _harbour(to: _Backdrop) -> None:
    to.sky((172, 198, 214), (226, 232, 230))
    to.clouds(3, (238, 240, 240))
    left = to.chance.between(10, 180)
    to.draw.rectangle((left, to.horizon - 46, left + 16, to.horizon), fill=(236, 232, 226))
    to.draw.rectangle((left, to.horizon - 32, left + 16, to.horizon - 20), fill=(214, 112, 104))
    to.draw.rectangle((left + 3, to.horizon - 54, left + 13, to.horizon - 46), fill=(252, 226, 150))
    to.ground((62, 124, 156), (84, 150, 176))
    for _ in range(26):
        x = to.chance.between(0, to.width)
        y = to.chance.between(to.horizon + 4, to.height - 34)
        to.draw.line((x, y, x + 16, y), fill=(124, 182, 200), width=2)
    quay = to.height - 62
    to.gradient(quay, to.height, (186, 168, 146), (170, 150, 128))
    for x in range(0, to.width, 34):
        to.draw.line((x, quay, x - 10, to.height), fill=(150, 132, 112), width=2)


def _night_city(to: _Backdrop) -> None:
    to.sky((44, 52, 108), (84, 78, 146))
    to.draw.ellipse((262, 16, 292, 46), fill=(250, 244, 206))
    for _ in range(26):
        x, y = to.chance.between(0, to.width), to.chance.between(0, to.horizon * 0.7)
        to.draw.ellipse((x, y, x + 1.6, y + 1.6), fill=(240, 240, 220))
    x = 0.0
    while x < to.width:
        wide, high = to.chance.between(26, 48), to.chance.between(44, 100)
        wall = to.chance.pick(((58, 60, 112), (66, 64, 120), (52, 62, 104)))
        to.draw.rectangle((x, to.horizon - high, x + wide, to.horizon), fill=wall)
        for column in range(int(wide // 9)):
            for row in range(int(high // 11)):
                if to.chance.happens(0.5):
                    at = (x + 4 + column * 9, to.horizon - high + 5 + row * 11)
                    to.draw.rectangle((*at, at[0] + 4, at[1] + 5), fill=(252, 218, 120))
        x += wide
    to.ground((76, 76, 112), (94, 92, 128))
    for step in range(6):
        left = step * 62 + 6.0
        to.draw.rectangle((left, 188, left + 30, 192), fill=(180, 172, 150))


_PAINTERS: dict[Place, Callable[[_Backdrop], None]] = {
    Place.BEACH: _beach,
    Place.PARK: _park,
    Place.STREET: _street,
    Place.KITCHEN: _kitchen,
    Place.DESERT: _desert,
    Place.SNOW: _snow,
    Place.HARBOUR: _harbour,
    Place.NIGHT_CITY: _night_city,
}
