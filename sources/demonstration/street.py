"""Videos of a street in which known people walk, rendered and written with their truth."""

import math
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from schemas.base import Record
from sources.demonstration.figure import (
    STATURE_METRES,
    Pose,
    Sprite,
    cut_out,
    draw_figure,
    draw_shadow,
)
from sources.demonstration.people import Chance, Person
from sources.demonstration.street_script import (
    NEAREST_METRES,
    Camera,
    Place,
    Script,
    Shift,
    Stretch,
    Theme,
    Trouble,
    Visit,
    write_script,
)
from sources.demonstration.writing import draw_houses

if TYPE_CHECKING:
    from collections.abc import Callable

TRUTH_FILE = "street_truth.json"

TRUNCATED_BELOW = 0.98
"""A person is truncated if less than this share of them lies inside the frame."""

OCCLUDED_FROM = 0.3
"""A person is occluded if at least this share of the part inside the frame is hidden."""

Pixels = NDArray[np.uint8]
"""An image of shape (height, width, 3), RGB."""

PixelBox = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels; right and bottom are not part of the box."""


class FaultKind(StrEnum):
    """Faults of the crop of a person."""

    BLUR = "blur"
    DARKNESS = "darkness"
    TRUNCATION = "truncation"
    OCCLUSION = "occlusion"
    DUPLICATE = "duplicate"


_OF_TROUBLE = {
    Trouble.DEFOCUS: FaultKind.BLUR,
    Trouble.MOTION_BLUR: FaultKind.BLUR,
    Trouble.LIGHTS_OUT: FaultKind.DARKNESS,
    Trouble.FROZEN: FaultKind.DUPLICATE,
}


class TrueSighting(Record):
    """A visitor in one frame.

    Attributes:
        frame: counts from 0.
        visit: the number of the visit.
        box_xyxy: the whole figure, including hidden parts; may extend beyond the frame.
        inside: share of the figure's pixels that lie inside the frame.
        visible: share of the figure's pixels that are visible.
        is_standing: whether the person stands as in the frame before.
    """

    frame: int
    visit: int
    box_xyxy: PixelBox
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
    width_px: int
    height_px: int
    frame_rate: float
    frame_count: int
    identities: dict[int, int]
    sightings: tuple[TrueSighting, ...]
    stretches: tuple[Stretch, ...]
    same_content_as: str | None = None

    def identity_of(self, visit: int) -> int:
        """Return the identity of a visit."""
        return self.identities[visit]

    def faulty(self) -> Iterator[tuple[TrueSighting, frozenset[FaultKind]]]:
        """Return every sighting with its faults, for the precision and recall of a filter."""
        for one in self.sightings:
            kinds = {_OF_TROUBLE[each.trouble] for each in self.stretches if each.holds(one.frame)}
            kinds |= {FaultKind.DUPLICATE} if one.is_standing else set()
            kinds |= {FaultKind.TRUNCATION} if one.inside < TRUNCATED_BELOW else set()
            kinds |= {FaultKind.OCCLUSION} if one.hidden >= OCCLUDED_FROM else set()
            yield one, frozenset(kinds)


class StreetTruth(Record):
    """The truth about a world of street videos."""

    seed: int
    videos: tuple[TrueVideo, ...]


class StreetWorld(Record):
    """A generated world: its videos in order, and the file with the truth about them."""

    folder: Path
    seed: int
    videos: tuple[Path, ...]
    truth_file: Path


def load_street_truth(folder: Path) -> StreetTruth:
    """Load the truth about the street videos that were written to `folder`."""
    return StreetTruth.model_validate_json((folder / TRUTH_FILE).read_bytes())


# Frames from a script.

_PHASES = 12
"""Number of painted phases of a step."""

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
    previous, before = None, -math.inf
    for frame, scene in enumerate(script.scenes()):
        troubles = script.troubles_at(frame)
        if Trouble.FROZEN in troubles and previous is not None:
            pixels, seen = previous
            again = tuple(one.model_copy(update={"frame": frame}) for one in seen)
            previous = RenderedFrame(pixels, again)
        else:
            moments = before, times[scene]
            previous = stage.render(frame, moments, shifts[scene], troubles)
            before = times[scene]
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
        self, frame: int, moments: tuple[float, float], shift: Shift, troubles: set[Trouble]
    ) -> RenderedFrame:
        """Render one frame: the street, shadows, then people and the kiosk, from back to front.

        `moments` are the seconds of the frame before and of this one.
        """
        left, top = (
            margin - moved for margin, moved in zip(self.camera.margins, shift, strict=True)
        )
        size = (self.camera.width_px, self.camera.height_px)
        picture = self.street.crop((left, top, left + size[0], top + size[1]))
        visits = {visit.number: visit for visit in self.script.visits}
        people = [one for v in visits.values() if (one := self._person_at(v, moments[1], shift))]
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
        standing = {number for number, v in visits.items() if v.is_standing(*moments)}
        seen = (self._sighting(frame, one, owners, one.visit in standing) for one in people)
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
        pose = visit.pose_at(seconds, _PHASES)
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

    def _sighting(
        self, frame: int, one: _Thing, owners: NDArray[np.uint16], is_standing: bool
    ) -> TrueSighting:
        """Return the part of a person inside the frame, and the visible part of it."""
        window, mask = self._window(one), _mask(one.sprite)
        left, top = window[1].start - self.room, window[0].start - self.room
        columns, rows = (np.flatnonzero(mask.any(axis)) for axis in (0, 1))
        inside = mask & self.frame[window]
        area = max(1, int(np.count_nonzero(mask)))
        box = (left, top, left, top)
        if columns.size:
            right, bottom = int(columns[-1]) + 1, int(rows[-1]) + 1
            box = (left + int(columns[0]), top + int(rows[0]), left + right, top + bottom)
        return TrueSighting(
            frame=frame,
            visit=one.visit,
            box_xyxy=box,
            inside=round(np.count_nonzero(inside) / area, 4),
            visible=round(np.count_nonzero(inside & (owners[window] == one.visit)) / area, 4),
            is_standing=is_standing,
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
    workers: int = 1,
) -> StreetWorld:
    """Render videos of a street with known people, and write them under `folder`.

    It contains H.264 files in `videos/`, and visits, sightings and planted faults in
    `street_truth.json`. The same arguments result in the same frames, for any number of workers. No
    person is in two videos, except in the copy. These files are overwritten; other files in
    `folder` are not changed.

    Args:
        folder: made if missing.
        seed: determines the people and their paths.
        videos: number of videos; their themes (`Theme`) alternate.
        seconds: length of each video.
        people: people per video.
        size_px: width and height, both even.
        frame_rate: frames per second.
        copy_first: adds a re-encoded copy of the first video.
        workers: number of processes, which render one video each.

    Raises:
        ValueError: `people` is negative, or a side is odd.
    """
    if people < 0:
        raise ValueError(f"people must be 0 or more; got {people}")
    width, height = size_px
    if width % 2 or height % 2:
        raise ValueError(f"the sides of a video must be even; got {width}x{height}")
    camera = Camera(width_px=width, height_px=height, stature_px=_STATURE * min(size_px))
    themes = tuple(Theme)

    def script(number: int) -> Script:
        theme, first = themes[(number - 1) % len(themes)], 1 + (number - 1) * people
        chance = Chance("street", seed, number, "script")
        return write_script(camera, frame_rate, seconds, people, theme, first, chance)

    numbers = range(1, videos + 1)
    copies = [copy_first and number == 1 for number in numbers]
    write = partial(_write_video, folder, seed)
    if workers <= 1:
        written = [*map(write, numbers, map(script, numbers), copies)]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            written = [*pool.map(write, numbers, map(script, numbers), copies)]
    truth = StreetTruth(seed=seed, videos=tuple(chain.from_iterable(written)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRUTH_FILE).write_text(truth.model_dump_json() + "\n", encoding="utf-8")
    return StreetWorld(
        folder=folder,
        seed=seed,
        videos=tuple(folder / video.file_path for video in truth.videos),
        truth_file=folder / TRUTH_FILE,
    )


def _write_video(
    folder: Path, seed: int, number: int, script: Script, copied: bool
) -> list[TrueVideo]:
    """Render one video into its file, and into that of its copy, if any."""
    name = f"street-{number:02}"
    names = [name, f"{name}-again"] if copied else [name]
    paths = {one: f"videos/{one}.mp4" for one in names}
    sightings: list[TrueSighting] = []
    with ExitStack() as files:
        writers = [
            files.enter_context(_video_file(folder / path, script, quality))
            for path, quality in zip(paths.values(), _QUALITIES, strict=False)
        ]
        for frame in render_street(script, Chance("street", seed, number, "frames")):
            sightings += frame.sightings
            for write in writers:
                write(frame.pixels)
    seen = {sighting.visit for sighting in sightings}
    identities = {one.number: one.identity for one in script.visits if one.number in seen}
    return [
        TrueVideo(
            name=one,
            theme=script.theme,
            file_path=path,
            width_px=script.camera.width_px,
            height_px=script.camera.height_px,
            frame_rate=script.frame_rate,
            frame_count=script.frame_count,
            identities=identities,
            sightings=tuple(sightings),
            stretches=script.stretches,
            same_content_as=None if one == name else name,
        )
        for one, path in paths.items()
    ]


@contextmanager
def _video_file(target: Path, script: Script, quality: int) -> Iterator["Callable[[Pixels], None]"]:
    """Open an H.264 file and yield a function that adds a frame; equal frames, equal bytes."""
    import av

    target.parent.mkdir(parents=True, exist_ok=True)
    camera = script.camera
    with av.open(str(target), "w", format="mp4") as container:
        rate = Fraction(script.frame_rate)
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height = camera.width_px, camera.height_px
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.gop_size = 2 * script.frame_rate
        stream.options = {"preset": "ultrafast", "crf": str(quality)}

        def write(pixels: Pixels) -> None:
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)

        yield write
        for packet in stream.encode(None):
            container.mux(packet)
