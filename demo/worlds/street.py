"""Videos of a street in which known people walk, rendered and written with their truth."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter
from pydantic import TypeAdapter

from loupe.demo.worlds.figure import STATURE_METRES, Sprite, draw_figure, draw_shadow
from loupe.demo.worlds.street_script import (
    NEAREST_METRES,
    WALL_METRES,
    Camera,
    FaultKind,
    Script,
    Stretch,
    Visit,
    write_script,
)
from loupe.demo.worlds.writing import draw_houses
from loupe.schemas.base import Record
from loupe.schemas.extras import needs_extra
from loupe.sources.motchallenge import Result, write_results
from loupe.testing import Chance

TRUTH_FILE = "street_truth.json"
DETECTIONS = "detections"
"""The folder of the boxes that the tracker is given."""

TRUNCATED_BELOW = 0.98
"""A person is truncated if less than this share of them lies inside the frame."""

OCCLUDED_FROM = 0.3
"""A person is occluded if at least this share of the part inside the frame is hidden."""

Pixels = NDArray[np.uint8]
"""An image of shape (height, width, 3), RGB."""


class TrueSighting(Record):
    """A visitor in one frame.

    Attributes:
        frame: counts from 0.
        visit: the number of the visit.
        box_xyxy: the whole figure in pixels, including hidden parts; may extend beyond the frame.
            Right and bottom are not part of the box.
        inside: share of the figure's pixels that lie inside the frame.
        visible: share of the figure's pixels that are visible.
        is_standing: whether the person stands as in the frame before.
    """

    frame: int
    visit: int
    box_xyxy: tuple[int, int, int, int]
    inside: float
    visible: float
    is_standing: bool

    @property
    def hidden(self) -> float:
        """Return the share of the part inside the frame that is covered."""
        return 1 - self.visible / self.inside if self.inside else 0.0


class TrueVideo(Record):
    """The truth about one video; `file_path` is relative to the world's folder.

    `identities` are those of the visits by number; who comes back later has two visits.
    `same_content_as` names the video of which this one is a re-encoded copy.
    """

    name: str
    theme: str
    file_path: str
    frame_rate: float
    identities: dict[int, int]
    sightings: tuple[TrueSighting, ...]
    fault: Stretch | None
    same_content_as: str | None = None

    def faulty(self) -> Iterator[tuple[TrueSighting, frozenset[FaultKind]]]:
        """Return every sighting with its faults, for the precision and recall of a filter."""
        for one in self.sightings:
            kinds = {self.fault.kind} if self.fault and self.fault.holds(one.frame) else set()
            kinds |= {FaultKind.DUPLICATE} if one.is_standing else set()
            kinds |= {FaultKind.TRUNCATION} if one.inside < TRUNCATED_BELOW else set()
            kinds |= {FaultKind.OCCLUSION} if one.hidden >= OCCLUDED_FROM else set()
            yield one, frozenset(kinds)


class StreetWorld(Record):
    """A generated world: its videos in order."""

    folder: Path
    videos: tuple[Path, ...]


_TRUTH = TypeAdapter(tuple[TrueVideo, ...])


def load_street_truth(folder: Path) -> tuple[TrueVideo, ...]:
    """Load the truth about the street videos that were written to `folder`."""
    return _TRUTH.validate_json((folder / TRUTH_FILE).read_bytes())


# Frames from a script.

_PHASES = 12
"""Number of painted phases of a step."""

_NOISE = 1.6
_NO_NOISE = 128
_NOISE_SPARE_PX = 61
_DARK = 0.11


class RenderedFrame(NamedTuple):
    """A frame and the people in it, by visit; `pixels` has the shape (height, width, 3), RGB."""

    pixels: Pixels
    sightings: tuple[TrueSighting, ...]


def render_street(script: Script, chance: Chance) -> Iterator[RenderedFrame]:
    """Yield the frames of a video; the same script and random stream produce the same pixels."""
    stage = _Stage(script, chance)
    previous = None
    before = -math.inf
    for frame, scene in enumerate(script.scenes()):
        fault = script.fault_at(frame)
        now = scene / script.frame_rate
        if fault is FaultKind.DUPLICATE and previous is not None:
            again = (one.model_copy(update={"frame": frame}) for one in previous.sightings)
            previous = previous._replace(sightings=tuple(again))
        else:
            previous = stage.render(frame, before, now, fault)
            before = now
        yield previous


class _Person(NamedTuple):
    """A visitor on the ground, `z` metres away, `stature_px` tall, their feet at a pixel."""

    visit: Visit
    z: float
    stature_px: int
    sprite: Sprite
    foot: tuple[int, int]


_SOLID = [0] * 128 + [255] * 128
"""By transparency: 255 from the half on."""


@dataclass
class _Painted:
    """A person who was painted into the box (left, top, right, bottom) of a frame."""

    person: _Person
    box: tuple[int, int, int, int]

    @cached_property
    def mask(self) -> Image.Image:
        """255 where the figure is."""
        return self.person.sprite.picture.getchannel("A").point(_SOLID)

    def pixels_inside(self, size: tuple[int, int]) -> int:
        """Count the figure's pixels inside a frame of a width and height."""
        left, top = self.box[:2]
        width, height = size
        inside = self.mask.crop((-left, -top, width - left, height - top))
        return int(np.count_nonzero(np.asarray(inside)))


