"""Import and tracking of videos, with interruptions and repeated runs."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from PIL import Image

from loupe.db.blob_check import BlobCheck
from loupe.db.entities import StoredEntity, find, parents_of
from loupe.db.tables import Checkpoint
from loupe.demo.worlds.street import StreetWorld
from loupe.flows.blob_repair import repair_blobs
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.video_import import import_videos, take_videos
from loupe.flows.ufine6926.noise_filter import filter_tracks, plan_filter, propose
from loupe.flows.ufine6926.tracking import plan_tracking, track_videos
from loupe.models.tracking.detector import Detections, Frame, PersonDetector
from loupe.schemas.build import VideoSourceSpec
from loupe.schemas.errors import ModelError
from loupe.schemas.provenance import Role
from loupe.schemas.tracking import DetectorSpec, FairMOTDetector, FilterSettings, TrackingSettings
from loupe.schemas.video import Track, TrackedVideo, Video
from loupe.sources.video.reader import open_video
from tests.db.samples import row_count
from tests.flows.runs import copied_run, new_run
from tests.flows.street import KnownStreet

DATASET = "walkers"
SETTINGS = TrackingSettings(checkpoint_frames=9, observations=6)


class PowerCutError(Exception):
    """An error that no code catches."""


class ListeningDetector:
    """A detector that notes what the run says it waits for."""

    def __init__(self, inner: PersonDetector, run: RunContext, said: list[str]) -> None:
        self._inner = inner
        self._run = run
        self._said = said
        self.ref = inner.ref

    def detect(self, frame: Frame) -> Detections:
        self._said.append(str(self._run.progress.waits))
        return self._inner.detect(frame)


class FailingDetector:
    """A detector that fails after `frames` frames."""

    def __init__(self, inner: PersonDetector, frames: int) -> None:
        self._inner = inner
        self._left = frames
        self.ref = inner.ref

    def detect(self, frame: Frame) -> Detections:
        self._left -= 1
        if self._left < 0:
            raise PowerCutError
        return self._inner.detect(frame)


@pytest.fixture
def videos(street: StreetWorld, tmp_path: Path) -> Path:
    """A separate folder with the videos of the street."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for video in street.videos:
        shutil.copy(video, folder)
    return folder


