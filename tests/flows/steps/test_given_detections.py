"""Tracking with boxes that a source brings, without a detector."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from loupe.db.entities import find
from loupe.demo.worlds.street import DETECTIONS, StreetWorld, load_street_truth
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.video_import import import_videos, take_videos
from loupe.flows.ufine6926.given_detections import GivenDetector, given_detections
from loupe.flows.ufine6926.tracking import plan_tracking, track_videos
from loupe.models.tracking.detector import Frame, PersonDetector
from loupe.schemas.build import VideoSourceSpec
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.tracking import DetectorSpec, TrackingSettings
from loupe.schemas.video import Track
from loupe.sources.video.reader import VideoRefusedError

DATASET = "walkers"


@pytest.fixture
def detections(street: StreetWorld, tmp_path: Path) -> Path:
    """A copy of the street's detections."""
    return shutil.copytree(street.folder / DETECTIONS, tmp_path / "boxes")


def track(run: RunContext, street: StreetWorld, detections: Path) -> StageReport:
    """Track the people of the street with the boxes; no detector may be made."""

    def no_detector(_spec: DetectorSpec) -> PersonDetector:
        raise AssertionError("a source with detections needs no detector")

    videos = tuple(map(str, street.videos))
    spec = VideoSourceSpec(name="street", videos=videos, licence="CC0-1.0", detections=detections)
    source, _ = import_videos(run, spec)
    take_videos(run, DATASET, source)
    return track_videos(
        run, DATASET, spec, plan_tracking(run, DATASET, TrackingSettings(), spec), no_detector
    )


def authors(run: RunContext) -> set[str]:
    """Return the authors of all tracks."""
    return {one.record(Track).author for one in find(run.store, DATASET, Track.kind)}


def test_people_are_tracked_by_the_boxes_of_their_source(
    run: RunContext, street: StreetWorld, detections: Path
) -> None:
    assert track(run, street, detections).done == 2
    found = [one.record(Track) for one in find(run.store, DATASET, Track.kind)]
    people = sum(len({*video.identities.values()}) for video in load_street_truth(street.folder))
    assert people <= len(found) <= people + 4
    (author,) = authors(run)
    assert author == f"given-detections@{given_detections(detections).revision}"

    with (detections / "street-01.txt").open("a", encoding="ascii") as file:
        file.write("1,-1,5,5,40,90,0.9\n")
    assert track(run, street, detections).done == 2
    assert len(authors(run)) == 2, "other boxes, other tracks"


def test_a_video_without_detections_is_named_and_the_others_are_tracked(
    run: RunContext, street: StreetWorld, detections: Path
) -> None:
    (detections / "street-02.txt").unlink()
    report = track(run, street, detections)
    assert (report.done, dict(report.rejected)) == (1, {"no_detections": 1})
    with pytest.raises(VideoRefusedError, match=r"has no detections: .*street-02.txt"):
        GivenDetector(given_detections(detections), "street-02.mp4")


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must be a folder with a MOTChallenge file for"):
        given_detections(tmp_path)


@pytest.mark.parametrize(
    ("video", "file"),
    [("a/b/one.mp4", "a/b/one.txt"), ("one.two.mkv", "one.two.txt"), ("img1/%d.jpg", "img1.txt")],
)
def test_a_file_is_named_like_its_video(tmp_path: Path, video: str, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1,-1,10,20,30,60,35.5\n1,-1,50,20,30,60,-0.5\n", encoding="ascii")
    detector = GivenDetector(given_detections(tmp_path), video)
    found = detector.detect(Frame(0, 0.0, np.zeros((90, 90, 3), np.uint8)))
    assert found.boxes_xyxy.tolist() == [[10, 20, 40, 80], [50, 20, 80, 80]]
    assert found.scores.tolist() == [1, 1], "scores beyond 0 to 1 count as certain"
    assert found.embeddings is not None
    assert not detector.detect(Frame(1, 0.1, np.zeros((90, 90, 3), np.uint8)))