class _Stage:
    """Everything that is painted once for a video, and the painting of frames from it."""

    def __init__(self, script: Script, chance: Chance) -> None:
        self.script = script
        self.camera = script.camera
        self.chance = chance
        self.street = _draw_street(self.camera, chance)
        self.shadow = cache(lambda stature_px: draw_shadow(stature_px / STATURE_METRES))
        self.figure = cache(
            lambda identity, pose, stature_px: draw_figure(
                script.people[identity], pose, stature_px / STATURE_METRES
            )
        )
        shape = (self.street.height + _NOISE_SPARE_PX, self.street.width + _NOISE_SPARE_PX)
        levels = np.clip(np.round(_NO_NOISE + _NOISE * chance.noise(shape)), 0, 255)
        self.noise = Image.fromarray(levels.astype(np.uint8)).convert("RGB")

    def render(
        self, frame: int, before: float, now: float, fault: FaultKind | None
    ) -> RenderedFrame:
        """Render a frame, `before` and `now` in seconds: street, shadows, people back to front."""
        picture = self.street.copy()
        people: list[_Person] = []
        for visit in self.script.visits:
            person = self._person_at(visit, now)
            if person is not None:
                people.append(person)
        people.sort(key=lambda one: -one.z)
        for one in people:
            self.shadow(one.stature_px).paste(picture, one.foot)
        seen = [_Painted(one, one.sprite.paste(picture, one.foot)) for one in people]
        owners = Image.new("L", picture.size)  # each pixel has the number of who is in front
        for number, painted in enumerate(seen, start=1):
            owners.paste(number, painted.box[:2], painted.mask)
        visible = np.bincount(np.asarray(owners).ravel(), minlength=len(seen) + 1)
        sightings: list[TrueSighting] = []
        for painted, visible_px in zip(seen, visible[1:].tolist(), strict=True):
            inside_px = painted.pixels_inside(picture.size)
            if not inside_px:
                continue
            area_px = np.count_nonzero(np.asarray(painted.mask))
            visit = painted.person.visit
            sighting = TrueSighting(
                frame=frame,
                visit=visit.number,
                box_xyxy=painted.box,
                inside=round(inside_px / area_px, 4),
                visible=round(visible_px / area_px, 4),
                is_standing=visit.is_standing(before, now),
            )
            sightings.append(sighting)
        return RenderedFrame(self._photographed(picture, fault), tuple(sightings))

    def _person_at(self, visit: Visit, seconds: float) -> _Person | None:
        """Return a person who is in the frame, or near it."""
        place = visit.place_at(seconds)
        if place is None:
            return None
        column, row = self.camera.place(*place)
        stature_px = round(self.camera.scale_at(place.z) * STATURE_METRES)
        if not -stature_px < column < self.camera.width_px + stature_px:
            return None
        sprite = self.figure(visit.identity, visit.pose_at(seconds, _PHASES), stature_px)
        return _Person(visit, place.z, stature_px, sprite, (round(column), round(row)))

    def _photographed(self, picture: Image.Image, fault: FaultKind | None) -> Pixels:
        """Apply light and lens to an image, with sensor noise that differs in each frame."""
        if fault is FaultKind.DARKNESS:
            picture = picture.point([round(_DARK * level) for level in range(256)] * 3)
        if fault is FaultKind.BLUR:
            picture = picture.filter(ImageFilter.GaussianBlur(0.022 * self.camera.stature_px))
        left = self.chance.whole(0, _NOISE_SPARE_PX - 1)
        top = self.chance.whole(0, _NOISE_SPARE_PX - 1)
        noise = self.noise.crop((left, top, left + picture.width, top + picture.height))
        return np.asarray(ImageChops.add(picture, noise, scale=1, offset=-_NO_NOISE))


def _draw_street(camera: Camera, chance: Chance) -> Image.Image:
    """Draw houses behind a pavement of slabs."""
    size = (camera.width_px, camera.height_px)
    far = WALL_METRES
    near = 0.7 * NEAREST_METRES
    picture = draw_houses(chance, size, camera.place(0, far)[1], camera.scale_at(far))
    draw = ImageDraw.Draw(picture)
    reach = camera.half_width_metres(far) + 2
    for x in np.arange(-reach, reach, 1.2):
        draw.line((*camera.place(x, far), *camera.place(x, near)), fill=(150, 146, 142))
    for z in np.arange(far, near, -1.2):
        draw.line((*camera.place(-reach, z), *camera.place(reach, z)), fill=(150, 146, 142))
    return picture.filter(ImageFilter.GaussianBlur(0.004 * camera.stature_px + 0.3))


