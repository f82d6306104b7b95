"""`loupe track`: track one video, or given detections, into a folder."""

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from loupe.flows.engine.report import Progress, StageReport
from loupe.flows.ufine6926.crops import TrackOrigin
from loupe.flows.ufine6926.given_detections import NOBODY, as_detections
from loupe.flows.ufine6926.noise_filter import filter_track
from loupe.flows.ufine6926.tracking import DetectorMaker, PeopleFollower, body_measurer
from loupe.models.registry import build_detector
from loupe.models.tracking.association import Association, PersonTracker
from loupe.models.tracking.detector import PersonDetector
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import UsageError
from loupe.schemas.faces import Faces
from loupe.schemas.profile import Profile
from loupe.schemas.records import Picture
from loupe.schemas.tracking import AssociationSettings
from loupe.schemas.video import Finding, Observation, Track
from loupe.schemas.wording import storable
from loupe.sources.faces import require_face_model, treat_faces
from loupe.sources.motchallenge import BadLine, Boxes, Result, read_boxes, write_results
from loupe.sources.video.finding import (
    FoundVideo,
    InspectedVideo,
    find_videos,
    inspect_video,
    unknown_rate,
)
from loupe.sources.video.reader import VideoProblem, VideoReader, open_video

# Tracking over detections from a file, without a video or detector.

_RESULT_FILE = "result.txt"


@dataclass(frozen=True)
class TrackedDetections:
    """The tracks of a file of detections: where they were written, and their counts.

    `score_range` is the lowest and highest score if these are not shares.
    """

    result: Path
    detections: int
    frames: int
    boxes: int
    people: int
    bad_lines: tuple[BadLine, ...]
    score_range: tuple[float, float] | None
    greatest_score: float

    def as_json(self) -> dict[str, Any]:
        """Return the record for `--json`."""
        lines = [line._asdict() for line in self.bad_lines]
        return {**vars(self), "result": str(self.result), "bad_lines": lines}


def track_detections(
    path: Path,
    out: Path,
    settings: AssociationSettings,
    frame_rate: float,
    score_threshold: float | None = None,
) -> TrackedDetections:
    """Follow the people of a MOTChallenge file into `result.txt` in the folder `out`.

    The thresholds of `settings` are for scores that are shares. Of other scores it is not known
    which are uncertain, so that all detections are certain. With `score_threshold`, on any scale,
    exactly the detections above it are.

    Raises:
        FormatError: the file cannot be read or is of another format.
        UsageError: the frame rate or threshold is invalid, or the result cannot be written.
    """
    if score_threshold is not None and not math.isfinite(score_threshold):
        raise UsageError(f"a score threshold must be a number; got {score_threshold!r}")
    detections, bad_lines = read_boxes(path)
    score_range = None
    if not detections.are_shares:
        score_range = float(detections.scores.min()), float(detections.scores.max())
    if score_threshold is None and score_range:
        score_threshold = -math.inf
    if score_threshold is not None:
        names = ("confidence_threshold", "second_chance_threshold")
        settings = settings.model_copy(update=dict.fromkeys(names, score_threshold))
    association = Association(settings, frame_rate)
    results = list(follow(association, detections))
    write_results(out / _RESULT_FILE, results)
    return TrackedDetections(
        result=out / _RESULT_FILE,
        detections=len(detections.frames),
        frames=len(np.unique(detections.frames)),
        boxes=len(results),
        people=len({result.number for result in results}),
        bad_lines=tuple(bad_lines),
        score_range=score_range,
        greatest_score=float(detections.scores.max(initial=0.0)),
    )


def follow(association: Association, boxes: Boxes) -> Iterator[Result]:
    """Yield the people of all frames, in order.

    The video is taken to begin with the first frame that has boxes. Later frames without boxes
    count as seen and empty; they are skipped once no track can come back.
    """
    expected = None
    for frame, found in boxes.by_frame():
        while expected is not None and expected < frame and association.alive:
            association.update(NOBODY)
            expected += 1
        for person in association.update(as_detections(found)):
            yield Result(frame, person.number, person.box_xyxy, person.score)
        expected = frame + 1