@pytest.fixture(scope="module")
def tracked(
    street: StreetWorld, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunContext]:
    """A run in which both videos are tracked, read-only."""
    known = KnownStreet(street)
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("tracked")) as run:
        report = track(run, spec_of(*street.videos), known)
        assert (report.done, report.rejected) == (2, {})
        assert known.detectors <= max(1, (os.cpu_count() or 1) // 2), "one detector per worker"
        yield run


@pytest.fixture
def copied(tracked: RunContext, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of the tracked run that tests may change."""
    with copied_run(tracked, tmp_path / "copied") as run:
        yield run


def spec_of(*addresses: Path | str, every: int | None = None) -> VideoSourceSpec:
    return VideoSourceSpec(
        name="street", videos=tuple(map(str, addresses)), licence="CC0-1.0", every_nth_frame=every
    )


def track(
    run: RunContext,
    spec: VideoSourceSpec,
    known: KnownStreet,
    settings: TrackingSettings = SETTINGS,
    fail_after: int | None = None,
) -> StageReport:
    def maker(detector: DetectorSpec) -> PersonDetector:
        inner = known.detector(detector)
        return inner if fail_after is None else FailingDetector(inner, fail_after)

    source, _ = import_videos(run, spec)
    take_videos(run, DATASET, source)
    plan = plan_tracking(run, DATASET, settings, spec)
    return track_videos(run, DATASET, spec, plan, maker)


def tracks(run: RunContext) -> list[StoredEntity]:
    return list(find(run.store, DATASET, Track.kind))


def summaries(run: RunContext) -> dict[str, TrackedVideo]:
    found = (one.record(TrackedVideo) for one in find(run.store, DATASET, TrackedVideo.kind))
    return {one.video: one for one in found}


def test_all_people_on_the_street_are_tracked(
    tracked: RunContext, known_street: KnownStreet
) -> None:
    entities = tracks(tracked)
    found = [one.record(Track) for one in entities]
    people = sum(len({*video.identities.values()}) for video in known_street.videos)
    assert people <= len(found) <= people + 2
    assert {one.author for one in found} == {"truth@1"}
    for one in found:
        assert len(one.observations) <= SETTINGS.observations
        for observation in one.observations:
            crop = observation.crop
            assert tracked.blobs.read(crop.sha256, crop.media_type)
    assert {one.frames for one in summaries(tracked).values()} == {50}
    assert sum(one.tracks for one in summaries(tracked).values()) == len(found)
    parents = parents_of(tracked.store, [one.id for one in entities], Role.TRACKED_IN)
    videos = {one.id: one.record(Video) for one in find(tracked.store, DATASET, Video.kind)}
    for entity in entities:
        (video,) = parents[entity.id]
        assert videos[video].sha256 == entity.record(Track).video_sha256


def test_a_second_run_processes_no_frame_for_any_checkpoint_interval(
    copied: RunContext, street: StreetWorld, known_street: KnownStreet
) -> None:
    before = tracks(copied)
    for checkpoint_frames in (SETTINGS.checkpoint_frames, 1000):
        settings = SETTINGS.model_copy(update={"checkpoint_frames": checkpoint_frames})
        report = track(copied, spec_of(*street.videos), known_street, settings)
        assert (report.done, known_street.frames_seen, tracks(copied)) == (0, 0, before)


def test_an_interrupted_run_continues_and_gives_the_same_tracks(
    tracked: RunContext,
    street: StreetWorld,
    known_street: KnownStreet,
    migrated_sqlite: Path,
    tmp_path: Path,
) -> None:
    spec = spec_of(street.videos[0])
    name = street.videos[0].name
    wanted = {one.id for one in tracks(tracked) if one.record(Track).video == name}
    for frames in (4, 9, 30, 49):
        home = tmp_path / str(frames)
        home.mkdir()
        with new_run(migrated_sqlite, home) as run:
            with pytest.raises(PowerCutError):
                track(run, spec, known_street, fail_after=frames)
            seen = known_street.frames_seen
            track(run, spec, known_street)
            checkpoint = frames - frames % SETTINGS.checkpoint_frames
            assert known_street.frames_seen - seen == 50 - checkpoint, frames
            assert {one.id for one in tracks(run)} == wanted, frames
            assert summaries(run) == {name: summaries(tracked)[name]}
            assert row_count(run.store, Checkpoint) == 0


def test_the_plan_depends_on_the_weights_but_not_on_their_path_or_device(
    run: RunContext, tmp_path: Path
) -> None:
    def plan(name: str, device: str = "cpu") -> str:
        detector = FairMOTDetector(provider="fairmot", checkpoint=tmp_path / name, device=device)
        settings = SETTINGS.model_copy(update={"detector": detector})
        return plan_tracking(run, DATASET, settings, spec_of("walk")).entity.id

    for name, weights in (("one", b"some"), ("copy", b"some"), ("other", b"more")):
        (tmp_path / name).write_bytes(weights)
    first = plan("one")
    assert plan("copy") == plan("one", "cuda:1") == first
    assert plan("other") != first
    (tmp_path / "one").write_bytes(b"something else")
    assert plan("one") != first
    with pytest.raises(ModelError, match="missing' cannot be read: No such file"):
        plan("missing")


def test_only_every_nth_frame_of_a_source_is_processed(
    run: RunContext, videos: Path, known_street: KnownStreet
) -> None:
    track(run, spec_of(videos, every=5), known_street)
    assert {one.frames for one in summaries(run).values()} == {10}
    for one in tracks(run):
        assert all(seen.frame % 5 == 0 for seen in one.record(Track).observations)


def test_a_truncated_video_gives_its_tracks_and_a_notice(
    run: RunContext, videos: Path, known_street: KnownStreet
) -> None:
    path = cut_short(videos / "street-01.mp4", 0.6)
    assert track(run, spec_of(path), known_street).done == 1
    (summary,) = summaries(run).values()
    assert 0 < summary.frames < 50
    assert summary.tracks == len(tracks(run)) > 0
    (notice,) = summary.notices
    assert path.name in notice


def test_an_unavailable_video_is_deferred_to_a_later_run(
    run: RunContext, videos: Path, known_street: KnownStreet
) -> None:
    """The first video is unavailable, and the second is tracked nevertheless."""
    spec = spec_of(videos)
    source, _ = import_videos(run, spec)
    take_videos(run, DATASET, source)
    first = videos / "street-01.mp4"
    kept = first.read_bytes()
    plan = plan_tracking(run, DATASET, SETTINGS, spec)

    def track_again() -> tuple[int, dict[str, int], dict[str, int]]:
        report = track_videos(run, DATASET, spec, plan, known_street.detector)
        return report.done, dict(report.rejected), dict(report.deferred)

    first.unlink()
    assert track_again() == (1, {}, {"missing_video": 1})
    assert summaries(run).keys() == {"street-02.mp4"}
    for fault, data in (("changed_video", kept[:-1]), ("empty_file", b"")):
        first.write_bytes(data)
        assert track_again() == (0, {}, {fault: 1})

    filtering = plan_filter(run, DATASET, FilterSettings(pose_model=None))
    filter_tracks(run, DATASET, filtering)
    proposed = propose(run, DATASET, spec, plan, filtering)
    assert (proposed.done, proposed.deferred.total()) == (1, 0)

    first.write_bytes(kept)
    assert track_again() == (1, {}, {})
    waiting = propose(run, DATASET, spec, plan, filtering)
    assert (waiting.done, dict(waiting.deferred)) == (0, {"not_filtered": 1})
    filter_tracks(run, DATASET, filtering)
    assert propose(run, DATASET, spec, plan, filtering).done == 1


def test_lost_crops_are_restored_from_their_video(copied: RunContext, videos: Path) -> None:
    run = copied
    folder = Path(run.settings.blobs_url)
    lost = {path: path.read_bytes() for path in folder.rglob("*.jpg")}
    for path in lost:
        path.unlink()
    with BlobCheck(run.store, run.blobs) as check:
        named = check.run()
        assert sum(1 for _ in repair_blobs(run, check)) == 0  # the videos are elsewhere
        assert sum(1 for _ in repair_blobs(run, check, [videos])) == named > 0
        assert list(check.faulty()) == []
    again = {path: path.read_bytes() for path in folder.rglob("*.jpg")}
    assert len(again) == named
    assert again.items() <= lost.items()


def test_an_image_sequence_gives_the_crops_of_its_video_and_continues(
    run: RunContext,
    tracked: RunContext,
    street: StreetWorld,
    known_street: KnownStreet,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "walk" / "img1"
    folder.mkdir(parents=True)
    with open_video(street.videos[0]) as reader:
        for frame in reader.frames():
            Image.fromarray(frame.pixels).save(folder / f"{frame.number + 1:06}.png")
    spec = VideoSourceSpec(name="street", videos=(str(folder),), licence="CC0-1.0", frame_rate=10)
    with pytest.raises(PowerCutError):
        track(run, spec, known_street, fail_after=30)
    assert track(run, spec, known_street).done == 1

    def seen(context: RunContext) -> set[tuple[int, float, str]]:
        found = [one.record(Track) for one in tracks(context)]
        return {
            (one.frame, one.time_seconds, one.crop.sha256)
            for track in found
            if track.video in {street.videos[0].name, "img1/%d.png"}
            for one in track.observations
        }

    assert seen(run) == seen(tracked)
    for path in Path(run.settings.blobs_url).rglob("*.jpg"):
        path.unlink()
    with BlobCheck(run.store, run.blobs) as check:
        check.run()
        assert sum(1 for _ in repair_blobs(run, check, [tmp_path / "walk"])) > 0
        assert list(check.faulty()) == []

    (folder / "000007.png").write_bytes((folder / "000008.png").read_bytes())
    plan = plan_tracking(run, DATASET, SETTINGS, spec.model_copy(update={"frame_rate": 5}))
    report = track_videos(run, DATASET, spec, plan, known_street.detector)
    assert dict(report.deferred) == {"changed_video": 1}


def test_a_copy_added_later_replaces_no_video(run: RunContext, videos: Path) -> None:
    source, _ = import_videos(run, spec_of(videos))
    take_videos(run, DATASET, source)
    shutil.copy(videos / "street-01.mp4", videos / "a-copy.mp4")
    import_videos(run, spec_of(videos))
    report = take_videos(run, DATASET, source)
    assert (report.done, dict(report.rejected)) == (0, {"duplicate_video": 1})
    assert len(list(find(run.store, DATASET, Video.kind))) == 2


def cut_short(path: Path, share: float) -> Path:
    """Copy the video to another container and keep only the first `share` of its bytes."""
    short = path.with_suffix(".mkv")
    with av.open(str(path)) as whole, av.open(str(short), "w") as copy:
        stream = copy.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                copy.mux(packet)
    short.write_bytes(short.read_bytes()[: int(share * short.stat().st_size)])
    return short


def test_progress_names_video_frames_and_rate(
    migrated_sqlite: Path, tmp_path: Path, street: StreetWorld
) -> None:
    said: list[str] = []
    known = KnownStreet(street)
    with new_run(migrated_sqlite, tmp_path) as run:
        spec = spec_of(street.videos[0])
        source, _ = import_videos(run, spec)
        take_videos(run, DATASET, source)
        plan = plan_tracking(run, DATASET, SETTINGS, spec)
        track_videos(
            run, DATASET, spec, plan, lambda one: ListeningDetector(known.detector(one), run, said)
        )
        assert str(run.progress.waits) == ""
    name, total = street.videos[0].name, len(said)
    assert re.fullmatch(
        rf"waiting for {name}: 9 of {total} frames, [\d.,]+ per \w+, \d+ s left", said[9]
    )
