"""The models of the extra `vision` on a real video."""

from pathlib import Path

import numpy as np
import pytest

from models.builtin.pedestrians.background import Boxes
from models.pose import build_pose_model
from models.registry import build_detector
from models.tracking.detector import Frame
from schemas.tracking import MediaPipePoseModel, SSDLiteDetector, TrackingSettings
from sources.video.reader import open_video
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
def sure(frames: list[Frame]) -> list[Boxes]:
    """The boxes of each frame that the detector is sure of."""
    detector = build_detector(SSDLiteDetector())
    found = [detector.detect(frame) for frame in frames]
    return [one.boxes_xyxy[one.scores >= 0.5] for one in found]


def test_it_is_the_detector_of_profiles_that_name_none() -> None:
    assert TrackingSettings().detector == SSDLiteDetector()


def test_people_are_found_in_boxes_of_their_shape(sure: list[Boxes]) -> None:
    wide, high = np.concatenate([boxes[:, 2:] - boxes[:, :2] for boxes in sure]).T
    assert [len(boxes) >= 4 for boxes in sure] == [True, True]  # of six and five people
    assert ((wide / high > 0.2) & (wide / high < 0.8)).all()
    assert ((high > 35) & (high < 120)).all()


def test_the_same_frame_gives_the_same_people_whatever_came_before(frames: list[Frame]) -> None:
    detector = build_detector(SSDLiteDetector())
    first, _, again = (detector.detect(frame) for frame in (frames[0], frames[1], frames[0]))
    for one, other in zip(first, again, strict=True):
        assert one is not None
        assert other is not None
        assert np.array_equal(one, other)


def test_a_person_has_a_body_and_the_lawn_has_none(frames: list[Frame], sure: list[Boxes]) -> None:
    model = build_pose_model(MediaPipePoseModel())
    person = max(sure[1], key=lambda box: box[3] - box[1])
    lawn = np.array([20, 200, 60, 280], np.float32)
    somebody, nobody = model.bodies(frames[1].pixels, np.stack([person, lawn]))
    assert somebody.keypoints >= 8
    assert somebody.person is not None
    assert nobody.person is not None
    assert nobody.person < 0.2 < 0.4 < somebody.person  # who turns her back
    assert somebody.person_share is not None
    assert somebody.person_share > 0.25