# Tracks one video into a folder: crops, filtered tracklets, every box. It needs no store.

_SHOWN_VIDEOS = 3
_TRACKLETS_FILE = "tracklets.json"
CROPS_FOLDER = "crops"
_CROP_NAME = re.compile(r"\d{4,}-\d{6,}\.jpg")


@dataclass
class VideoTracks:
    """The tracks of a video: where they were written, and their counts.

    `rejected` are sentences on the tracks of which the filter left nothing, `unseen` counts those
    that never had a box inside the frame. `problem` says why the video ended early, or which frames
    are missing; `notice` what was assumed.
    """

    folder: Path
    frames: int = 0
    boxes: int = 0
    tracks: int = 0
    tracklets: int = 0
    unseen: int = 0
    rejected: list[str] = field(default_factory=list)
    seconds: float = 0.0
    problem: str | None = None
    notice: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the record for `--json`."""
        return {**vars(self), "folder": str(self.folder), "seconds": round(self.seconds, 3)}


def track_video(
    address: str,
    out: Path,
    profile: Profile,
    progress: Progress,
    make_detector: DetectorMaker = build_detector,
    faces: Faces = "keep",
) -> VideoTracks:
    """Follow the people of the one video at `address`; write what the filter keeps to `out`.

    - `crops/TRACK-FRAME.jpg`: the crops of all tracklets, after what is to be done to `faces`;
    - `tracklets.json`: the tracklets with frames, times, boxes, scores and crops, and the tracks
      that were rejected, each with the reason;
    - `result.txt`: every box of every frame, in MOTChallenge's format.

    Crops of an earlier run are removed first.

    Memory does not grow with the length of the video, except for the lines of `tracklets.json`.

    Raises:
        FormatError: the file cannot be used as a video.
        UsageError: `out` cannot be written to.
        MissingExtraError: an extra that a model needs is not installed: the detector, the pose
            model, or the one that finds faces.
        ModelError: the detector or the pose model could not be loaded.
    """
    started = time.perf_counter()
    found = _only_video(address)
    require_face_model(faces)
    detector = make_detector(profile.tracking.detector)  # if it is missing, nothing is read
    inspected = inspect_video(found)
    if isinstance(inspected, VideoProblem):
        raise UsageError(inspected.detail)
    _prepare(out)
    path, rate = inspected.file_path, profile.tracking.frame_rate
    with open_video(inspected.url, file_path=path, frame_rate=rate) as reader:
        report = _Writing(inspected, out, profile, reader, detector, faces).run(progress)
    if rate is None and not inspected.facts.has_stated_rate:
        report.notice = unknown_rate(inspected, "--frame-rate")
    report.seconds = time.perf_counter() - started
    return report


def _only_video(address: str) -> FoundVideo:
    """Return the one video that an address names.

    Raises:
        UsageError: it names none, or several.
    """
    path = Path(address)
    if path.is_file():  # whatever its name
        return FoundVideo(file_path=path.name, url=address)
    found = list(find_videos(address))
    videos = [one for one in found if isinstance(one, FoundVideo)]
    if len(videos) > 1:
        names = ", ".join(one.file_path for one in videos[:_SHOWN_VIDEOS])
        raise UsageError(f"{address} names {len(videos):,} videos; give one, such as {names}")
    if videos:
        return videos[0]
    details = [one.detail for one in found if isinstance(one, VideoProblem)]
    raise UsageError(details[0])


def _prepare(out: Path) -> None:
    """Make the folders and remove the results of an earlier run."""
    crops = out / CROPS_FOLDER
    try:
        crops.mkdir(parents=True, exist_ok=True)
        (out / _TRACKLETS_FILE).unlink(missing_ok=True)
        for crop in crops.iterdir():
            if _CROP_NAME.fullmatch(crop.name):
                crop.unlink()
    except OSError as fault:
        raise UsageError(f"{out} cannot be written to: {fault.strerror}") from fault


class _Writing:
    """One video being written into a folder."""

    def __init__(
        self,
        video: InspectedVideo,
        out: Path,
        profile: Profile,
        reader: VideoReader,
        detector: PersonDetector,
        faces: Faces,
    ) -> None:
        self._faces: Faces = faces
        settings, self._filter = profile.tracking, profile.filter
        rate = reader.facts.frame_rate / settings.every_nth_frame
        tracker = PersonTracker(detector, settings.association, rate)
        folder = PurePosixPath(video.url).parent.name or "video"
        name = storable(video.file_path)
        self._origin = TrackOrigin(folder, name, video.sha256, str(tracker.ref))
        self._follower = PeopleFollower(tracker, self._origin, settings.observations, self._put)
        self._reader = reader
        self._every = settings.every_nth_frame
        self._crops: dict[str, bytes] = {}
        self._with_bodies = body_measurer(
            lambda sha256, _: self._crops[sha256], self._filter.pose_model
        )
        self._tracklets: list[dict[str, Any]] = []
        self._rejected: list[dict[str, Any]] = []
        self._report = VideoTracks(out)

    def run(self, progress: Progress) -> VideoTracks:
        """Follow, filter and write."""
        report, follower = self._report, self._follower
        write_results(report.folder / _RESULT_FILE, self._results(progress))
        follower.end()
        self._take_finished()
        report.frames, report.tracks = follower.frames, follower.tracks
        report.tracklets, report.unseen = len(self._tracklets), follower.unseen
        report.problem = self._reader.problem.detail if self._reader.problem else None
        document = {
            "video": self._origin.video,
            "video_sha256": self._origin.video_sha256,
            "author": self._origin.author,
            "frames": report.frames,
            "problem": report.problem,
            "unseen": report.unseen,
            "tracklets": self._tracklets,
            "rejected": self._rejected,
        }
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        _write(report.folder / _TRACKLETS_FILE, text.encode())
        return report

    def _results(self, progress: Progress) -> Iterator[Result]:
        """Follow the frames and yield the box of each person, with the progress shown."""
        total = self._reader.facts.frame_count
        stage = StageReport(f"track {self._origin.video}")
        with progress.shown(stage, total // self._every if total else None):
            for frame in self._reader.frames(every=self._every):
                for person in self._follower.follow(frame).people:
                    self._report.boxes += 1
                    yield Result(frame.number + 1, person.number, person.box_xyxy, person.score)
                self._take_finished()
                stage.done += 1
                progress.advance(stage.stage, 1)

    def _put(self, data: bytes, crop: Picture) -> Picture:
        """Hold a crop until its track is filtered, after what is to be done to its faces."""
        treated = treat_faces(self._faces, data)
        stored = crop.model_copy(update={"sha256": sha256_of(treated.data), "faces": treated.faces})
        self._crops[stored.sha256] = treated.data
        return stored

    def _take_finished(self) -> None:
        for track in map(self._with_bodies, self._follower.take_finished()):
            report, rejection = filter_track(track, self._filter)
            if rejection is not None:
                self._report.rejected.append(rejection.detail)
                self._rejected.append(
                    {
                        "track": track.number,
                        **track.model_dump(include={"first_frame", "last_frame"}),
                        **rejection.model_dump(include={"reason", "detail"}),
                    }
                )
            for frames in report.parts:
                kept = [one for one in track.observations if one.frame in frames]
                self._tracklets.append(self._tracklet_line(track, kept, report.findings))
        self._crops.clear()

    def _tracklet_line(
        self, track: Track, kept: Iterable[Observation], findings: Iterable[Finding]
    ) -> dict[str, Any]:
        suspicions: dict[int | None, list[str]] = defaultdict(list)
        for finding in findings:
            if finding.outcome == "suspected":
                suspicions[finding.frame].append(finding.rule)
        frames = []
        for one in kept:
            crop = f"{CROPS_FOLDER}/{track.number:04}-{one.frame:06}.jpg"
            _write(self._report.folder / crop, self._crops[one.crop.sha256])
            frames.append(
                {
                    **one.model_dump(include={"frame", "time_seconds", "box_xyxy", "score"}),
                    "crop": crop,
                    "suspicions": suspicions[one.frame],
                }
            )
        return {"track": track.number, "frames": frames}


def _write(path: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_bytes(data)
    except OSError as fault:
        raise UsageError(f"{path} cannot be written: {fault.strerror}") from fault
