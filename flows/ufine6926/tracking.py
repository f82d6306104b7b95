"""Track the people in videos; every finished track is stored at once."""

import io
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from PIL import Image

from loupe.db.entities import AgentRef, NewEntity, StoredEntity, WorkResult, new_entity
from loupe.db.plugin_agents import plugin_agents
from loupe.db.work import (
    Pending,
    StoredCheckpoint,
    count_pending,
    drop_finished_checkpoints,
    load_checkpoint,
    register_plan,
    save_checkpoint,
)
from loupe.flows.engine.cluster_models import ModelWork
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import put_picture
from loupe.flows.engine.importing import face_agents
from loupe.flows.engine.ray import open_ray
from loupe.flows.engine.report import Deferred, StageReport, StageResult, duration, per_second
from loupe.flows.engine.runner import Stage, run_stage, store_settings
from loupe.flows.ufine6926.crops import ObservationPool, PoolState, Put, TrackOrigin, with_bodies
from loupe.flows.ufine6926.given_detections import GivenDetector, given_detections
from loupe.models.registry import build_detector, build_pose_model, pinned_detector, runs_on_gpu
from loupe.models.tracking.association import (
    Boxes,
    PersonTracker,
    TrackedFrame,
    TrackedPerson,
    as_bytes,
    from_bytes,
    overlaps,
)
from loupe.models.tracking.detector import Detections, Frame, PersonDetector, PoseModel
from loupe.schemas import tracking
from loupe.schemas.base import Record, digest_of
from loupe.schemas.build import VideoSourceSpec
from loupe.schemas.chat import ModelRef
from loupe.schemas.decoders import as_rgb
from loupe.schemas.errors import ServiceError
from loupe.schemas.faces import Faces
from loupe.schemas.limited import LimitExceededError, WorkerEndedError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Picture
from loupe.schemas.tracking import DetectorSpec, GivenDetections, TrackingSettings
from loupe.schemas.video import Body, Track, TrackedVideo, Video
from loupe.schemas.wording import many
from loupe.sources.faces import require_face_model, treatment_of
from loupe.sources.video.finding import FoundVideo, find_all_videos, video_digest
from loupe.sources.video.reader import VideoProblem, VideoRefusedError, open_video

# Measures the crops of tracks with a pose model.

PoseModelMaker = Callable[[tracking.PoseModelSpec], PoseModel]
Read = Callable[[str, str], bytes]
"""Returns the bytes of a SHA-256 and media type, as `BlobStore.read` does."""


def body_measurer(
    read: Read, spec: tracking.PoseModelSpec | None, make: PoseModelMaker = build_pose_model
) -> Callable[[Track], Track]:
    """Return a function that adds bodies to a track's observations; `read` returns crops.

    Without a pose model, tracks are returned unchanged.
    """
    if spec is None:
        return lambda track: track
    model = make(spec)

    def body(crop: Picture) -> Body:
        with Image.open(io.BytesIO(read(crop.sha256, crop.media_type))) as picture:
            return model.body(np.asarray(as_rgb(picture)))

    return lambda track: with_bodies(
        track, {one.frame: body(one.crop) for one in track.observations}
    )


# The state between two frames is bounded by how many people can still come back, not by the length
# of the video. It can be saved after any frame; a tracker restored from it continues exactly as the
# one before would have.

STAGE = "track_people"
VERSION = "3"


class _Memory(Record):
    """The follower's state in addition to the tracker's own state."""

    frames: int
    tracks: int
    unseen: int
    pools: tuple[PoolState, ...]


