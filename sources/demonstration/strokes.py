"""Shapes painted with shaded, patterned cloth onto a supersampled layer.

Everything is in metres in the plane of the image: x to the right, y up, the origin between the
feet. A shape says which pixels it covers and where on its surface each of them lies; a texture
turns those places into colours; the light that falls on a round body is added here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Field = NDArray[np.float32]
Mask = NDArray[np.bool_]
Flat = tuple[float, float]


@dataclass(frozen=True)
class Surface:
    """The n pixels of one shape inside a window of the layer.

    `mask` of shape (h, w) marks them; the other arrays have shape (n,), in the mask's order: `x`
    and `y` in the plane, `along` and `across` on the surface (metres from its top and from its
    middle line), `turn` in [-1, 1] between its left and its right edge.
    """

    rows: slice
    columns: slice
    mask: Mask
    x: Field
    y: Field
    along: Field
    across: Field
    turn: Field

    @property
    def angle(self) -> Field:
        """The direction that the surface faces, in radians from towards us, to the right."""
        return np.arcsin(self.turn)

    @property
    def length(self) -> float:
        """How far the surface reaches along itself, in metres; 0 where none of it shows."""
        return float(self.along.max(initial=0.0))

    def part(self, chosen: Mask) -> "Surface":
        """The pixels for which `chosen`, of shape (n,), is true."""
        mask = np.zeros_like(self.mask)
        mask[self.mask] = chosen
        fields = (self.x, self.y, self.along, self.across, self.turn)
        return Surface(self.rows, self.columns, mask, *(field[chosen] for field in fields))


Texture = Callable[[Surface], Field]
"""Colours in 0…255 for the pixels of a surface, of shape (n, 3)."""


class Layer:
    """A transparent picture that shapes are painted on, one over the other.

    Args:
        width, height: pixels, already multiplied by the supersampling factor.
        scale: pixels per metre.
        origin: the pixel (column, row) of the point (0, 0).
        light: where the light comes from, -1 (left) … 1 (right).
    """

    def __init__(self, width: int, height: int, scale: float, origin: Flat, light: float) -> None:
        self.width, self.height, self.scale = width, height, scale
        self.origin, self.light = origin, light
        self.pixels = np.zeros((height, width, 4), np.uint8)
        self._words = self.pixels.view(np.uint32)[..., 0]  # one item a pixel: masks much faster

    def paint(self, surface: Surface, texture: Texture, *, round_: float = 1.0) -> None:
        """Covers the surface with the texture; `round_` 0 is a flat thing, 1 a round body."""
        if not surface.turn.size:
            return
        shade = 1.0 + round_ * (_round_shade(surface.turn, self.light) - 1.0)
        painted = np.empty((surface.turn.size, 4), np.uint8)
        painted[:, :3] = np.clip(texture(surface) * shade[:, None], 0, 255)
        painted[:, 3] = 255
        window = self._words[surface.rows, surface.columns]
        window[surface.mask] = painted.view(np.uint32)[:, 0]

    def darken(self, surface: Surface, strength: float) -> None:
        """A shadow on what is already painted under the surface."""
        window = self._words[surface.rows, surface.columns]
        under = window[surface.mask].view(np.uint8).reshape(-1, 4)
        under[:, :3] = under[:, :3] * np.float32(1.0 - strength)
        window[surface.mask] = under.view(np.uint32)[:, 0]

    def tube(self, points: Sequence[Flat], radii: Sequence[float], *, cut: bool = False) -> Surface:
        """A round limb along `points`, as wide at each as its radius; `cut` off flat at its end."""
        widest = max(radii)
        ends = [(px + s * widest, py + s * widest) for px, py in points for s in (-1, 1)]
        rows, columns, x, y = self._window(ends)
        nearest = np.full(x.shape, np.inf, np.float32)
        along, across, turn = (np.zeros_like(nearest) for _ in range(3))
        travelled = 0.0
        pieces = zip(points[:-1], points[1:], radii[:-1], radii[1:], strict=True)
        for (x0, y0), (x1, y1), r0, r1 in pieces:
            dx, dy = x1 - x0, y1 - y0
            length = max(1e-6, (dx * dx + dy * dy) ** 0.5)
            reached = ((x - x0) * dx + (y - y0) * dy) / length**2
            place = np.clip(reached, 0, 1)
            away_x, away_y = x - x0 - place * dx, y - y0 - place * dy
            away, radius = np.sqrt(away_x**2 + away_y**2), r0 + place * (r1 - r0)
            ratio = away / radius
            nearer = ratio < nearest
            to_the_right = np.where((away_x * -dy + away_y * dx) > 0, away, -away)
            np.copyto(nearest, ratio, where=nearer)
            np.copyto(along, travelled + place * length, where=nearer)
            np.copyto(across, to_the_right, where=nearer)
            np.copyto(turn, to_the_right / radius, where=nearer)
            travelled += length
        inside = (nearest <= 1) & ~(cut & (reached > 1) & (along >= travelled - 1e-6))
        return _surface(rows, columns, inside, (x, y, along, across, turn))

    def body(self, outline: Sequence[tuple[float, float, float]]) -> Surface:
        """A round body given by rows (y, left x, right x) from top to bottom, smoothly joined."""
        table = _smooth(np.array(outline, np.float64))
        heights, lefts, rights = table[::-1].T
        rows, columns, x, y = self._window([(lefts.min(), heights[0]), (rights.max(), heights[-1])])
        line = y[:, :1]
        left = np.interp(line, heights, lefts).astype(np.float32)
        right = np.interp(line, heights, rights).astype(np.float32)
        half = np.maximum((right - left) / 2, 1e-4)
        turn = (x - (left + right) / 2) / half
        inside = (np.abs(turn) <= 1) & (line >= heights[0]) & (line <= heights[-1])
        across = half * np.arcsin(np.clip(turn, -1, 1))
        return _surface(rows, columns, inside, (x, y, heights[-1] - y, across, turn))

    def disc(self, centre: Flat, half_width: float, half_height: float) -> Surface:
        """An upright ellipse."""
        cx, cy = centre
        rows, columns, x, y = self._window(
            [(cx - half_width, cy - half_height), (cx + half_width, cy + half_height)]
        )
        turn, down = (x - cx) / max(half_width, 1e-4), (cy - y) / max(half_height, 1e-4)
        inside = turn**2 + down**2 <= 1
        return _surface(rows, columns, inside, (x, y, cy + half_height - y, x - cx, turn))

    def polygon(self, points: Sequence[Flat]) -> Surface:
        """A shape with straight edges."""
        rows, columns, x, y = self._window(points)
        picture = Image.new("L", (x.shape[1], x.shape[0]))
        pixels = [(px - columns.start, py - rows.start) for px, py in map(self._pixel, points)]
        if picture.width and picture.height:
            ImageDraw.Draw(picture).polygon(pixels, fill=1)
        xs, ys = zip(*points, strict=True)
        middle, half = (min(xs) + max(xs)) / 2, max((max(xs) - min(xs)) / 2, 1e-4)
        turn = (x - middle) / half
        inside = np.asarray(picture) > 0
        return _surface(rows, columns, inside, (x, y, max(ys) - y, x - middle, turn))

    def _pixel(self, point: Flat) -> Flat:
        column, row = self.origin
        return column + point[0] * self.scale, row - point[1] * self.scale

    def _window(self, points: Sequence[Flat]) -> tuple[slice, slice, Field, Field]:
        """The pixels around `points` that lie on the layer, with their places in metres."""
        columns, rows = zip(*map(self._pixel, points), strict=True)
        x0, x1 = np.clip([np.floor(min(columns)), np.ceil(max(columns)) + 1], 0, self.width)
        y0, y1 = np.clip([np.floor(min(rows)), np.ceil(max(rows)) + 1], 0, self.height)
        xs = (np.arange(x0, x1, dtype=np.float32) + 0.5 - self.origin[0]) / self.scale
        ys = (self.origin[1] - np.arange(y0, y1, dtype=np.float32) - 0.5) / self.scale
        shape = (ys.size, xs.size)
        x: Field = np.broadcast_to(xs.astype(np.float32), shape)
        y: Field = np.broadcast_to(ys.astype(np.float32)[:, None], shape)
        return slice(int(y0), int(y1)), slice(int(x0), int(x1)), x, y


def _surface(
    rows: slice, columns: slice, mask: Mask, fields: tuple[Field, Field, Field, Field, Field]
) -> Surface:
    x, y, along, across, turn = (field[mask].astype(np.float32) for field in fields)
    return Surface(rows, columns, mask, x, y, along, across, np.clip(turn, -1, 1))


def _round_shade(turn: Field, light: float) -> Field:
    """Brightness of a round surface: about 1 in the middle, darker towards its edges."""
    square = turn * turn
    shade = 1.03 - 0.20 * square + 0.12 * light * turn - 0.12 * square * square * square
    return np.asarray(shade, np.float32)


def _smooth(rows: NDArray[np.float64], steps: int = 8) -> NDArray[np.float64]:
    """A Catmull-Rom curve through `rows`, of shape (n, 3), `steps` points from row to row."""
    padded = np.concatenate([rows[:1], rows, rows[-1:]])
    before, start, end, after = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
    t = (np.arange(steps) / steps)[:, None, None]
    curve = 0.5 * (
        2 * start
        + (end - before) * t
        + (2 * before - 5 * start + 4 * end - after) * t**2
        + (3 * start - before - 3 * end + after) * t**3
    )
    curve = np.concatenate([curve.transpose(1, 0, 2).reshape(-1, 3), rows[-1:]])
    curve[:, 0] = np.minimum.accumulate(curve[:, 0])
    return curve
