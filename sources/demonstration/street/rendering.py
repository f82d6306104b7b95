"""Render the frames of a street video; the truth about people is counted from painted pixels."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from sources.demonstration.figure import (
    STATURE_METRES,
    Pose,
    Sprite,
    cut_out,
    draw_figure,
    draw_shadow,
)
from sources.demonstration.people import Chance, Person
from sources.demonstration.scenes import draw_houses
from sources.demonstration.street.script import (
    NEAREST_METRES,
    Camera,
    Place,
    Script,
    Shift,
    Trouble,
    Visit,
)
from sources.demonstration.street.truth import PixelBox, Pixels, TrueSighting

_PHASES = ((24, 12), (100, 8))
_PHASES_OF_CROWDS = 4
"""Number of painted phases of a step, for up to so many people, and for more."""

_NOISE, _NO_NOISE, _NOISE_SPARE_PX = 1.6, 128, 61
_DARK = 0.11


class RenderedFrame(NamedTuple):
    """A frame and the people in it, by visit; `pixels` has the shape (height, width, 3), RGB."""

    pixels: Pixels
    sightings: tuple[TrueSighting, ...]


def render_street(script: Script, chance: Chance) -> Iterator[RenderedFrame]:
    """Yield the frames of a video; the same script and random stream produce the same pixels."""
    stage = _Stage(script, chance)
    times = [frame / script.frame_rate for frame in range(script.frame_count)]
    shifts = script.camera.shifts(chance, times)
    previous = None
    for frame, scene in enumerate(script.scenes()):
        troubles = script.troubles_at(frame)
        if Trouble.FROZEN in troubles and previous is not None:
            pixels, seen = previous
            again = tuple(one.model_copy(update={"frame": frame}) for one in seen)
            previous = RenderedFrame(pixels, again)
        else:
            previous = stage.render(frame, times[scene], shifts[scene], troubles)
        yield previous


class _Figures:
    """The figures of one person, painted at `stature_px` and scaled down from there."""

    def __init__(self, person: Person, stature_px: float) -> None:
        self._person, self._stature_px = person, stature_px
        self._painted: dict[Pose, Sprite] = {}
        self._sized: dict[tuple[Pose, int], Sprite] = {}

    def at(self, pose: Pose, stature_px: int) -> Sprite:
        """Return the figure in a pose, scaled so that an upright person has `stature_px`."""
        if pose not in self._painted:
            scale = self._stature_px / STATURE_METRES
            self._painted[pose] = draw_figure(self._person, pose, scale)
        if (pose, stature_px) not in self._sized:
            picture, left, top = self._painted[pose]
            ratio = stature_px / self._stature_px
            size = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
            smaller = picture.resize(size, Image.Resampling.HAMMING)
            self._sized[pose, stature_px] = cut_out(smaller, (-left * ratio, -top * ratio))
        return self._sized[pose, stature_px]


class _Thing(NamedTuple):
    """A sprite on the ground, `z` metres away, its foot at a pixel; visit 0 is the kiosk."""

    z: float
    sprite: Sprite
    foot: tuple[int, int]
    visit: int = 0


class _Stage:
    """Everything that is painted once for a video, and the painting of frames from it."""

    def __init__(self, script: Script, chance: Chance) -> None:
        self.script, self.camera, self.chance = script, script.camera, chance
        self.street = _draw_street(self.camera, chance)
        people = len(script.people)
        limits = (phases for most, phases in _PHASES if people <= most)
        self.phases = next(limits, _PHASES_OF_CROWDS)
        nearest = {
            identity: min(p.z for v in script.visits if v.identity == identity for p in v.path)
            for identity in script.people
        }
        self.figures = {
            identity: _Figures(person, round(self._stature(nearest[identity])))
            for identity, person in script.people.items()
        }
        self.shadows: dict[int, Sprite] = {}
        self.kiosk = _draw_kiosk(self.camera.scale_at(script.kiosk.z)) if script.kiosk else None
        width, height = self.camera.width_px, self.camera.height_px
        shape = (height + _NOISE_SPARE_PX, width + _NOISE_SPARE_PX)
        levels = np.clip(np.round(_NO_NOISE + _NOISE * chance.noise(shape)), 0, 255)
        self.noise = Image.fromarray(levels.astype(np.uint8)).convert("RGB")
        # The margin around the frame holds all of an object that is only partly inside.
        self.room = 2 * height
        self.frame = np.pad(np.ones((height, width), np.bool_), self.room)

    def render(
        self, frame: int, seconds: float, shift: Shift, troubles: set[Trouble]
    ) -> RenderedFrame:
        """Render one frame: the street, shadows, then people and the kiosk, from back to front."""
        left, top = (
            margin - moved for margin, moved in zip(self.camera.margins, shift, strict=True)
        )
        size = (self.camera.width_px, self.camera.height_px)
        picture = self.street.crop((left, top, left + size[0], top + size[1]))
        people = [one for v in self.script.visits if (one := self._person_at(v, seconds, shift))]
        for one in people:
            stature = round(self._stature(one.z))
            if stature not in self.shadows:
                self.shadows[stature] = draw_shadow(stature / STATURE_METRES)
            self.shadows[stature].paste(picture, one.foot)
        things, owners = list(people), np.zeros(self.frame.shape, np.uint16)
        if self.kiosk and self.script.kiosk:
            place = self.script.kiosk
            things.append(_Thing(place.z, self.kiosk, self._foot(place, shift)))
        for thing in sorted(things, key=lambda thing: -thing.z):
            thing.sprite.paste(picture, thing.foot)
            owners[self._window(thing)][_mask(thing.sprite)] = thing.visit
        seen = (self._sighting(frame, one, owners) for one in people)
        sightings = tuple(one for one in seen if one.inside > 0)
        return RenderedFrame(self._photographed(picture, troubles), sightings)

    def _person_at(self, visit: Visit, seconds: float, shift: Shift) -> _Thing | None:
        """Return a person who is in the frame, or near it."""
        place = visit.place_at(seconds)
        if place is None:
            return None
        foot, stature = self._foot(place, shift), round(self._stature(place.z))
        if not -stature < foot[0] < self.camera.width_px + stature:
            return None
        pose = visit.pose_at(seconds, self.phases)
        return _Thing(place.z, self.figures[visit.identity].at(pose, stature), foot, visit.number)

    def _stature(self, z: float) -> float:
        return self.camera.scale_at(z) * STATURE_METRES

    def _foot(self, place: Place, shift: Shift) -> tuple[int, int]:
        column, row = self.camera.place(*place)
        return round(column) + shift[0], round(row) + shift[1]

    def _window(self, thing: _Thing) -> tuple[slice, slice]:
        """Return the rows and columns of a sprite, in the frame with its margin."""
        left, top = thing.foot[0] + thing.sprite.left, thing.foot[1] + thing.sprite.top
        rows, columns = top + self.room, left + self.room
        picture = thing.sprite.picture
        return slice(rows, rows + picture.height), slice(columns, columns + picture.width)

    def _sighting(self, frame: int, one: _Thing, owners: NDArray[np.uint16]) -> TrueSighting:
        """Return the part of a person inside the frame, and the visible part of it."""
        window, mask = self._window(one), _mask(one.sprite)
        corner = (window[1].start - self.room, window[0].start - self.room)
        area = max(1, int(np.count_nonzero(mask)))
        visible = mask & self.frame[window] & (owners[window] == one.visit)
        box = _box_of(mask, corner)
        return TrueSighting(
            frame=frame,
            visit=one.visit,
            box_xyxy=box or (*corner, *corner),
            visible_xyxy=_box_of(visible, corner),
            inside=round(np.count_nonzero(mask & self.frame[window]) / area, 4),
            visible=round(np.count_nonzero(visible) / area, 4),
        )

    def _photographed(self, picture: Image.Image, troubles: set[Trouble]) -> Pixels:
        """Apply light and lens to an image, with sensor noise that differs in each frame."""
        stature = self.camera.stature_px
        if Trouble.LIGHTS_OUT in troubles:
            picture = picture.point([round(_DARK * level) for level in range(256)] * 3)
        if Trouble.DEFOCUS in troubles:
            picture = picture.filter(ImageFilter.GaussianBlur(0.022 * stature))
        if Trouble.MOTION_BLUR in troubles:
            picture = picture.filter(ImageFilter.BoxBlur((0.045 * stature, 0.4)))
        left, top = (self.chance.whole(0, _NOISE_SPARE_PX - 1) for _ in range(2))
        noise = self.noise.crop((left, top, left + picture.width, top + picture.height))
        return np.asarray(ImageChops.add(picture, noise, scale=1, offset=-_NO_NOISE))


def _mask(sprite: Sprite) -> NDArray[np.bool_]:
    """Return the pixels that hide what is behind them, of shape (height, width)."""
    return np.asarray(sprite.picture.getchannel("A")) >= 128


def _box_of(mask: NDArray[np.bool_], corner: tuple[int, int]) -> PixelBox | None:
    columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    if not columns.size:
        return None
    left, top = corner
    return (
        left + int(columns[0]),
        top + int(rows[0]),
        left + int(columns[-1]) + 1,
        top + int(rows[-1]) + 1,
    )


def _draw_street(camera: Camera, chance: Chance) -> Image.Image:
    """Draw houses behind a pavement of slabs, with the size of the frame and its margins."""
    right, down = camera.margins
    size = (camera.width_px + 2 * right, camera.height_px + 2 * down)
    far, near = camera.wall_metres, 0.7 * NEAREST_METRES

    def ground(x: float, z: float) -> tuple[float, float]:
        column, row = camera.place(x, z)
        return column + right, row + down

    picture = draw_houses(chance, size, ground(0, far)[1], camera.scale_at(far))
    draw = ImageDraw.Draw(picture)
    reach = camera.half_width_metres(far) * size[0] / camera.width_px + 2
    for x in np.arange(-reach, reach, 1.2):
        draw.line((*ground(x, far), *ground(x, near)), fill=(150, 146, 142))
    for z in np.arange(far, near, -1.2):
        draw.line((0, ground(0, z)[1], size[0], ground(0, z)[1]), fill=(150, 146, 142))
    return picture.filter(ImageFilter.GaussianBlur(0.004 * camera.stature_px + 0.3))


def _draw_kiosk(scale: float) -> Sprite:
    """Draw a kiosk at `scale` pixels per metre, which people can pass behind."""
    picture = Image.new("RGBA", (round(1.8 * scale), round(2.7 * scale)))
    draw = ImageDraw.Draw(picture)
    for left, top, right, bottom, colour in (
        (0.15, 0.4, 1.65, 2.7, (66, 98, 84)),
        (0.3, 0.75, 1.5, 1.6, (52, 58, 64)),
        (0.25, 1.6, 1.55, 1.7, (150, 142, 124)),
        (0.0, 0.05, 1.8, 0.46, (150, 70, 60)),
    ):
        draw.rectangle((left * scale, top * scale, right * scale, bottom * scale), fill=colour)
    return cut_out(picture, (picture.width / 2, picture.height))
