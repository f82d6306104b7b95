"""The frames of a street video, and who is where in them, counted from the painted pixels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sources.demonstration.drawing import STATURE_METRES
from sources.demonstration.people import Chance
from sources.demonstration.street.optics import Optics, Shift, Trouble
from sources.demonstration.street.scenery import (
    Figures,
    Shadows,
    Sprite,
    draw_obstacle,
    draw_street,
)
from sources.demonstration.street.truth import PixelBox, Pixels, TrueSighting
from sources.demonstration.street.walks import Script

_PHASES = ((24, 12), (100, 8))
_PHASES_OF_CROWDS = 4
"""How many moments of a step are painted for up to so many people, and for more."""


@dataclass(frozen=True)
class RenderedFrame:
    """A frame and the people in it, by visit; `pixels` has the shape (height, width, 3), RGB."""

    pixels: Pixels
    sightings: tuple[TrueSighting, ...]


@dataclass(frozen=True)
class _Standing:
    """A sprite on the ground: `z` metres away, its foot at a pixel; `visit` 0 for an obstacle."""

    z: float
    sprite: Sprite
    foot: tuple[int, int]
    visit: int = 0

    @property
    def box(self) -> PixelBox:
        left, top, right, bottom = self.sprite.box
        x, y = self.foot
        return left + x, top + y, right + x, bottom + y


def render_street(script: Script, chance: Chance) -> Iterator[RenderedFrame]:
    """The frames of a video one after the other; the same script and draws give the same pixels."""
    stage = _Stage(script, chance)
    shifts = stage.shifts()
    scene = 0
    previous: RenderedFrame | None = None
    for frame in range(script.frame_count):
        troubles = script.troubles_at(frame)
        if Trouble.FROZEN in troubles and previous is not None:
            previous = _repeated(previous, frame)
        else:
            previous = stage.render(frame, scene / script.frame_rate, shifts[scene], troubles)
            scene += 1
        yield previous


def _repeated(previous: RenderedFrame, frame: int) -> RenderedFrame:
    again = (sighting.model_copy(update={"frame": frame}) for sighting in previous.sightings)
    return RenderedFrame(previous.pixels, tuple(again))


class _Stage:
    """Everything that is painted once for a video, and the painting of a frame from it."""

    def __init__(self, script: Script, chance: Chance) -> None:
        self.script, self.camera = script, script.camera
        self.chance = chance
        self.margins = script.movement.margins(self.camera)
        light = chance.between(-0.9, 0.9)
        self.street = draw_street(self.camera, self.margins, chance)
        self.shadows = Shadows(light)
        self.phases = next(
            (phases for most, phases in _PHASES if len(script.people) <= most), _PHASES_OF_CROWDS
        )
        self.figures = {
            identity: Figures(person, self._tallest(identity))
            for identity, person in script.people.items()
        }
        self.obstacles = [
            (obstacle, draw_obstacle(obstacle.kind, self.camera.scale_at(obstacle.z)))
            for obstacle in script.obstacles
        ]
        size = (self.camera.width_px, self.camera.height_px)
        self.optics = Optics(size, self.camera.stature_px, script.daylight, script.cloud, chance)

    def shifts(self) -> list[Shift]:
        """How the picture is moved in each frame."""
        times = [frame / self.script.frame_rate for frame in range(self.script.frame_count)]
        return self.script.movement.shifts(self.camera, self.chance, times)

    def _tallest(self, identity: int) -> int:
        """The height in which somebody is painted: the greatest in which they appear."""
        visits = (visit for visit in self.script.visits if visit.identity == identity)
        return round(self._stature(min(point.z for visit in visits for point in visit.path)))

    def render(
        self, frame: int, seconds: float, shift: Shift, troubles: set[Trouble]
    ) -> RenderedFrame:
        """One frame: the street, shadows, then people and obstacles, the farthest first."""
        corner = (self.margins[0] - shift[0], self.margins[1] - shift[1])
        width, height = self.camera.width_px, self.camera.height_px
        picture = self.street.crop((*corner, corner[0] + width, corner[1] + height))
        people = self._people_at(seconds, shift)
        for one in people:
            _paste(picture, self.shadows.at(round(self._stature(one.z))), one.foot)
        owners = np.zeros((height, width), np.uint16)
        things = [*people, *self._obstacles_at(shift)]
        for thing in sorted(things, key=lambda thing: -thing.z):
            _paste(picture, thing.sprite, thing.foot)
            _claim(owners, thing)
        seen = (_sighting(frame, one, owners) for one in people)
        pixels = self.optics.take(picture, seconds, troubles)
        return RenderedFrame(pixels, tuple(s for s in seen if s.inside > 0))

    def _people_at(self, seconds: float, shift: Shift) -> list[_Standing]:
        people = []
        for visit in self.script.visits:
            place = visit.place_at(seconds)
            if place is None:
                continue
            foot = self._foot(place.x, place.z, shift)
            stature = round(self._stature(place.z))
            if not -stature < foot[0] < self.camera.width_px + stature:
                continue
            pose = visit.pose_at(seconds, self.phases)
            sprite = self.figures[visit.identity].at(pose, stature)
            people.append(_Standing(place.z, sprite, foot, visit.number))
        return people

    def _obstacles_at(self, shift: Shift) -> list[_Standing]:
        return [
            _Standing(obstacle.z, sprite, self._foot(obstacle.x, obstacle.z, shift))
            for obstacle, sprite in self.obstacles
        ]

    def _stature(self, z: float) -> float:
        return self.camera.scale_at(z) * STATURE_METRES

    def _foot(self, x: float, z: float, shift: Shift) -> tuple[int, int]:
        column, row = self.camera.place(x, z)
        return round(column) + shift[0], round(row) + shift[1]


def _paste(picture: Image.Image, sprite: Sprite, foot: tuple[int, int]) -> None:
    picture.paste(sprite.picture, (foot[0] + sprite.left, foot[1] + sprite.top), sprite.picture)


def _claim(owners: NDArray[np.uint16], thing: _Standing) -> None:
    """Marks the pixels that the thing hides as its own."""
    left, top = thing.foot[0] + thing.sprite.left, thing.foot[1] + thing.sprite.top
    rows, columns = _window(owners, left, top, thing.sprite.mask.shape)
    mask = thing.sprite.mask[
        rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
    ]
    owners[rows, columns][mask] = thing.visit


def _window(
    owners: NDArray[np.uint16], left: int, top: int, shape: tuple[int, ...]
) -> tuple[slice, slice]:
    """The rows and columns of the frame that a picture of `shape` covers; empty where none."""
    bottom, right = min(owners.shape[0], top + shape[0]), min(owners.shape[1], left + shape[1])
    first_row, first_column = max(0, top), max(0, left)
    return (
        slice(first_row, max(first_row, bottom)),
        slice(first_column, max(first_column, right)),
    )


def _sighting(frame: int, one: _Standing, owners: NDArray[np.uint16]) -> TrueSighting:
    """What of a person lies in the frame, and what of that can be seen."""
    left, top = one.foot[0] + one.sprite.left, one.foot[1] + one.sprite.top
    rows, columns = _window(owners, left, top, one.sprite.mask.shape)
    mask = one.sprite.mask[
        rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
    ]
    own = owners[rows, columns] == one.visit
    area = max(1, one.sprite.area_px)
    return TrueSighting(
        frame=frame,
        visit=one.visit,
        box_xyxy=one.box,
        visible_xyxy=_box_of(own, columns.start, rows.start),
        inside=round(np.count_nonzero(mask) / area, 4),
        visible=round(np.count_nonzero(own) / area, 4),
    )


def _box_of(mask: NDArray[np.bool_], left: int, top: int) -> PixelBox | None:
    columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    if not columns.size:
        return None
    return (
        left + int(columns[0]),
        top + int(rows[0]),
        left + int(columns[-1]) + 1,
        top + int(rows[-1]) + 1,
    )
