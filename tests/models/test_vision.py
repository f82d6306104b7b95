"""Models of the extra `vision` on a real video."""

from pathlib import Path

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


def test_a_person_has_a_body_and_the_lawn_does_not(
    frames: list[Frame], confident: list[Boxes]
) -> None:
    model = build_pose_model(MediaPipePoseModel())
    person = max(confident[1], key=lambda box: box[3] - box[1])
    left, top, right, bottom = person.round().astype(int)
    person_body = model.body(frames[1].pixels[top:bottom, left:right])
    lawn_body = model.body(frames[1].pixels[200:280, 20:60])
    assert person_body.keypoints >= 8
    assert person_body.person is not None
    assert lawn_body.person is not None
    assert lawn_body.person < 0.2 < 0.4 < person_body.person  # the person is seen from behind
    assert person_body.person_share is not None
    assert person_body.person_share > 0.25
