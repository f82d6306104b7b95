"""Models of the extra `vision` on a real video."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest

from loupe.models.registry import build_detector, build_pose_model
from loupe.models.tracking.appearance import Boxes
from loupe.models.tracking.detector import Frame
from loupe.schemas.tracking import MediaPipePoseModel, TrackingSettings
from loupe.sources.video.reader import open_video
from tests.requirements import unavailable

VIDEO = Path(__file__).parents[3] / "shared" / "data" / "video" / "pedestrians_vtest.avi"
FRAMES = (90, 540)


@pytest.fixture(scope="module")
def frames() -> list[Frame]:
    if not VIDEO.exists():
        unavailable(f"{VIDEO.name} is not in ../shared/data/video")
    with open_video(str(VIDEO), file_path=VIDEO.name) as reader:
        return [frame for frame in reader.frames(every=90) if frame.number in FRAMES]


@pytest.fixture(scope="module")
def confident(frames: list[Frame]) -> list[Boxes]:
    """The boxes of each frame with a score of at least 0.5."""
    detector = build_detector(TrackingSettings().detector)
    found = [detector.detect(frame) for frame in frames]
    return [one.boxes_xyxy[one.scores >= 0.5] for one in found]


def test_people_are_found_in_upright_boxes(confident: list[Boxes]) -> None:
    wide, high = np.concatenate([boxes[:, 2:] - boxes[:, :2] for boxes in confident]).T
    assert [len(boxes) >= 4 for boxes in confident] == [True, True]  # of six and five people
    assert ((wide / high > 0.2) & (wide / high < 0.8)).all()
    assert ((high > 35) & (high < 120)).all()


def test_people_have_bodies_and_the_lawn_does_not(
    frames: list[Frame], confident: list[Boxes]
) -> None:
    """Single people of this size, seen from behind, may be doubted."""
    model = build_pose_model(MediaPipePoseModel())
    boxes = confident[1].round().astype(int)
    people = [
        model.body(frames[1].pixels[top:bottom, left:right]) for left, top, right, bottom in boxes
    ]
    lawn = model.body(frames[1].pixels[200:280, 20:60])
    assert lawn.person is not None
    assert lawn.person < 0.2
    assert median(one.keypoints for one in people) >= 8
    assert median(one.person or 0.0 for one in people) > 0.6
    assert median(one.person_share or 0.0 for one in people) > 0.25
