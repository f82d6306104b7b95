"""Saving and restoring the state of the people tracker."""

import numpy as np
import pytest

from loupe.flows.ufine6926.crops import TrackOrigin
from loupe.flows.ufine6926.tracking import PeopleFollower
from loupe.models.builtin.pedestrians.detector import BuiltinPedestrianDetector
from loupe.models.tracking.association import PersonTracker, as_bytes
from loupe.models.tracking.detector import Frame
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import IntegrityError
from loupe.schemas.tracking import AssociationSettings, BuiltinDetector
from loupe.schemas.video import Track
from tests.models.builtin.pedestrians.street import Walker, frame_of

ORIGIN = TrackOrigin("street", "street/one.mp4", "0" * 64, "tracker@1")
TWO = [Walker(40, 60), Walker(400, 120, pace=-3, shirt=(240, 240, 240), trousers=(20, 20, 20))]


def put(data: bytes, media_type: str) -> str:
    assert media_type == "image/jpeg"
    return sha256_of(data)


def follower() -> PeopleFollower:
    tracker = PersonTracker(
        BuiltinPedestrianDetector(BuiltinDetector()), AssociationSettings(), 10.0
    )
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


def test_an_invalid_state_is_refused() -> None:
    for state in (
        b"",
        b"nonsense",
        as_bytes({"tracker": np.zeros(3, np.uint8)}),
        as_bytes({"tracker": np.zeros(0, np.uint8), "memory": np.zeros(3, np.uint8)}),
    ):
        with pytest.raises(IntegrityError, match="cannot be read"):
            follower().restore(state)
