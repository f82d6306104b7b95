"""Detector and association together."""

import numpy as np

from loupe.models.tracking.association import PersonTracker, TrackedFrame
from loupe.models.tracking.detector import Detections, Frame
from loupe.schemas.chat import ModelRef
from loupe.schemas.tracking import AssociationSettings

SETTINGS = AssociationSettings()


class WalkingDetector:
    """Detects one person who takes a step to the right in each frame."""

    ref = ModelRef(name="walking", revision="1")

    def detect(self, frame: Frame) -> Detections:
        box = np.array([[4.0 * frame.number, 10, 4.0 * frame.number + 40, 130]], np.float32)
        look = np.eye(4, dtype=np.float32)[:1]
        return Detections(box, np.array([0.9], np.float32), look)


def frame(number: int) -> Frame:
    return Frame(number, number / 25, np.zeros((8, 8, 3), np.uint8))


def places(found: TrackedFrame) -> list[tuple[int, list[float]]]:
    return [(person.number, person.box_xyxy.tolist()) for person in found.people]


def test_a_restored_tracker_continues_where_the_other_stopped() -> None:
    tracker = PersonTracker(WalkingDetector(), SETTINGS, 25)
    assert tracker.ref == WalkingDetector.ref
    for number in range(5):
        tracker.follow(frame(number))
    other = PersonTracker(WalkingDetector(), SETTINGS, 25)
    other.restore(tracker.state())
    for number in range(5, 8):
        found = tracker.follow(frame(number))
        assert [person.number for person in found.people] == [1]
        assert found.alive == {1}
        assert places(other.follow(frame(number))) == places(found)
