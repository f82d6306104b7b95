"""Follows the people of videos: every finished track is stored, whatever happens later."""

import io
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
from PIL import Image
from pydantic import ValidationError

from db.entities import AgentRef, NewEntity, StoredEntity, new_entity
from db.pending import Pending
from db.work import (
    StoredCheckpoint,
    WorkResult,
    drop_finished_checkpoints,
    load_checkpoint,
    register_plan,
    save_checkpoint,
)
from flows.engine.context import RunContext
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stage
from flows.ufine6926.crops import ObservationPool, PoolState, Put, TrackOrigin, with_bodies
from flows.ufine6926.video_import import find_all_videos, rejection_of
from models.detectors import build_detector, deciding_values, pinned, runs_on_gpu
from models.pose import PoseModel, build_pose_model
from models.tracking.association import (
    Boxes,
    TrackedFrame,
    TrackedPerson,
    as_bytes,
    from_bytes,
    overlaps,
)
from models.tracking.detector import Frame, PersonDetector
from models.tracking.tracker import PersonTracker
from schemas import tracking
from schemas.base import Record, digest_of
from schemas.build import VideoSourceSpec
from schemas.errors import IntegrityError
from schemas.proposals import Picture
from schemas.provenance import Role
from schemas.tracking import DetectorSpec, TrackingSettings
from schemas.video import Body, StageSettings, Track, TrackedVideo, Video
from sources.video.finding import FoundVideo, video_digest
from sources.video.problem import VideoProblem, VideoRefusedError
from sources.video.reader import open_video

# Has a pose model look at the crops of tracks.

PoseModelMaker = Callable[[tracking.PoseModelSpec], PoseModel]
Read = Callable[[str, str], bytes]
"""The bytes of a SHA-256 and media type, as `BlobStore.read` gives them."""


def body_measurer(
    read: Read, spec: tracking.PoseModelSpec | None, make: PoseModelMaker = build_pose_model
) -> Callable[[Track], Track]:
    """Gives tracks the body of each observation, whose crops `read` gives.

    Without a pose model tracks stay as they are.
    """
    if spec is None:
        return lambda track: track
    model = make(spec)

    def body(crop: Picture) -> Body:
        with Image.open(io.BytesIO(read(crop.sha256, crop.media_type))) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        whole = np.array([[0, 0, crop.width_px, crop.height_px]], np.float64)
        return model.bodies(pixels, whole)[0]

    return lambda track: with_bodies(
        track, {one.frame: body(one.crop) for one in track.observations}
    )


# What is remembered between two frames is bounded by how many people can still come back, not by
# the length of the video. It can be saved after any frame; a tracker restored from it goes on
# exactly as the one before would have.

STAGE = "track_people"
VERSION = "2"


class _Memory(Record):
    """What is remembered in addition to the tracker's own state."""

    frames: int
    tracks: int
    unseen: int
    pools: tuple[PoolState, ...]


