"""How the street is seen: the camera, and what optics do to a frame."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from schemas.base import Record
from sources.demonstration.drawing import STATURE_METRES
from sources.demonstration.people import Chance
from sources.demonstration.street.truth import Pixels

# The street's camera: where a place on the ground appears, and how the camera moves.

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


# What light and lens make of a drawn picture: clouds, darkness, blur, and the sensor's noise.

_NOISE, _NO_NOISE = 1.6, 128
_NOISE_SPARE_PX = 61
_CLOUD_DIMS = 0.38
_DARK = 0.11


class Trouble(StrEnum):
    """What happens to whole frames for a while."""

    DEFOCUS = "defocus"
    MOTION_BLUR = "motion blur"
    LIGHTS_OUT = "lights out"
    FROZEN = "frozen"


class Stretch(Record):
    """Some trouble from `first_frame` to `last_frame`, both included."""

    trouble: Trouble
    first_frame: int
    last_frame: int

    def covers(self, frame: int) -> bool:
        """True for a frame of the stretch."""
        return self.first_frame <= frame <= self.last_frame


class Cloud(Record):
    """A cloud before the sun, from when to when in seconds."""

    start_seconds: float
    end_seconds: float

    def dims(self, seconds: float, edge_seconds: float = 1.0) -> float:
        """How much of the light it takes, 0 to 1; it comes and goes within `edge_seconds`."""
        inside = min(seconds - self.start_seconds, self.end_seconds - seconds)
        share = min(1.0, max(0.0, inside / edge_seconds))
        return _CLOUD_DIMS * (0.5 - 0.5 * math.cos(math.pi * share))


class Optics:
    """Makes frames of drawn pictures.

    Args:
        size_px: width and height of the frames.
        stature_px: how high the nearest people are; blur is in proportion to it.
        daylight: brightness of the day, 1 for a sunny one.
        cloud: a cloud before the sun, if there is one.
        chance: draws the noise.
    """

    def __init__(
        self,
        size_px: tuple[int, int],
        stature_px: float,
        daylight: float,
        cloud: Cloud | None,
        chance: Chance,
    ) -> None:
        self.size_px, self.stature_px = size_px, stature_px
        self.daylight, self.cloud, self._chance = daylight, cloud, chance
        self._noise = _noise_field(size_px, chance)

    def take(self, picture: Image.Image, seconds: float, troubles: set[Trouble]) -> Pixels:
        """The frame that a camera gives of `picture`."""
        light = self.daylight * (1 - (self.cloud.dims(seconds) if self.cloud else 0.0))
        if Trouble.LIGHTS_OUT in troubles:
            light *= _DARK
        if light != 1:
            picture = picture.point([min(255, round(light * level)) for level in range(256)] * 3)
        if Trouble.DEFOCUS in troubles:
            picture = picture.filter(ImageFilter.GaussianBlur(0.022 * self.stature_px))
        if Trouble.MOTION_BLUR in troubles:
            picture = picture.filter(ImageFilter.BoxBlur((0.045 * self.stature_px, 0.4)))
        return np.asarray(self._with_noise(picture))

    def _with_noise(self, picture: Image.Image) -> Image.Image:
        """The picture with noise; the field that was drawn once lies elsewhere in every frame."""
        left, top = (self._chance.whole(0, _NOISE_SPARE_PX - 1) for _ in range(2))
        width, height = self.size_px
        noise = self._noise.crop((left, top, left + width, top + height))
        return ImageChops.add(picture, noise, scale=1, offset=-_NO_NOISE)


def _noise_field(size_px: tuple[int, int], chance: Chance) -> Image.Image:
    """Grey noise around the level `_NO_NOISE`, somewhat larger than a frame."""
    shape = (size_px[1] + _NOISE_SPARE_PX, size_px[0] + _NOISE_SPARE_PX)
    levels = np.clip(np.round(_NO_NOISE + _NOISE * chance.noise(shape)), 0, 255).astype(np.uint8)
    return Image.fromarray(levels).convert("RGB")