_QUALITIES = (22, 28)
"""Constant rate factors of a video and of its copy."""

_STATURE = 0.58
"""Height of the nearest people, as a share of the shorter side."""


def write_street_world(
    folder: Path,
    seed: int = 7,
    videos: int = 4,
    seconds: float = 15,
    *,
    people: int = 8,
    size_px: tuple[int, int] = (640, 360),
    frame_rate: int = 15,
    copy_first: bool = True,
) -> StreetWorld:
    """Render videos of a street with known people, and write them under `folder`.

    It contains H.264 files in `videos/`, what a detector would find in them in `detections/`, and
    visits, sightings and planted faults in `street_truth.json`. The same arguments result in the
    same frames. No person is in two videos, except in the copy. These files are overwritten; other
    files in `folder` are not changed.

    Args:
        folder: made if missing.
        seed: determines the people and their paths.
        videos: number of videos; their themes (`street.toml`) alternate.
        seconds: length of each video.
        people: people per video.
        size_px: width and height, both even.
        frame_rate: frames per second.
        copy_first: adds a re-encoded copy of the first video.
    """
    width, height = size_px
    camera = Camera(width_px=width, height_px=height, stature_px=_STATURE * min(size_px))
    truth: list[TrueVideo] = []
    for number in range(1, videos + 1):
        chance = Chance("street", seed, number, "script")
        script = write_script(camera, frame_rate, seconds, people, number, chance)
        first = f"street-{number:02}"
        names = (first, f"{first}-again") if copy_first and number == 1 else (first,)
        for name, quality in zip(names, _QUALITIES, strict=False):
            path = f"videos/{name}.mp4"
            frames = render_street(script, Chance("street", seed, number, "frames"))
            sightings = _encode(folder / path, script, quality, frames)
            boxes = _detected(sightings, Chance("street", seed, name, "detections"))
            write_results(folder / DETECTIONS / f"{name}.txt", boxes)
            seen = {sighting.visit for sighting in sightings}
            video = TrueVideo(
                name=name,
                theme=script.theme,
                file_path=path,
                frame_rate=script.frame_rate,
                identities={
                    one.number: one.identity for one in script.visits if one.number in seen
                },
                sightings=sightings,
                fault=script.fault,
                same_content_as=None if name == first else first,
            )
            truth.append(video)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRUTH_FILE).write_bytes(_TRUTH.dump_json(tuple(truth)))
    return StreetWorld(folder=folder, videos=tuple(folder / one.file_path for one in truth))


def _encode(
    target: Path, script: Script, quality: int, frames: Iterable[RenderedFrame]
) -> tuple[TrueSighting, ...]:
    """Write an H.264 file and return the sightings in its frames; equal frames, equal bytes."""
    with needs_extra("drawing videos", "video"):
        import av
        from av.video.reformatter import Interpolation

    target.parent.mkdir(parents=True, exist_ok=True)
    sightings: list[TrueSighting] = []
    with av.open(str(target), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(script.frame_rate))
        stream.width = script.camera.width_px
        stream.height = script.camera.height_px
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.gop_size = 2 * script.frame_rate
        stream.options = {"preset": "ultrafast", "crf": str(quality)}
        for pixels, seen in frames:
            sightings += seen
            picture = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            same = Interpolation.BILINEAR | Interpolation.ACCURATE_RND  # on any processor
            container.mux(stream.encode(picture.reformat(format="yuv420p", interpolation=same)))
        container.mux(stream.encode(None))
    return tuple(sightings)


_UNKNOWN = -1
_LEAST_VISIBLE = 0.3
_MISSED = 0.03
_BOX_ERROR = 0.02
_SCORE_ERROR = 0.05


def _detected(sightings: Iterable[TrueSighting], chance: Chance) -> Iterator[Result]:
    """Yield the people that a good detector would find, with its errors.

    It finds 97 % of the people who are visible by 30 % or more. Each side of a box has a normal
    error of 2 % of the figure's height. The score is the visible share, with an error of 0.05.
    """
    for one in sightings:
        if one.visible < _LEAST_VISIBLE or chance.happens(_MISSED):
            continue
        box = np.array(one.box_xyxy, np.float64)
        box += _BOX_ERROR * (box[3] - box[1]) * chance.noise((4,))
        score = one.visible + _SCORE_ERROR * float(chance.noise((1,))[0])
        yield Result(one.frame + 1, _UNKNOWN, box, min(max(score, 0.0), 1.0))
