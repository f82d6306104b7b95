"""Figures painted once for each moment of a step, and kept at the sizes in which they appear."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sources.demonstration.drawing import STATURE_METRES
from sources.demonstration.figure import paint_figure
from sources.demonstration.frame import Frame
from sources.demonstration.people import Person
from sources.demonstration.poses import Pose
from sources.demonstration.strokes import Layer

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
    """The figures of one person in a light, painted at `stature_px` and made smaller from there."""

    def __init__(self, person: Person, stature_px: float, light: float) -> None:
        self.person, self.stature_px, self.light = person, stature_px, light
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
            self.light,
        )
        paint_figure(Frame(self.person, pose, layer))
        return Image.fromarray(layer.pixels).reduce(fine), (wide / 2, up)


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
