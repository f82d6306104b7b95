"""Ways that people take through the street: where they are at a time, and what their body does."""

import math
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from schemas.base import Record
from sources.demonstration.poses import Action, Pose

STRIDE_METRES = 1.34
"""How far two steps take somebody: as far as a figure's legs reach, so that no foot slips."""

_TURNING_SECONDS = 0.25
_STANDING_METRES_PER_SECOND = 0.1


class Place(NamedTuple):
    """A place on the ground, in metres: to the right of the middle, and away from the camera."""

    x: float
    z: float


class Waypoint(Record):
    """Where somebody is at a time; between two waypoints they walk straight and evenly."""

    seconds: float
    x: float
    z: float


class Visit(Record):
    """One passage of a person through the street, from entering to leaving.

    `number` counts from 1 in the video. Somebody who comes back later has two visits.
    """

    number: int
    identity: int
    path: tuple[Waypoint, ...]

    def place_at(self, seconds: float) -> Place | None:
        """Where the person is; None before they come and after they have gone."""
        if not self.path[0].seconds <= seconds <= self.path[-1].seconds:
            return None
        return self._place(seconds)

    def pose_at(self, seconds: float, phases: int, turns: int = 36) -> Pose:
        """What the body does, of `phases` different moments of a step and `turns` directions."""
        yaw = round(self._yaw(seconds) / 360 * turns) % turns * 360 / turns
        if self._speed(seconds) < _STANDING_METRES_PER_SECOND:
            return Pose(action=Action.STANDING, yaw_degrees=yaw, phase=0.0)
        steps = self._travelled(seconds) / STRIDE_METRES + 0.37 * self.number
        return Pose(
            action=Action.WALKING, yaw_degrees=yaw, phase=int(steps % 1.0 * phases) / phases
        )

    def standing(self) -> list[tuple[float, float]]:
        """From when to when (seconds) the person stands still."""
        return [
            (start.seconds, end.seconds)
            for start, end in pairwise(self.path)
            if (start.x, start.z) == (end.x, end.z)
        ]

    def _place(self, seconds: float) -> Place:
        last = len(self.path) - 1
        after = min(max(bisect_right([p.seconds for p in self.path], seconds), 1), last)
        start, end = self.path[after - 1], self.path[after]
        share = (seconds - start.seconds) / max(end.seconds - start.seconds, 1e-9)
        share = min(1.0, max(0.0, share))
        return Place(start.x + share * (end.x - start.x), start.z + share * (end.z - start.z))

    def _yaw(self, seconds: float) -> float:
        """Where the person looks: the way they go around now, else the way that they last went."""
        before = self._place(seconds - _TURNING_SECONDS)
        after = self._place(seconds + _TURNING_SECONDS)
        if math.dist(before, after) < 1e-6:
            moved = [(a, b) for a, b in pairwise(self.path) if (a.x, a.z) != (b.x, b.z)]
            past = [(a, b) for a, b in moved if a.seconds <= seconds]
            if not moved:
                return 0.0
            start, end = past[-1] if past else moved[0]
            before, after = Place(start.x, start.z), Place(end.x, end.z)
        return math.degrees(math.atan2(after.x - before.x, before.z - after.z)) % 360

    def _speed(self, seconds: float) -> float:
        moment = 0.02
        before, after = self._place(seconds - moment), self._place(seconds + moment)
        return math.dist(before, after) / (2 * moment)

    def _travelled(self, seconds: float) -> float:
        passed = [point for point in self.path if point.seconds < seconds]
        places = [Place(point.x, point.z) for point in passed] + [self._place(seconds)]
        return sum(math.dist(a, b) for a, b in pairwise(places))
