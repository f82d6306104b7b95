"""Write videos of the street to a folder, with their ground truth."""

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from schemas.records import Granularity
from sources.demonstration.descriptions import describe
from sources.demonstration.figure import YAW, Action, Pose, View
from sources.demonstration.people import Chance
from sources.demonstration.street.rendering import render_street
from sources.demonstration.street.script import Camera, Script, Theme, write_script
from sources.demonstration.street.truth import (
    TRUTH_FILE,
    Pixels,
    StreetTruth,
    StreetWorld,
    TruePerson,
    TrueSighting,
    TrueVideo,
    TrueVisit,
    list_faults,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from av.video.stream import VideoStream

PEDESTRIAN = 1
LEAST_VISIBILITY = 0.1
"""People with a smaller visible share are listed, but not considered (confidence 0)."""

_ANNOTATORS = 2
_QUALITIES = (22, 28)
"""Constant rate factors of a video and of its copy."""


def write_street_world(
    folder: Path,
    seed: int = 7,
    videos: int = 4,
    seconds: float = 15,
    *,
    people: int = 8,
    size_px: tuple[int, int] = (640, 360),
    frame_rate: int = 15,
    stature_px: float | None = None,
    copy_first: bool = True,
    workers: int = 1,
) -> StreetWorld:
    """Render videos of a street with known people, and write them under `folder`.

    It contains H.264 files in `videos/`, people by frame in `mot/NAME/gt/gt.txt` (MOTChallenge),
    and people, visits, sightings and planted faults in `street_truth.json`. The same arguments
    result in the same frames, for any number of workers. No person is in two videos, except in the
    copy. These files are overwritten; other files in `folder` are not changed.

    Args:
        folder: made if missing.
        seed: determines the people and their paths.
        videos: number of videos; their themes (`Theme`) alternate.
        seconds: length of each video.
        people: people per video; 24 or more form a crowd that is there all the time.
        size_px: width and height, both even.
        frame_rate: frames per second.
        stature_px: height of the nearest people; by default 0.58 of the shorter side.
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
    stature = stature_px or 0.58 * min(size_px)
    camera = Camera(width_px=width, height_px=height, stature_px=stature)
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
    sightings: list[TrueSighting] = []
    with ExitStack() as files:
        writers = [
            files.enter_context(_video_file(folder / _video_path(one), script, quality))
            for one, quality in zip(names, _QUALITIES, strict=False)
        ]
        for frame in render_street(script, Chance("street", seed, number, "frames")):
            sightings += frame.sightings
            for write in writers:
                write(frame.pixels)
    seen: dict[int, list[int]] = {}
    for sighting in sightings:
        seen.setdefault(sighting.visit, []).append(sighting.frame)
    visits = tuple(
        TrueVisit(
            number=visit.number,
            identity=visit.identity,
            first_frame=seen[visit.number][0],
            last_frame=seen[visit.number][-1],
        )
        for visit in script.visits
        if visit.number in seen
    )
    people = tuple(_described(script, sightings, Chance("street", seed, number, "descriptions")))
    found = []
    for one in names:
        mot_path = f"mot/{one}/gt/gt.txt"
        write_mot_truth(folder / mot_path, sightings)
        found.append(
            TrueVideo(
                name=one,
                theme=script.theme,
                file_path=_video_path(one),
                mot_path=mot_path,
                width_px=script.camera.width_px,
                height_px=script.camera.height_px,
                frame_rate=script.frame_rate,
                frame_count=script.frame_count,
                people=people,
                visits=visits,
                sightings=tuple(sightings),
                faults=list_faults(script, sightings),
                same_content_as=None if one == name else name,
            )
        )
    return found


def _video_path(name: str) -> str:
    return f"videos/{name}.mp4"


def _described(
    script: Script, sightings: Iterable[TrueSighting], chance: Chance
) -> Iterator[TruePerson]:
    """Return the visible people, described by each annotator from the most visible side."""
    visits = {visit.number: visit for visit in script.visits}
    views: dict[int, Counter[View]] = {}
    for sighting in sightings:
        visit = visits[sighting.visit]
        pose = visit.pose_at(sighting.frame / script.frame_rate, phases=1)
        views.setdefault(visit.identity, Counter())[pose.view] += 1
    for identity, seen in sorted(views.items()):
        pose = Pose(action=Action.WALKING, yaw_degrees=YAW[seen.most_common(1)[0][0]], phase=0.0)
        texts = (
            describe(script.people[identity], pose, Granularity.FINE, annotator, chance)
            for annotator in range(_ANNOTATORS)
        )
        person = script.people[identity]
        yield TruePerson(identity=identity, person=person, descriptions=tuple(texts))


def write_mot_truth(target: Path, sightings: Iterable[TrueSighting]) -> None:
    """Write one row a sighting: frame (from 1), visit, whole box, considered, class, visibility.

    A person who leaves and comes back gets another number.
    """
    rows = []
    for one in sorted(sightings, key=lambda one: (one.frame, one.visit)):
        left, top, right, bottom = one.box_xyxy
        numbers = (one.frame + 1, one.visit, left, top, right - left, bottom - top)
        considered = int(one.visible >= LEAST_VISIBILITY)
        row = ",".join(map(str, (*numbers, considered, PEDESTRIAN)))
        rows.append(f"{row},{one.visible:.4f}\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(rows), encoding="utf-8")


@contextmanager
def _video_file(target: Path, script: Script, quality: int) -> Iterator["Callable[[Pixels], None]"]:
    """Open an MP4 file and yield a function that adds a frame; equal frames, equal bytes.

    The codec is H.264 if x264 is available.
    """
    import av

    target.parent.mkdir(parents=True, exist_ok=True)
    camera = script.camera
    with av.open(str(target), "w", format="mp4") as container:
        h264 = "libx264" in av.codecs_available
        codec = "libx264" if h264 else "mpeg4"
        rate = Fraction(script.frame_rate)
        stream = cast("VideoStream", container.add_stream(codec, rate=rate))
        stream.width, stream.height = camera.width_px, camera.height_px
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.gop_size = 2 * script.frame_rate
        if h264:
            stream.options = {"preset": "ultrafast", "crf": str(quality)}
        else:
            stream.bit_rate = 8 * camera.width_px * camera.height_px

        def write(pixels: Pixels) -> None:
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)

        yield write
        for packet in stream.encode(None):
            container.mux(packet)
