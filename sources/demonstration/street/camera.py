"""The street's camera: where a place on the ground appears, and how the camera moves."""

import math
from dataclasses import dataclass

from sources.demonstration.chance import Chance
from sources.demonstration.drawing import STATURE_METRES

NEAREST_METRES = 6.0
"""How far from the camera the nearest lane is that people walk on."""

_HORIZON, _WALL, _FARTHEST, _NEAREST = 0.10, 0.47, 0.60, 0.97
"""Rows as shares of the frame's height: horizon, foot of the houses, farthest and nearest lane."""

Shift = tuple[int, int]
"""How far the whole picture is moved, in pixels: (right, down)."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera above a flat street, looking straight along it.

    Places on the ground are (x, z) in metres: to the right of the middle, and away from the camera.
    `stature_px` is how high a person in the nearest lane appears.
    """

    width_px: int
    height_px: int
    stature_px: float

    @property
    def horizon_row(self) -> float:
        """The row in which the street would end."""
        return _HORIZON * self.height_px

    @property
    def middle_column(self) -> float:
        """The column of the places straight ahead."""
        return self.width_px / 2

    @property
    def wall_metres(self) -> float:
        """How far away the houses stand."""
        return self._metres_at(_WALL)

    @property
    def farthest_metres(self) -> float:
        """How far away the farthest lane is that people walk on."""
        return self._metres_at(_FARTHEST)

    def scale_at(self, z: float) -> float:
        """Pixels per metre of what is `z` metres away."""
        return self.stature_px / STATURE_METRES * NEAREST_METRES / z

    def place(self, x: float, z: float) -> tuple[float, float]:
        """The column and row of a place on the ground."""
        column = self.middle_column + x * self.scale_at(z)
        return column, self._row_at(z)

    def half_width_metres(self, z: float) -> float:
        """How far to the right of the middle the frame reaches at a distance of `z` metres."""
        return self.width_px / 2 / self.scale_at(z)

    def _row_at(self, z: float) -> float:
        ground = (_NEAREST - _HORIZON) * self.height_px
        return self.horizon_row + ground * NEAREST_METRES / z

    def _metres_at(self, row_share: float) -> float:
        return NEAREST_METRES * (_NEAREST - _HORIZON) / (row_share - _HORIZON)


@dataclass(frozen=True)
class Movement:
    """How a camera moves: `shaken` by a hand, and turned by `pan` widths of the frame in all."""

    shaken: bool = False
    pan: float = 0.0

    def margins(self, camera: Camera) -> Shift:
        """How far the picture can be moved to either side, and up or down."""
        shake = math.ceil(3 * self._amplitude(camera)) if self.shaken else 0
        return math.ceil(abs(self.pan) * camera.width_px / 2) + shake, shake

    def shifts(self, camera: Camera, chance: Chance, times: list[float]) -> list[Shift]:
        """Where the picture is moved to at each of the times (seconds)."""
        right = self._shake(camera, chance, times)
        down = self._shake(camera, chance, times)
        length = max(times[-1] - times[0], 1e-9) if times else 1.0
        turned = [self.pan * camera.width_px * (0.5 - (t - times[0]) / length) for t in times]
        return [(round(r + t), round(d)) for r, t, d in zip(right, turned, down, strict=True)]

    @staticmethod
    def _amplitude(camera: Camera) -> float:
        return 0.010 * camera.height_px

    def _shake(self, camera: Camera, chance: Chance, times: list[float]) -> list[float]:
        """A sum of three swings, each slower one wider."""
        if not self.shaken:
            return [0.0] * len(times)
        swings = [
            (
                self._amplitude(camera) / order,
                order * chance.between(0.6, 1.1),
                chance.between(0, 1),
            )
            for order in (1, 2, 4)
        ]
        return [
            sum(wide * math.sin(2 * math.pi * (hertz * t + start)) for wide, hertz, start in swings)
            for t in times
        ]
