"""Flat shapes painted in plain or patterned colours on a transparent picture."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from sources.demonstration.people import Pattern, Rgb

Flat = tuple[float, float]
"""A point in the plane of the picture, in metres: (to the right, up)."""

_EDGE_METRES = 0.007
CIRCLE = [(math.cos(t), math.sin(t)) for t in np.linspace(0, 2 * math.pi, 20, endpoint=False)]


class Paint(NamedTuple):
    """A colour, and a pattern on it in a second colour."""

    colour: Rgb
    pattern: Pattern = Pattern.PLAIN
    second: Rgb = (0, 0, 0)

    def shaded(self, brightness: float) -> "Paint":
        """The paint made lighter or darker."""
        return Paint(
            _shaded(self.colour, brightness), self.pattern, _shaded(self.second, brightness)
        )


def _shaded(colour: Rgb, brightness: float) -> Rgb:
    red, green, blue = (min(255, round(part * brightness)) for part in colour)
    return red, green, blue


class Layer:
    """A transparent picture that shapes are painted on, one over the other.

    Everything is in metres: x to the right, y up, the origin between the feet.

    Args:
        width, height: pixels, already multiplied by the supersampling factor.
        scale: pixels per metre.
        origin: the pixel (column, row) of the point (0, 0).
    """

    def __init__(self, width: int, height: int, scale: float, origin: Flat) -> None:
        self.scale, self.origin = scale, origin
        self.picture = Image.new("RGBA", (width, height))
        self._draw = ImageDraw.Draw(self.picture)

    def fill(self, pieces: Iterable[Sequence[Flat]], paint: Paint, *, edge: bool = True) -> None:
        """One shape of polygons, with a darker edge around it."""
        outlines = [[self._pixel(point) for point in piece] for piece in pieces]
        wide = max(1, round(2 * _EDGE_METRES * self.scale))
        for outline in outlines if edge else ():
            self._draw.line([*outline, outline[0]], _shaded(paint.colour, 0.72), wide)
        for outline in outlines:
            self._draw.polygon(outline, paint.colour)
        if paint.pattern in (Pattern.STRIPED, Pattern.PLAID, Pattern.DOTTED):
            mask = Image.new("L", self.picture.size)
            for outline in outlines:
                ImageDraw.Draw(mask).polygon(outline, 255)
            mask = ImageChops.multiply(mask, self._marks(paint.pattern))
            self.picture.paste((*paint.second, 255), mask=mask)

    def tube(self, points: Sequence[Flat], radii: Sequence[float], paint: Paint) -> None:
        """A limb along `points`, as wide at each as its radius."""
        pieces = [ellipse(point, r, r) for point, r in zip(points, radii, strict=True)]
        for (start, r0), (end, r1) in pairwise(zip(points, radii, strict=True)):
            length = max(math.dist(start, end), 1e-6)
            x, y = (end[1] - start[1]) / length, (start[0] - end[0]) / length
            pieces.append(
                [
                    (start[0] + r0 * x, start[1] + r0 * y),
                    (end[0] + r1 * x, end[1] + r1 * y),
                    (end[0] - r1 * x, end[1] - r1 * y),
                    (start[0] - r0 * x, start[1] - r0 * y),
                ]
            )
        self.fill(pieces, paint)

    def disc(self, centre: Flat, wide: float, high: float, paint: Paint) -> None:
        """An upright ellipse given by its two radii."""
        self.fill([ellipse(centre, wide, high)], paint, edge=False)

    def _marks(self, pattern: Pattern) -> Image.Image:
        """Where on the layer a pattern has its second colour, 0 to 255."""
        rows, columns = np.ogrid[: self.picture.height, : self.picture.width]
        down, right = rows / self.scale, (columns - self.origin[0]) / self.scale
        if pattern is Pattern.STRIPED:
            marks = np.broadcast_to(down % 0.08 > 0.045, (rows.size, columns.size)) * 255
        elif pattern is Pattern.PLAID:
            marks = (down % 0.085 < 0.03) * 128 + (right % 0.085 < 0.03) * 127
        else:
            marks = (np.hypot(down % 0.06 - 0.03, right % 0.06 - 0.03) < 0.018) * 255
        return Image.fromarray(marks.astype(np.uint8))

    def _pixel(self, point: Flat) -> Flat:
        return self.origin[0] + point[0] * self.scale, self.origin[1] - point[1] * self.scale


def ellipse(centre: Flat, wide: float, high: float) -> list[Flat]:
    """The outline of an upright ellipse given by its two radii."""
    return [(centre[0] + wide * x, centre[1] + high * y) for x, y in CIRCLE]
