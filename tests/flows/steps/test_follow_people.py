"""Saving and restoring the state of the people tracker."""

import numpy as np

from loupe.flows.ufine6926.crops import TrackOrigin
from loupe.flows.ufine6926.tracking import PeopleFollower
from loupe.models.tracking.appearance import embeddings_of
from loupe.models.tracking.association import PersonTracker
from loupe.models.tracking.detector import Detections, Frame
from loupe.schemas.base import sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.records import Picture
from loupe.schemas.tracking import AssociationSettings
from loupe.schemas.video import Track
from tests.models.tracking.walkers import Walker, frame_of

ORIGIN = TrackOrigin("street", "street/one.mp4", "0" * 64, "tracker@1")
TWO = [Walker(40, 60), Walker(400, 120, pace=-3, shirt=(240, 240, 240), trousers=(20, 20, 20))]


def put(data: bytes, crop: Picture) -> Picture:
    assert (crop.media_type, crop.sha256) == ("image/jpeg", sha256_of(data))
    return crop


class WalkerDetector:
    """Finds the walkers where they are, from the second frame on."""

    ref = ModelRef(name="walkers", revision="1")

    def detect(self, frame: Frame) -> Detections:
        walkers = TWO if frame.number else []
        boxes = np.array([one.box(frame.number) for one in walkers], np.float32).reshape(-1, 4)
        scores = np.full(len(walkers), 0.9, np.float32)
        return Detections(boxes, scores, embeddings_of(frame.pixels, boxes))


def follower() -> PeopleFollower:
    tracker = PersonTracker(WalkerDetector(), AssociationSettings(), 10.0)
    return PeopleFollower(tracker, ORIGIN, 4, put)


def frames(first: int, last: int) -> list[Frame]:
    return [frame_of([] if not number else TWO, number) for number in range(first, last)]


def ended(one: PeopleFollower, rest: list[Frame]) -> tuple[Track, ...]:
    for frame in rest:
        one.follow(frame)
    one.end()
    return one.take_finished()


def test_a_restored_follower_ends_with_the_same_tracks() -> None:
    whole = ended(follower(), frames(0, 10))
    assert len(whole) == 2
    before = follower()
    for frame in frames(0, 5):
        before.follow(frame)
    after = follower()
    after.restore(before.state())
    assert ended(after, frames(5, 10)) == whole
    assert after.frames == 10
