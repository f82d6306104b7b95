"""Writes videos of the street to a folder, with their ground truth."""

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from schemas.base import Record
from schemas.records import Granularity
from sources.demonstration.descriptions import describe
from sources.demonstration.people import Chance
from sources.demonstration.poses import Action, Pose, View
from sources.demonstration.street.optics import Camera
from sources.demonstration.street.rendering import render_street
from sources.demonstration.street.themes import Setting, Theme, write_script
from sources.demonstration.street.truth import (
    TRUTH_FILE,
    StreetTruth,
    StreetWorld,
    TruePerson,
    TrueSighting,
    TrueVideo,
    TrueVisit,
    VideoFile,
)
from sources.demonstration.street.walks import Script, list_faults

# Ground truth in MOTChallenge's format, for HOTA, IDF1 and MOTA.

PEDESTRIAN = 1
LEAST_VISIBILITY = 0.1
"""Who can be seen less than this is listed, but not considered (confidence 0)."""


def write_mot_truth(target: Path, sightings: Iterable[TrueSighting]) -> None:
    """Writes one row a sighting: frame (from 1), visit, whole box, considered, class, visibility.

    Who leaves and comes back has another number then.
    """
    ordered = sorted(sightings, key=lambda sighting: (sighting.frame, sighting.visit))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(_row(sighting) for sighting in ordered), encoding="utf-8")


def _row(sighting: TrueSighting) -> str:
    left, top, right, bottom = sighting.box_xyxy
    considered = int(sighting.visible >= LEAST_VISIBILITY)
    box = f"{left},{top},{right - left},{bottom - top}"
    row = f"{sighting.frame + 1},{sighting.visit},{box}"
    return f"{row},{considered},{PEDESTRIAN},{sighting.visible:.4f}\n"


# Writes a world of street videos: H.264 files, MOTChallenge truth, and all that is known of them.
#
# videos/street-01.mp4        the videos
# mot/street-01/gt/gt.txt     who is where, in MOTChallenge's format
# street_truth.json           people, visits, sightings and planted faults

_ANNOTATORS = 2
_YAW = {View.FRONT: 0.0, View.RIGHT: 90.0, View.BACK: 180.0, View.LEFT: 270.0}
_QUALITY, _QUALITY_OF_COPY = 22, 28