class PeopleFollower:
    """Follows the people of one video; frames are given in order, `end` after the last one.

    Args:
        tracker: a tracker that has seen nothing yet.
        origin: what all tracks of the video share.
        observations: how many observations are kept of each track.
        put: stores the crops.

    Attributes:
        frames: how many frames were followed.
        tracks: how many tracks were finished.
        unseen: how many more never had a box inside the frame, so that there is nothing of them.
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
        """The people in the next frame; tracks that cannot come back after it are finished."""
        tracked = self._tracker.follow(frame)
        for person in tracked.people:
            if person.number not in self._pools:
                self._pools[person.number] = ObservationPool(person.number, self._observations)
            self._pools[person.number].offer(frame, person, _others(person, tracked.boxes_xyxy))
        self.frames += 1
        self._close(self._pools.keys() - tracked.alive)
        return tracked

    def end(self) -> None:
        """Finishes everybody: the video is over."""
        self._close(set(self._pools))

    def take_finished(self) -> tuple[Track, ...]:
        """The tracks that were finished since the last call, in the order in which they were."""
        finished, self._finished = self._finished, []
        return tuple(finished)

    def state(self) -> bytes:
        """All that is remembered. What was finished is not: it is taken before."""
        pools = tuple(pool.state(self._put) for pool in self._pools.values())
        memory = _Memory(frames=self.frames, tracks=self.tracks, unseen=self.unseen, pools=pools)
        parts = {"tracker": self._tracker.state(), "memory": memory.model_dump_json().encode()}
        return as_bytes({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    def restore(self, state: bytes) -> None:
        """Remembers what another follower of the same video did.

        Raises:
            IntegrityError: these are not the bytes of a follower's state.
        """
        parts = from_bytes(state, "tracker", "memory")
        try:
            memory = _Memory.model_validate_json(parts["memory"].tobytes())
        except ValidationError as error:
            what = f"the saved state of a follower cannot be read: {error}"
            raise IntegrityError(what) from error
        self._tracker.restore(parts["tracker"].tobytes())
        self.frames, self.tracks, self.unseen = memory.frames, memory.tracks, memory.unseen
        self._pools = {one.number: ObservationPool.restored(one) for one in memory.pools}

    def _close(self, numbers: frozenset[int] | set[int]) -> None:
        for number in sorted(numbers):
            track = self._pools.pop(number).close(self._put, self._origin)
            if isinstance(track, Track):
                self.tracks += 1
                self._finished.append(track)
            else:
                self.unseen += 1


def _others(person: TrackedPerson, boxes_xyxy: Boxes) -> Boxes:
    """All detections but the person's own: that which overlaps the person's box most."""
    if not len(boxes_xyxy):
        return boxes_xyxy
    return np.delete(boxes_xyxy, overlaps(person.box_xyxy[None], boxes_xyxy)[0].argmax(), axis=0)


# Follows the people of videos: every track that is finished is stored, whatever happens later.
#
# A video is one input. While it is worked on, what was finished and what has to be known to go on
# is committed every few hundred frames, so that a killed run costs the frames since.

DetectorMaker = Callable[[DetectorSpec], PersonDetector]
_FAULTS_OF_THE_WORLD = frozenset(
    ["missing_video", "changed_video", "unreadable_video", "unreachable_video", "empty_file"]
)
"""Why the bytes that were imported cannot be had now; another time they may be."""


@dataclass(frozen=True)
class TrackingPlan:
    """How the videos of one source are tracked, and the entity that says so."""

    settings: TrackingSettings
    entity: NewEntity

    def group(self, video_id: str) -> str:
        """The group of the tracks that the plan makes of a video."""
        return digest_of(video_id, self.entity.id)


def plan_tracking(
    context: RunContext, dataset: str, settings: TrackingSettings, every_nth_frame: int | None
) -> TrackingPlan:
    """The plan by the profile's settings; `every_nth_frame` is what the source says instead.

    How often a checkpoint is made, where the detector's weights lie and on which device it runs
    change no track and are no part of the plan; what the weights are, is.

    Raises:
        ModelError: the weights cannot be read.
    """
    settings = settings.model_copy(update={"detector": pinned(settings.detector)})
    if every_nth_frame is not None:
        settings = settings.model_copy(update={"every_nth_frame": every_nth_frame})
    values = settings.model_dump(mode="json", exclude={"checkpoint_frames", "detector"})
    values["detector"] = deciding_values(settings.detector)
    record = StageSettings(stage=STAGE, version=VERSION, values=values)
    return TrackingPlan(settings, get_or_create_entity(context, record, dataset))


def track_videos(
    context: RunContext,
    dataset: str,
    spec: VideoSourceSpec,
    plan: TrackingPlan,
    make_detector: DetectorMaker = build_detector,
) -> StageReport:
    """Follows the people of all videos that `dataset` took from `spec`.

    A video whose bytes are not to be had now (away, changed, out of reach) is left for a later
    run; one that does not decode is rejected. One that breaks off gives the tracks up to there,
    and a notice.

    Raises:
        MissingExtraError: the extra that the detector needs is not installed.
        ModelError: the detector could not be loaded.
    """
    detector = plan.settings.detector
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": plan.entity.id},
        agents=(AgentRef.of_model(detector.ref),),
        chunk_size=1,
        # The decoder has threads of its own; detectors gain nothing from sharing a GPU.
        workers=1 if runs_on_gpu(detector) else max(1, (os.cpu_count() or 1) // 2),
        independent=True,
        label=f"track {spec.name}",
    )
    tracking = _Tracking(context, dataset, stage, plan, _Files(spec.videos), make_detector)
    report = run_stage(
        context, stage, Pending(dataset, Video.kind, ("proposed",), spec.name), tracking.work
    )
    drop_finished_checkpoints(context.store, tracking.plan_id)
    return report


class _Files:
    """Where the files of a source are now."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._addresses = addresses

    def url_of(self, video: Video) -> str:
        """Where the very bytes are that were imported.

        Raises:
            VideoRefusedError: they cannot be found now.
        """
        urls = self._found.get(video.file_path, ())
        for url in urls:
            if video_digest(url, video.file_path)[0] == video.sha256:
                return url
        if not urls:
            what = "is not where it was imported from"
            raise VideoRefusedError(video.file_path, "missing_video", what)
        what = f"has changed since its import: wanted the digest {video.sha256[:12]}…"
        raise VideoRefusedError(video.file_path, "changed_video", what)

    @cached_property
    def _found(self) -> dict[str, list[str]]:
        urls: dict[str, list[str]] = defaultdict(list)
        for found in find_all_videos(self._addresses):
            if isinstance(found, FoundVideo):
                urls[found.file_path].append(found.url)
        return dict(urls)


