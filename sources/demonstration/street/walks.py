"""Draws ways through the street: crossing, coming back, standing, walking towards the camera."""

from collections.abc import Iterator
from itertools import count

from sources.demonstration.chance import Chance
from sources.demonstration.street.camera import NEAREST_METRES, Camera
from sources.demonstration.street.paths import Place, Visit, Waypoint

_BEYOND_METRES = 0.9
"""How far outside the frame somebody begins and ends."""


class Walks:
    """Draws visits that are numbered as they come, in a video of `seconds`.

    `spare_metres` is how much farther than the frame the street is seen when the camera turns.
    """

    def __init__(
        self, camera: Camera, seconds: float, chance: Chance, spare_share: float = 0.0
    ) -> None:
        self.camera, self.seconds, self.chance = camera, seconds, chance
        self._wider = 1 + spare_share
        self._numbers: Iterator[int] = count(1)

    def lane(self, low: float = 0.0, high: float = 1.0) -> float:
        """A distance from the camera: 0 is the nearest lane, 1 the farthest."""
        share = self.chance.between(low, high)
        return NEAREST_METRES + share * (self.camera.farthest_metres - NEAREST_METRES)

    def outside(self, z: float) -> float:
        """How far from the middle somebody has just left the frame."""
        return self._wider * self.camera.half_width_metres(z) + _BEYOND_METRES

    def across(self, identity: int, z: float, middle_seconds: float, way: int) -> Visit:
        """Straight across the street, to the right (`way` 1) or left (-1)."""
        return self.past(identity, Place(self.chance.between(-0.5, 0.5), z), middle_seconds, way)

    def past(self, identity: int, place: Place, seconds: float, way: int) -> Visit:
        """Straight across the street, being at `place` at the given time."""
        speed, end = self._speed(), way * self.outside(place.z)
        slope = self.chance.between(-0.25, 0.25)
        start = Waypoint(seconds=seconds - abs(place.x + end) / speed, x=-end, z=place.z - slope)
        last = Waypoint(seconds=seconds + abs(end - place.x) / speed, x=end, z=place.z + slope)
        return self._visit(identity, (start, last))

    def crossing(self, first: int, second: int, seconds: float) -> tuple[Visit, Visit]:
        """Two people who pass close by each other at the given time, in opposite directions."""
        x = self.chance.between(-0.25, 0.25) * self.camera.half_width_metres(NEAREST_METRES)
        z = self.lane(0.1, 0.6)
        way = self.chance.pick((-1, 1))
        return (
            self.past(first, Place(x, z), seconds, way),
            self.past(second, Place(x, z + 0.45), seconds, -way),
        )

    def return_trip(self, identity: int, seconds: float, away: float) -> tuple[Visit, Visit]:
        """Somebody who leaves the frame and comes back the other way, `away` seconds later."""
        way, z = self.chance.pick((-1, 1)), self.lane(0.0, 0.5)
        first = self.across(identity, z, seconds, way)
        half_trip = self.outside(z) / 1.3
        again = first.path[-1].seconds + away + half_trip
        return first, self.across(identity, self.lane(0.0, 0.5), again, -way)

    def stop(self, identity: int, seconds: float, stays: float) -> Visit:
        """Somebody who stands still for a while, right of the middle, then goes on."""
        way, z = self.chance.pick((-1, 1)), self.lane(0.05, 0.4)
        x = self.chance.between(0.15, 0.45) * self.camera.half_width_metres(z)
        place = Place(x, z)
        through = self.past(identity, place, seconds, way)
        start, end = through.path
        here = {"x": place.x, "z": place.z}
        path = (
            start,
            Waypoint(seconds=seconds, **here),
            Waypoint(seconds=seconds + stays, **here),
            end.model_copy(update={"seconds": end.seconds + stays}),
        )
        return through.model_copy(update={"path": path})

    def towards(self, identity: int, seconds: float) -> Visit:
        """Somebody who comes from a side, walks up to the camera and past it, out below."""
        side, z = self.chance.pick((-1, 1)), self.camera.farthest_metres
        x = self.chance.between(0.1, 0.45) * self.camera.half_width_metres(NEAREST_METRES)
        route = [Place(side * self.outside(z), z), Place(side * x, z), Place(side * x * 0.8, 3.6)]
        return self._route(identity, route, seconds)

    def away(self, identity: int, seconds: float) -> Visit:
        """Somebody who comes into the frame from below, walks away, and leaves on a side."""
        side, z = self.chance.pick((-1, 1)), self.camera.farthest_metres
        x = self.chance.between(0.0, 0.4) * self.camera.half_width_metres(NEAREST_METRES)
        route = [Place(side * x, 3.6), Place(side * x, z), Place(side * self.outside(z), z)]
        return self._route(identity, route, seconds)

    def mill(self, identity: int) -> Visit:
        """Somebody who is there all the time and walks to and fro, as in a crowd."""
        here = self._anywhere()
        route, seconds = [Waypoint(seconds=0.0, x=here.x, z=here.z)], 0.0
        while seconds < self.seconds:
            there = self._anywhere()
            seconds += max(0.5, _distance(here, there) / self._speed())
            route.append(Waypoint(seconds=seconds, x=there.x, z=there.z))
            here = there
        return self._visit(identity, tuple(route))

    def _anywhere(self) -> Place:
        z = self.lane()
        reach = 0.9 * self.camera.half_width_metres(z)
        return Place(self.chance.between(-reach, reach), z)

    def _route(self, identity: int, route: list[Place], seconds: float) -> Visit:
        speed, path, now = self._speed(), [], seconds
        before = route[0]
        for place in route:
            now += _distance(before, place) / speed
            path.append(Waypoint(seconds=now, x=place.x, z=place.z))
            before = place
        return self._visit(identity, tuple(path))

    def _visit(self, identity: int, path: tuple[Waypoint, ...]) -> Visit:
        return Visit(number=next(self._numbers), identity=identity, path=path)

    def _speed(self) -> float:
        return self.chance.between(1.15, 1.45)


def _distance(first: Place, second: Place) -> float:
    return float(((first.x - second.x) ** 2 + (first.z - second.z) ** 2) ** 0.5)