class _Task(Record):
    """One video to script, render and write; `copied` makes a second file of the same content."""

    home: Path
    seed: int
    number: int
    setting: Setting
    copied: bool

    @property
    def name(self) -> str:
        """The name of the video."""
        return f"street-{self.number:02}"

    @property
    def name_of_copy(self) -> str:
        """The name of the copy, if there is one."""
        return f"{self.name}-again"

    @property
    def theme(self) -> Theme:
        """What the video is about."""
        themes = tuple(Theme)
        return themes[(self.number - 1) % len(themes)]

    @property
    def first_identity(self) -> int:
        """The first of the video's people; they are numbered on from video to video."""
        return 1 + (self.number - 1) * self.setting.people

    def chance(self, *parts: str | int) -> Chance:
        """A stream of draws for this video and nothing else."""
        return Chance("street", self.seed, self.number, *parts)


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
    """Renders videos of a street with known people, and writes them under `folder`.

    The same arguments give the same frames, however many workers. No person is in two videos, but
    for the copy. What was in the files is overwritten; other files in `folder` are left alone.

    Args:
        folder: made if missing.
        seed: another seed gives other people and other ways.
        videos: how many; their themes (`Theme`) take turns.
        seconds: how long each of them is.
        people: people per video; from 24 on a crowd that is there all the time.
        size_px: width and height, both even.
        frame_rate: frames per second.
        stature_px: how high the nearest people are; left out, 0.58 of the shorter side.
        copy_first: adds a copy of the first video, encoded again.
        workers: processes that render, one video each.

    Raises:
        ValueError: `people` is negative, or a side is odd.
    """
    if people < 0:
        raise ValueError(f"people must be 0 or more; got {people}")
    camera = Camera(*size_px, stature_px or 0.58 * min(size_px))
    setting = Setting(camera, frame_rate, seconds, people)
    tasks = [
        _Task(home=folder, seed=seed, number=n, setting=setting, copied=copy_first and n == 1)
        for n in range(1, videos + 1)
    ]
    truth = StreetTruth(seed=seed, videos=tuple(_run(tasks, workers)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRUTH_FILE).write_text(truth.model_dump_json() + "\n", encoding="utf-8")
    return StreetWorld(
        folder=folder,
        seed=seed,
        videos=tuple(folder / video.file_path for video in truth.videos),
        truth_file=folder / TRUTH_FILE,
    )


def _run(tasks: list[_Task], workers: int) -> Iterator[TrueVideo]:
    """The videos in order, copies behind the first; rendered here or in worker processes."""
    if workers <= 1:
        for task in tasks:
            yield from _write_video(task)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for videos in pool.map(_write_video, tasks):
            yield from videos


def _write_video(task: _Task) -> list[TrueVideo]:
    """Renders one video into its file, and into its copy's where one is wanted."""
    script = write_script(task.setting, task.theme, task.first_identity, task.chance("script"))
    names = [task.name, task.name_of_copy] if task.copied else [task.name]
    sightings: list[TrueSighting] = []
    with ExitStack() as open_files:
        files = [
            open_files.enter_context(_open(task, name, quality))
            for name, quality in zip(names, (_QUALITY, _QUALITY_OF_COPY), strict=False)
        ]
        for frame in render_street(script, task.chance("frames")):
            sightings += frame.sightings
            for file in files:
                file.write(frame.pixels)
    videos = [_truth(task, name, script, sightings) for name in names]
    for video in videos:
        write_mot_truth(task.home / video.mot_path, sightings)
    return videos


def _open(task: _Task, name: str, quality: int) -> VideoFile:
    target = task.home / _file_path(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    camera = task.setting.camera
    size_px = (camera.width_px, camera.height_px)
    return VideoFile(target, size_px, task.setting.frame_rate, quality)


def _file_path(name: str) -> str:
    return f"videos/{name}.mp4"


def _truth(task: _Task, name: str, script: Script, sightings: Sequence[TrueSighting]) -> TrueVideo:
    return TrueVideo(
        name=name,
        theme=script.theme,
        file_path=_file_path(name),
        mot_path=f"mot/{name}/gt/gt.txt",
        width_px=script.camera.width_px,
        height_px=script.camera.height_px,
        frame_rate=script.frame_rate,
        frame_count=script.frame_count,
        people=tuple(_people(task, script, sightings)),
        visits=tuple(_visits(script, sightings)),
        sightings=tuple(sightings),
        faults=list_faults(script, sightings),
        same_content_as=None if name == task.name else task.name,
    )


def _visits(script: Script, sightings: Sequence[TrueSighting]) -> Iterator[TrueVisit]:
    """The visits of which something is seen."""
    frames: dict[int, list[int]] = {}
    for sighting in sightings:
        frames.setdefault(sighting.visit, []).append(sighting.frame)
    for visit in script.visits:
        if visit.number in frames:
            seen = frames[visit.number]
            yield TrueVisit(
                number=visit.number,
                identity=visit.identity,
                first_frame=seen[0],
                last_frame=seen[-1],
            )


def _people(task: _Task, script: Script, sightings: Sequence[TrueSighting]) -> Iterator[TruePerson]:
    """The people who are seen, with a description by each of two annotators."""
    visits = {visit.number: visit for visit in script.visits}
    views: dict[int, Counter[View]] = {}
    for sighting in sightings:
        visit = visits[sighting.visit]
        pose = visit.pose_at(sighting.frame / script.frame_rate, phases=1)
        views.setdefault(visit.identity, Counter())[pose.view] += 1
    for identity, seen in sorted(views.items()):
        pose = Pose(action=Action.WALKING, yaw_degrees=_YAW[seen.most_common(1)[0][0]], phase=0.0)
        chance, person = task.chance("description", identity), script.people[identity]
        yield TruePerson(
            identity=identity,
            person=person,
            descriptions=tuple(
                describe(person, pose, Granularity.FINE, annotator, chance)
                for annotator in range(_ANNOTATORS)
            ),
        )