@dataclass
class _Tracking:
    """The tracking of the videos of one source."""

    context: RunContext
    dataset: str
    stage: Stage
    plan: TrackingPlan
    files: _Files
    make_detector: DetectorMaker
    idle: list[PersonDetector] = field(default_factory=list)

    @cached_property
    def plan_id(self) -> int:
        """The number of the stage's plan in the store."""
        stage = self.stage
        return register_plan(self.context.store, stage.name, stage.version, stage.configuration)

    def work(self, videos: Sequence[StoredEntity]) -> list[StageResult]:
        """One result per video: its last tracks and its summary, or why it cannot be used."""
        return [self._track(video) for video in videos]

    def _track(self, entity: StoredEntity) -> StageResult:
        video = entity.record(Video)
        try:
            return self._followed(entity, video, self.files.url_of(video))
        except VideoRefusedError as refusal:
            if refusal.reason in _FAULTS_OF_THE_WORLD:
                self.context.progress.say(f"{refusal}; it is left for a later run")
                return Deferred(entity.seq, refusal.reason)
            return WorkResult(entity.seq, rejection=rejection_of(refusal.as_problem(), STAGE))

    def _followed(self, entity: StoredEntity, video: Video, url: str) -> WorkResult:
        """Follows a video from where an earlier run stopped."""
        settings, store = self.plan.settings, self.context.store
        rate = video.facts.frame_rate / settings.every_nth_frame
        with (
            open_video(url, file_path=video.file_path) as reader,
            self._detector() as detector,
        ):
            tracker = PersonTracker(detector, settings.association, rate)
            origin = TrackOrigin(video.source, video.file_path, video.sha256, str(tracker.ref))
            put = self.context.blobs.put
            follower = PeopleFollower(tracker, origin, settings.observations, put)
            start = 0
            if checkpoint := load_checkpoint(store, self.plan_id, entity.seq):
                follower.restore(checkpoint.state)
                start = checkpoint.position
            frames = reader.frames(start, settings.every_nth_frame)
            for last in _stretches(frames, follower, settings.checkpoint_frames):
                self._save(entity, follower, last + 1)
            follower.end()
        tracks = [self._entity(entity, track) for track in follower.take_finished()]
        summary = self._summary(video, follower, reader.problem)
        return WorkResult(entity.seq, entities=(*tracks, self._entity(entity, summary)))

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
    def _detector(self) -> Iterator[PersonDetector]:
        """A detector that no other video has now; workers make one each."""
        try:
            detector = self.idle.pop()
        except IndexError:
            detector = self.make_detector(self.plan.settings.detector)
        try:
            yield detector
        finally:
            self.idle.append(detector)

    def _save(self, entity: StoredEntity, follower: PeopleFollower, position: int) -> None:
        """Commits what is finished and where to go on."""
        activity = self.context.activity(self.plan_id, self.dataset, None, *self.stage.agents)
        tracks = [self._entity(entity, track) for track in follower.take_finished()]
        checkpoint = StoredCheckpoint(position, follower.state())
        save_checkpoint(self.context.store, activity, entity.seq, checkpoint, tracks)

    def _entity(self, video: StoredEntity, record: Track | TrackedVideo) -> NewEntity:
        return new_entity(
            record,
            self.dataset,
            parents=[(Role.TRACKED_IN, video.id), (Role.TRACKED_WITH, self.plan.entity.id)],
            group=self.plan.group(video.id),
        )


def _stretches(frames: Iterator[Frame], follower: PeopleFollower, length: int) -> Iterator[int]:
    """Follows `frames`; gives the number of the last one after each `length` of them."""
    while True:
        last = None
        for count, frame in enumerate(islice(frames, length), start=1):
            follower.follow(frame)
            last = frame.number if count == length else None
        if last is None:
            return
        yield last
