"""Follows the people of one video from frame to frame, and cuts out the best of what is seen.

What is remembered between two frames is bounded by how many people can still come back, not by the
length of the video. It can be saved after any frame; whoever is restored from it goes on exactly as
the one before would have.
"""

import numpy as np
from pydantic import ValidationError

from models.tracking.association import TrackedFrame, as_bytes, from_bytes
from models.tracking.detector import Frame
from models.tracking.tracker import PersonTracker
from schemas.base import Record
from schemas.errors import IntegrityError
from schemas.video import Track
from stages.tracklets.pool import ObservationPool, PoolState, Put, TrackOrigin

STAGE = "track_people"
VERSION = "1"


class _Memory(Record):
    """What is remembered beside the tracker's own state."""

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
        """Who is in the next frame; whoever cannot come back after it is finished."""
        tracked = self._tracker.follow(frame)
        boxes = np.array([person.box_xyxy for person in tracked.people]).reshape(-1, 4)
        for place, person in enumerate(tracked.people):
            pool = self._pools.get(person.number)
            if pool is None:
                pool = ObservationPool(person.number, self._observations)
                self._pools[person.number] = pool
            pool.offer(frame, person, np.delete(boxes, place, axis=0))
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
        memory = _memory(parts["memory"].tobytes())
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


def _memory(data: bytes) -> _Memory:
    try:
        return _Memory.model_validate_json(data)
    except ValidationError as error:
        raise IntegrityError(f"the saved state of a follower cannot be read: {error}") from error
