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
Flat = tuple[float, float]


@dataclass(frozen=True)
class Surface:
    """The pixels of one shape, each of shape (h, w).

    `along` and `across` are places on the surface in metres, `turn` in [-1, 1] says where between
    the left and the right edge a pixel lies, which gives the direction that the surface faces.
    """

    rows: slice
    columns: slice
    mask: NDArray[np.bool_]
    along: Field
    across: Field
    turn: Field


Texture = Callable[[Surface], Field]
"""Colours in 0…255 for a surface, of shape (h, w, 3) or (3,)."""


class Layer:
    """A transparent picture that shapes are painted on, one over the other.

    Args:
        width, height: pixels, already multiplied by the supersampling factor.
        scale: pixels per metre.
        origin: the pixel (column, row) of the point (0, 0).
        light: where the light comes from, -1 (left) … 1 (right).
    """

    def __init__(self, width: int, height: int, scale: float, origin: Flat, light: float) -> None:
        self.width, self.height, self.scale, self.origin, self.light = (
            width,
            height,
            scale,
            origin,
            light,
        )
        self.colour = np.zeros((height, width, 3), np.float32)
        self.alpha = np.zeros((height, width), np.float32)

    def paint(self, surface: Surface | None, texture: Texture, *, depth: float = 1.0) -> None:
        """Covers the surface with the texture; `depth` 0 is flat, 1 a round body."""
        if surface is None:
            return
        shade = 1.0 + depth * (_round_shade(surface.turn, self.light) - 1.0)
        colour = np.clip(texture(surface) * shade[..., None], 0, 255)
        self.colour[surface.rows, surface.columns][surface.mask] = colour[surface.mask]
        self.alpha[surface.rows, surface.columns][surface.mask] = 1.0

    def shadow(self, surface: Surface | None, strength: float) -> None:
        """Darkens what is already painted under the surface."""
        if surface is not None:
            self.colour[surface.rows, surface.columns][surface.mask] *= 1.0 - strength

    def tube(self, points: Sequence[Flat], radii: Sequence[float]) -> Surface | None:
        """A round limb along `points`, as wide at each as its radius."""
        window = self._window(
            [
                (x + s * r, y + s * r)
                for (x, y), r in zip(points, radii, strict=True)
                for s in (-1, 1)
            ]
        )
        if window is None:
            return None
        rows, columns, x, y = window
        best = np.full(x.shape, np.inf, np.float32)
        along, across = np.zeros_like(best), np.zeros_like(best)
        radius_here = np.ones_like(best)
        travelled = 0.0
        for start, end, r0, r1 in zip(points, points[1:], radii, radii[1:], strict=False):
            dx, dy = end[0] - start[0], end[1] - start[1]
            length = max(1e-6, (dx * dx + dy * dy) ** 0.5)
            place = np.clip(((x - start[0]) * dx + (y - start[1]) * dy) / length**2, 0, 1)
            away_x, away_y = x - start[0] - place * dx, y - start[1] - place * dy
            radius = r0 + place * (r1 - r0)
            distance = np.hypot(away_x, away_y) / radius
            nearer = distance < best
            side = np.sign(dx * away_y - dy * away_x) * np.hypot(away_x, away_y)
            side *= 1.0 if dy < 0 or (dy == 0 and dx > 0) else -1.0
            best = np.where(nearer, distance, best)
            along = np.where(nearer, travelled + place * length, along)
            across = np.where(nearer, side, across)
            radius_here = np.where(nearer, radius, radius_here)
            travelled += length
        turn = np.clip(across / radius_here, -1, 1)
        return Surface(rows, columns, best <= 1, along, across, turn)

    def body(self, outline: Sequence[tuple[float, float, float]]) -> Surface | None:
        """A round body given by rows (y, left x, right x) from top to bottom, smoothly joined."""
        table = _smooth(np.array(outline, np.float64))
        heights, lefts, rights = table[::-1].T
        window = self._window([(lefts.min(), heights[0]), (rights.max(), heights[-1])])
        if window is None:
            return None
        rows, columns, x, y = window
        line = y[:, 0]
        left = np.interp(line, heights, lefts)[:, None]
        right = np.interp(line, heights, rights)[:, None]
        half = np.maximum((right - left) / 2, 1e-4)
        turn = ((x - (left + right) / 2) / half).astype(np.float32)
        inside = (np.abs(turn) <= 1) & (y >= heights[0]) & (y <= heights[-1])
        turn = np.clip(turn, -1, 1)
        across = (half * np.arcsin(turn)).astype(np.float32)
        return Surface(rows, columns, inside, heights[-1] - y, across, turn)

    def disc(self, centre: Flat, half_width: float, half_height: float) -> Surface | None:
        """An upright ellipse."""
        (cx, cy), corners = centre, ((-1, -1), (1, 1))
        window = self._window([(cx + a * half_width, cy + b * half_height) for a, b in corners])
        if window is None:
            return None
        rows, columns, x, y = window
        across, down = (x - cx) / half_width, (cy - y) / half_height
        mask = across**2 + down**2 <= 1
        turn = np.clip(across, -1, 1)
        return Surface(rows, columns, mask, cy + half_height - y, x - cx, turn)

    def polygon(self, points: Sequence[Flat]) -> Surface | None:
        """A flat shape with straight edges."""
        window = self._window(points)
        if window is None:
            return None
        rows, columns, x, y = window
        picture = Image.new("L", (x.shape[1], x.shape[0]))
        pixels = [(px - columns.start, py - rows.start) for px, py in map(self._pixel, points)]
        ImageDraw.Draw(picture).polygon(pixels, fill=1)
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        middle, half = (min(xs) + max(xs)) / 2, max((max(xs) - min(xs)) / 2, 1e-4)
        turn = np.clip((x - middle) / half, -1, 1)
        return Surface(rows, columns, np.asarray(picture) > 0, max(ys) - y, x - middle, turn)

    def _pixel(self, point: Flat) -> Flat:
        return (
            self.origin[0] + point[0] * self.scale,
            self.origin[1] - point[1] * self.scale,
        )

    def _window(self, points: Sequence[Flat]) -> tuple[slice, slice, Field, Field] | None:
        """The pixels around `points` that lie on the layer, with their coordinates in metres."""
        pixels = np.array([self._pixel(point) for point in points])
        low, high = (
            np.floor(pixels.min(axis=0)).astype(int),
            np.ceil(pixels.max(axis=0)).astype(int),
        )
        x0, y0 = max(0, int(low[0])), max(0, int(low[1]))
        x1, y1 = min(self.width, int(high[0]) + 1), min(self.height, int(high[1]) + 1)
        if x0 >= x1 or y0 >= y1:
            return None
        xs = (np.arange(x0, x1, dtype=np.float32) + 0.5 - self.origin[0]) / self.scale
        ys = (self.origin[1] - np.arange(y0, y1, dtype=np.float32) - 0.5) / self.scale
        x, y = np.meshgrid(xs, ys)
        return slice(y0, y1), slice(x0, x1), x.astype(np.float32), y.astype(np.float32)


def _round_shade(turn: Field, light: float) -> Field:
    """Brightness of a round surface: about 1 in the middle, darker towards its edges."""
    facing = np.sqrt(np.clip(1 - turn * turn, 0, 1))
    return np.asarray(0.74 + 0.28 * facing + 0.13 * turn * light - 0.10 * turn**6, np.float32)


def _smooth(rows: NDArray[np.float64], steps: int = 8) -> NDArray[np.float64]:
    """A Catmull-Rom curve through `rows`, of shape (n, 3), `steps` points from row to row."""
    padded = np.concatenate([rows[:1], rows, rows[-1:]])
    before, start, end, after = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
    pieces = []
    for step in range(steps):
        t = step / steps
        pieces.append(
            0.5
            * (
                2 * start
                + (end - before) * t
                + (2 * before - 5 * start + 4 * end - after) * t**2
                + (3 * start - before - 3 * end + after) * t**3
            )
        )
    curve = np.stack(pieces, axis=1).reshape(-1, rows.shape[1])
    curve = np.concatenate([curve, rows[-1:]])
    curve[:, 0] = np.minimum.accumulate(curve[:, 0])
    return curve