class PeopleFollower:
    """Follows the people of one video; frames are passed in order, then `end` is called.

    Args:
        tracker: a new tracker.
        origin: what all tracks of the video share.
        observations: how many observations are kept of each track.
        put: stores the crops.

    Attributes:
        frames: how many frames were followed.
        tracks: how many tracks were finished.
        unseen: how many more never had a box inside the frame and are therefore left out.
    """

    def __init__(
        self, tracker: PersonTracker, origin: TrackOrigin, observations: int, put: Put
    ) -> None:
        self._tracker = tracker
        self._origin = origin
        self._observations = observations
        self._put = put
        self._pools: dict[int, ObservationPool] = {}
        self._finished: list[Track] = []
        self.frames = self.tracks = self.unseen = 0

    def follow(self, frame: Frame) -> TrackedFrame:
        """Return the people in the next frame; finish the tracks that cannot come back."""
        tracked = self._tracker.follow(frame)
        for person in tracked.people:
            if person.number not in self._pools:
                self._pools[person.number] = ObservationPool(person.number, self._observations)
            self._pools[person.number].offer(frame, person, _others(person, tracked.boxes_xyxy))
        self.frames += 1
        self._close(self._pools.keys() - tracked.alive)
        return tracked

    def end(self) -> None:
        """Finish all tracks at the end of the video."""
        self._close(set(self._pools))

    def take_finished(self) -> tuple[Track, ...]:
        """Return the tracks finished since the last call, in the order they were finished."""
        finished, self._finished = self._finished, []
        return tuple(finished)

    def state(self) -> bytes:
        """Return the complete state, without finished tracks, which are taken before."""
        pools = tuple(pool.state(self._put) for pool in self._pools.values())
        memory = _Memory(frames=self.frames, tracks=self.tracks, unseen=self.unseen, pools=pools)
        parts = {"tracker": self._tracker.state(), "memory": memory.model_dump_json().encode()}
        return as_bytes({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    def restore(self, state: bytes) -> None:
        """Restore the state of another follower of the same video."""
        parts = from_bytes(state, "tracker", "memory")
        memory = _Memory.model_validate_json(parts["memory"].tobytes())
        self._tracker.restore(parts["tracker"].tobytes())
        self.frames, self.tracks, self.unseen = memory.frames, memory.tracks, memory.unseen
        self._pools = {one.number: ObservationPool.restored(one) for one in memory.pools}

    def _close(self, numbers: frozenset[int] | set[int]) -> None:
        for number in sorted(numbers):
            track = self._pools.pop(number).close(self._put, self._origin)
            if track is None:
                self.unseen += 1
            else:
                self.tracks += 1
                self._finished.append(track)


def _others(person: TrackedPerson, boxes_xyxy: Boxes) -> Boxes:
    """Return all detections except the person's own: the one that overlaps their box most."""
    if not len(boxes_xyxy):
        return boxes_xyxy
    return np.delete(boxes_xyxy, overlaps(person.box_xyxy[None], boxes_xyxy)[0].argmax(), axis=0)


# The step: follows the people of videos and stores every finished track.
#
# A video is one input. While it is processed, the finished tracks and the state needed to continue
# are committed every few hundred frames, so that a killed run loses only the frames since.

_FAULTS_OF_THE_WORLD = frozenset(
    ["missing_video", "changed_video", "unreadable_video", "unreachable_video", "empty_file"]
)
"""Reasons why the imported bytes are temporarily unavailable."""


DetectorMaker = Callable[[DetectorSpec], PersonDetector]
SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True)
class StagePlan(Generic[SettingsT]):
    """The settings of a stage, and the entity that records them."""

    settings: SettingsT
    entity: NewEntity

    def group(self, name: str) -> str:
        """Return the group of what the plan makes of a video or group."""
        return digest_of(name, self.entity.id)


@dataclass(frozen=True)
class TrackingPlan(StagePlan[TrackingSettings]):
    """How the videos of one source are tracked, and what is done to faces in crops.

    The detector is that of the source or profile. A preview reads the first `seconds` only.
    """

    detector: DetectorSpec | GivenDetections
    faces: Faces = "keep"
    seconds: float | None = None


def plan_tracking(
    context: RunContext,
    dataset: str,
    settings: TrackingSettings,
    spec: VideoSourceSpec,
    seconds: float | None = None,
) -> TrackingPlan:
    """Return the plan for the profile's settings and those of a source.

    The checkpoint interval, the location of the detector's weights and the device change no track
    and are not part of the plan; the digest of the weights is.

    Raises:
        ConfigurationError: the source's detections cannot be read.
        ModelError: the weights cannot be read.
    """
    detector: DetectorSpec | GivenDetections
    if spec.detections is None:
        detector = pinned_detector(settings.detector)
        changes: dict[str, Any] = {"detector": detector}
    else:
        detector, changes = given_detections(spec.detections), {}
    if spec.every_nth_frame is not None:
        changes["every_nth_frame"] = spec.every_nth_frame
    if spec.frame_rate is not None:
        changes["frame_rate"] = spec.frame_rate
    settings = settings.model_copy(update=changes)
    values = settings.model_dump(mode="json", exclude={"checkpoint_frames", "detector"})
    # paths and devices do not affect what is found
    paths = {"checkpoint", "device", "folder"}
    values["detector"] = detector.model_dump(mode="json", exclude=paths)
    if treatment := treatment_of(spec.faces):
        require_face_model(spec.faces)
        values["faces"] = treatment.model_dump()
    entity = store_settings(context, dataset, STAGE, VERSION, values)
    return TrackingPlan(settings, entity, detector, spec.faces, seconds)


def track_videos(
    context: RunContext,
    dataset: str,
    spec: VideoSourceSpec,
    plan: TrackingPlan,
    make_detector: DetectorMaker = build_detector,
) -> StageReport:
    """Follow the people of all videos that `dataset` took from `spec`.

    A video whose bytes are unavailable now (missing, changed, unreachable) is left for a later run;
    one that cannot be decoded is rejected. A video that is cut off yields the tracks up to there,
    and a notice.

    Raises:
        MissingExtraError: the extra that the detector needs is not installed.
        ModelError: the detector could not be loaded.
    """
    detector = plan.detector
    pending = Pending(dataset, Video.kind, ("proposed",), spec.name)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": plan.entity.id},
        agents=(
            AgentRef.of_model(detector.ref),
            *plugin_agents("models", detector.ref.name),
            *face_agents(plan.faces),
        ),
        chunk_size=1,
        independent=True,
        label=f"track {spec.name}",
    )
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    with _detecting(
        context, detector, make_detector, count_pending(context.store, plan_id, pending)
    ) as detecting:
        stage = replace(stage, workers=detecting.videos)
        tracking = _Tracking(context, stage, plan, plan_id, spec.videos, detecting.make)
        report = run_stage(
            context, stage, pending, lambda videos: [tracking.result(video) for video in videos]
        )
    drop_finished_checkpoints(context.store, plan_id)
    return report


