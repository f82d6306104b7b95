"""Tracking one video into a folder, without a store."""

import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from loupe.demo.worlds.street import StreetWorld
from loupe.flows.engine.report import Progress, StageReport
from loupe.flows.ufine6926.video_tracks import VideoTracks, track_video
from loupe.models.profiles.loader import load_profile
from loupe.models.tracking.detector import PersonDetector
from loupe.schemas.errors import MissingExtraError, UsageError
from loupe.schemas.profile import Profile
from loupe.schemas.tracking import DetectorSpec, FilterSettings, TrackingSettings
from loupe.sources.motchallenge import read_boxes
from tests.flows.street import KnownStreet

LENIENT = FilterSettings(
    least_height_px=24, least_width_px=8, least_sharpness=0, darkest=5, brightest=250
)


class CountingProgress(Progress):
    """Records the reported frames and messages."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.ended: list[StageReport] = []
        self.messages: list[str] = []

    def start(self, stage: str, total: int | None) -> None:
        self.total = total

    def end(self, report: StageReport) -> None:
        self.ended.append(report)

    def say(self, sentence: str) -> None:
        self.messages.append(sentence)


def profile(settings: FilterSettings = LENIENT) -> Profile:
    tracking = TrackingSettings(observations=8)
    return load_profile("builtin").model_copy(update={"tracking": tracking, "filter": settings})


@pytest.fixture(scope="module")
def tracked(street: StreetWorld, tmp_path_factory: pytest.TempPathFactory) -> VideoTracks:
    """A video tracked into a folder, read-only."""
    progress = CountingProgress()
    out = tmp_path_factory.mktemp("tracked") / "out"
    detector = KnownStreet(street).detector
    found = track_video(str(street.videos[0]), out, profile(), progress, detector)
    assert progress.total == 50
    assert [one.done for one in progress.ended] == [50]
    return found


def test_every_box_is_in_the_result(tracked: VideoTracks) -> None:
    boxes, bad = read_boxes(tracked.folder / "result.txt")
    assert bad == []
    assert len(boxes.frames) == tracked.boxes > 50
    assert boxes.frames.min() >= 1
    assert boxes.frames.max() <= tracked.frames == 50


def test_tracklets_name_exactly_the_crops_in_the_folder(tracked: VideoTracks) -> None:
    document = json.loads((tracked.folder / "tracklets.json").read_text())
    assert len(document["tracklets"]) == tracked.tracklets > 0
    assert len(document["rejected"]) == len(tracked.rejected)
    named = {frame["crop"] for one in document["tracklets"] for frame in one["frames"]}
    files = {f"crops/{path.name}" for path in (tracked.folder / "crops").iterdir()}
    assert named == files
    for tracklet in document["tracklets"]:
        for frame in tracklet["frames"]:
            left, top, right, bottom = frame["box_xyxy"]
            with Image.open(tracked.folder / frame["crop"]) as crop:
                assert crop.width == pytest.approx(right - left, rel=0.3, abs=6)
                assert crop.height == pytest.approx(bottom - top, rel=0.3, abs=6)


def test_rejected_tracks_are_reported_and_earlier_crops_are_removed(
    tracked: VideoTracks, street: StreetWorld, known_street: KnownStreet, tmp_path: Path
) -> None:
    out, video = tmp_path / "out", tmp_path / os.fsdecode(b"caf\xe9.mp4")
    shutil.copytree(tracked.folder, out)
    shutil.copy(street.videos[0], video)
    (out / "crops" / "mine.jpg").write_bytes(b"of somebody else")
    nothing = profile(FilterSettings(least_height_px=5000, pose_model=None))
    found = track_video(str(video), out, nothing, Progress(), known_street.detector)
    assert [path.name for path in (out / "crops").iterdir()] == ["mine.jpg"]
    document = json.loads((out / "tracklets.json").read_text())
    assert document["video"] == "caf\\udce9.mp4"
    assert (document["tracklets"], document["unseen"], found.tracklets) == ([], 0, 0)
    assert found.rejected == [one["detail"] for one in document["rejected"]]
    assert len(found.rejected) == found.tracks
    assert all("too_small" in one["detail"] for one in document["rejected"])


def test_a_folder_that_cannot_be_written_is_reported(
    street: StreetWorld, known_street: KnownStreet, tmp_path: Path
) -> None:
    (tmp_path / "tracklets.json").mkdir()
    bare = profile(FilterSettings(pose_model=None))
    with pytest.raises(UsageError, match="cannot be written"):
        track_video(str(street.videos[0]), tmp_path, bare, Progress(), known_street.detector)


def test_without_the_extra_of_the_detector_nothing_is_read_or_written(tmp_path: Path) -> None:
    def missing(spec: DetectorSpec) -> PersonDetector:
        raise MissingExtraError(f"the detector {spec.name!r}", "vision")

    video = tmp_path / "no-video.mp4"
    video.write_bytes(b"opening this would be another error")
    with pytest.raises(MissingExtraError, match="'vision', which is not installed; install it"):
        track_video(str(video), tmp_path / "out", profile(), Progress(), missing)
    assert not (tmp_path / "out").exists()
