"""What light and lens make of a drawn picture: clouds, darkness, blur, and the sensor's noise."""

import math
from enum import StrEnum

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from schemas.base import Record
from sources.demonstration.chance import Chance
from sources.demonstration.street.encoding import Pixels

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