class _Detecting(NamedTuple):
    """How detectors are made, and how many videos keep them busy."""

    make: DetectorMaker
    videos: int


@contextmanager
def _detecting(
    context: RunContext,
    detector: DetectorSpec | GivenDetections,
    make_detector: DetectorMaker,
    videos: int,
) -> Iterator[_Detecting]:
    """Yield how so many videos are tracked: in this process, or with actors of a cluster."""
    is_local = context.settings.engine != "ray" or not videos
    if is_local or isinstance(detector, GivenDetections):
        # The decoder has threads of its own; detectors gain nothing from sharing a GPU.
        at_once = 1 if runs_on_gpu(detector) else max(1, (os.cpu_count() or 1) // 2)
        yield _Detecting(make_detector, at_once)
        return
    work = ModelWork("detect_people", detector, build_detector, _detected)
    with open_ray(context.settings, work) as actors:
        yield _Detecting(lambda spec: _ClusterDetector(spec, actors.work), actors.threads)


def _detected(detector: PersonDetector, frames: Sequence[Frame]) -> list[Detections]:
    return [detector.detect(frame) for frame in frames]


@dataclass(frozen=True)
class _ClusterDetector:
    """A `PersonDetector` that sends each frame to an actor."""

    spec: DetectorSpec
    work: Callable[[Sequence[Frame]], list[Detections]]

    @property
    def ref(self) -> ModelRef:
        return self.spec.ref

    def detect(self, frame: Frame) -> Detections:
        try:
            (found,) = self.work([frame])
        except (LimitExceededError, WorkerEndedError) as fault:
            raise ServiceError(
                f"{self.ref} cannot find the people in a video: frame {frame.number:,} {fault}"
            ) from fault
        return found


@dataclass
class _Tracking:
    """The tracking of the videos of one source, which are found at its `addresses`."""

    context: RunContext
    stage: Stage
    plan: TrackingPlan
    plan_id: int
    addresses: Sequence[str]
    make_detector: DetectorMaker
    idle: list[PersonDetector] = field(default_factory=list)

    @cached_property
    def _urls(self) -> dict[str, list[str]]:
        """The current locations of the files of the source, by path."""
        urls: dict[str, list[str]] = defaultdict(list)
        for found in find_all_videos(self.addresses):
            if isinstance(found, FoundVideo):
                urls[found.file_path].append(found.url)
        return dict(urls)

    def _url_of(self, video: Video) -> str:
        """Return the location of exactly the bytes that were imported.

        Raises:
            VideoRefusedError: they cannot be found.
        """
        urls = self._urls.get(video.file_path, ())
        for url in urls:
            if video_digest(url, video.file_path)[0] == video.sha256:
                return url
        if not urls:
            what = "is not where it was imported from"
            raise VideoRefusedError(video.file_path, "missing_video", what)
        what = f"has changed since its import: wanted the digest {video.sha256[:12]}…"
        raise VideoRefusedError(video.file_path, "changed_video", what)

    def result(self, entity: StoredEntity) -> StageResult:
        """Return the result of a video: its last tracks and summary, or why it cannot be used."""
        video = entity.record(Video)
        try:
            return self._followed(entity, video, self._url_of(video))
        except VideoRefusedError as refusal:
            if refusal.reason in _FAULTS_OF_THE_WORLD:
                self.context.progress.say(f"{refusal}; it is left for a later run")
                return Deferred(entity.seq, refusal.reason)
            return WorkResult(entity.seq, rejection=refusal.as_problem().as_rejection(STAGE))

    def _followed(self, entity: StoredEntity, video: Video, url: str) -> WorkResult:
        """Follow a video from where an earlier run stopped."""
        settings, store = self.plan.settings, self.context.store
        with (
            open_video(url, file_path=video.file_path, frame_rate=settings.frame_rate) as reader,
            self._detector(video) as detector,
        ):
            rate = reader.facts.frame_rate / settings.every_nth_frame
            tracker = PersonTracker(detector, settings.association, rate)
            origin = TrackOrigin(video.source, video.file_path, video.sha256, str(tracker.ref))
            follower = PeopleFollower(tracker, origin, settings.observations, self._put)
            start = 0
            if checkpoint := load_checkpoint(store, self.plan_id, entity.seq):
                follower.restore(checkpoint.state)
                start = checkpoint.position
            last = math.inf if self.plan.seconds is None else self.plan.seconds
            frames = takewhile(
                lambda one: one.time_seconds < last,
                reader.frames(start, settings.every_nth_frame),
            )
            shown = _Followed(video, follower, settings.every_nth_frame)
            with self.context.progress.waits.on(shown.__str__):
                for last in _follow_in_stretches(frames, follower, settings.checkpoint_frames):
                    self._save(entity, follower, last + 1)
            follower.end()
        tracks = [self._entity(entity, track) for track in follower.take_finished()]
        summary = self._summary(video, follower, reader.problem)
        return WorkResult(entity.seq, entities=(*tracks, self._entity(entity, summary)))

    def _put(self, data: bytes, crop: Picture) -> Picture:
        """Store a crop, after what is to be done to its faces."""
        size = (crop.width_px, crop.height_px)
        faces = self.plan.faces
        stored = put_picture(self.context.blobs, data, crop.media_type, size, faces)
        return crop.model_copy(update={"sha256": stored.sha256, "faces": stored.faces})

    def _summary(
        self, video: Video, follower: PeopleFollower, problem: VideoProblem | None
    ) -> TrackedVideo:
        notices = [problem.detail] if problem else []
        if follower.unseen:
            tracks = "track" if follower.unseen == 1 else "tracks"
            notices.append(
                f"video {video.file_path!r} has {follower.unseen} {tracks} "
                f"that never had a box inside the frame"
            )
        for notice in notices:
            self.context.progress.say(notice)
        return TrackedVideo(
            source=video.source,
            video=video.file_path,
            video_sha256=video.sha256,
            frames=follower.frames,
            tracks=follower.tracks,
            notices=tuple(notices),
        )

    @contextmanager
    def _detector(self, video: Video) -> Iterator[PersonDetector]:
        """Take a free detector, or make one; each is used by one video at a time."""
        spec = self.plan.detector
        if isinstance(spec, GivenDetections):
            yield self._given(spec, video)
            return
        try:
            detector = self.idle.pop()
        except IndexError:
            detector = self.make_detector(spec)
        try:
            yield detector
        finally:
            self.idle.append(detector)

    def _given(self, spec: GivenDetections, video: Video) -> GivenDetector:
        detector = GivenDetector(spec, video.file_path)
        if bad := detector.bad_lines:
            self.context.progress.say(
                f"{many(len(bad), 'line')} of the detections cannot be used: {bad[0].detail}"
            )
        return detector

    def _save(self, entity: StoredEntity, follower: PeopleFollower, position: int) -> None:
        """Commit the finished tracks and the state to continue from."""
        activity = self.context.activity(self.plan_id, self.stage.dataset, None, *self.stage.agents)
        tracks = [self._entity(entity, track) for track in follower.take_finished()]
        checkpoint = StoredCheckpoint(position, follower.state())
        save_checkpoint(self.context.store, activity, entity.seq, checkpoint, tracks)

    def _entity(self, video: StoredEntity, record: Track | TrackedVideo) -> NewEntity:
        return new_entity(
            record,
            self.stage.dataset,
            parents=[(Role.TRACKED_IN, video.id), (Role.TRACKED_WITH, self.plan.entity.id)],
            group=self.plan.group(video.id),
        )


class _Followed:
    """How far a video is followed, in words."""

    def __init__(self, video: Video, follower: PeopleFollower, every_nth_frame: int) -> None:
        self._name = video.file_path
        self._total = (video.facts.frame_count or 0) // every_nth_frame
        self._follower = follower
        self._before = follower.frames  # in earlier runs
        self._started = time.monotonic()

    def __str__(self) -> str:
        """The video, frames, rate and time left."""
        frames = self._follower.frames
        rate = (frames - self._before) / max(time.monotonic() - self._started, 1e-9)
        said = f"for {self._name}: {frames:,}"
        if self._total:
            said += f" of {self._total:,}"
        said += f" frames, {per_second(rate)}"
        if rate and self._total > frames:
            said += f", {duration((self._total - frames) / rate)} left"
        return said


def _follow_in_stretches(
    frames: Iterator[Frame], follower: PeopleFollower, length: int
) -> Iterator[int]:
    """Follow `frames`; yield the number of the last one after each `length` of them."""
    while True:
        last = None
        for count, frame in enumerate(islice(frames, length), start=1):
            follower.follow(frame)
            last = frame.number if count == length else None
        if last is None:
            return
        yield last
