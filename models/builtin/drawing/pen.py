"""A pen that draws in shares of a box, on a transparent sheet, several times finer than shown."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from models.builtin.drawing.vocabulary import Rgb

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
