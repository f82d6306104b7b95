"""Who walks where in the street: cast, paths, faults, and the script of a video."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, count, groupby, pairwise
from typing import NamedTuple

from schemas.base import Record
from sources.demonstration.people import Chance, Person, draw_person_attributes
from sources.demonstration.poses import Action, Pose
from sources.demonstration.street.optics import (
    NEAREST_METRES,
    Camera,
    Cloud,
    Movement,
    Stretch,
    Trouble,
)
from sources.demonstration.street.scenery import Obstacle
from sources.demonstration.street.truth import (
    OCCLUDED_FROM,
    TRUNCATED_BELOW,
    Fault,
    FaultKind,
    PixelBox,
    TrueSighting,
)

# Ways that people take through the street: where they are at a time, and what their body does.

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


# Who walks in a street: known people, some of them dressed alike.


def draw_walker(chance: Chance) -> Person:
    """A person for the street. The day is dry: nobody holds an umbrella."""
    person = draw_person_attributes(chance)
    if person.carried is not None and person.carried.kind == "umbrella":
        return person.model_copy(update={"carried": None})
    return person


def draw_walker_like(chance: Chance, model: Person) -> Person:
    """Somebody else in the same clothes: another build, hair, shoes and bag."""
    other = draw_walker(chance)
    while other.sex is not model.sex:
        other = draw_walker(chance)
    clothes = {name: getattr(model, name) for name in ("upper", "jacket", "lower", "scarf")}
    return other.model_copy(update=clothes)


def dressed_alike(first: Person, second: Person) -> bool:
    """True for people in the same clothes."""
    return (first.upper, first.jacket, first.lower) == (second.upper, second.jacket, second.lower)


# What happens in a street video: everything that is decided before anything is painted.


class Script(Record):
    """One video: its camera, its people by identity, their visits, and what goes wrong.

    `daylight` is the brightness of the day, 1 for a sunny one. While the video is frozen nobody
    moves: time goes on where it stood still.
    """

    theme: str
    camera: Camera
    movement: Movement
    frame_rate: int
    frame_count: int
    people: dict[int, Person]
    visits: tuple[Visit, ...]
    obstacles: tuple[Obstacle, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    cloud: Cloud | None = None
    daylight: float = 1.0

    def troubles_at(self, frame: int) -> set[Trouble]:
        """What is wrong with a frame."""
        return {stretch.trouble for stretch in self.stretches if stretch.covers(frame)}

    def frame_at(self, seconds: float) -> int:
        """The first frame that shows the street at that time or later, or `frame_count`."""
        scene = -1
        for frame in range(self.frame_count):
            if frame == 0 or Trouble.FROZEN not in self.troubles_at(frame):
                scene += 1
            if scene >= seconds * self.frame_rate:
                return frame
        return self.frame_count


# Which faults are in a rendered video, from its script and from what was painted.

_MEETING_OVERLAP, _CROSSING_OVERLAP = 0.1, 0.3
"""Two people meet from the first overlap (intersection over union) on; they cross at the second."""

_OF_TROUBLE = {
    Trouble.DEFOCUS: FaultKind.BLUR,
    Trouble.MOTION_BLUR: FaultKind.BLUR,
    Trouble.LIGHTS_OUT: FaultKind.DARKNESS,
    Trouble.FROZEN: FaultKind.DUPLICATE,
}


def list_faults(script: Script, sightings: Sequence[TrueSighting]) -> tuple[Fault, ...]:
    """All faults of a video, in the order of their first frames."""
    by_visit: dict[int, list[TrueSighting]] = {visit.number: [] for visit in script.visits}
    for sighting in sightings:
        by_visit[sighting.visit].append(sighting)
    faults = [
        *_of_whole_frames(script),
        *_of_standing(script),
        *_of_crops(by_visit),
        *_crossings(script, by_visit),
    ]
    return tuple(sorted(faults, key=lambda fault: (fault.first_frame, fault.kind, fault.visits)))


def _of_whole_frames(script: Script) -> Iterator[Fault]:
    for stretch in script.stretches:
        yield Fault(
            kind=_OF_TROUBLE[stretch.trouble],
            cause=stretch.trouble.value,
            first_frame=stretch.first_frame,
            last_frame=stretch.last_frame,
        )


def _of_standing(script: Script) -> Iterator[Fault]:
    """Somebody who stands still looks the same in every frame but the first."""
    for visit in script.visits:
        for start, end in visit.standing():
            first, last = script.frame_at(start) + 1, script.frame_at(end) - 1
            if 0 <= first <= last < script.frame_count:
                yield Fault(
                    kind=FaultKind.DUPLICATE,
                    cause="standing still",
                    first_frame=first,
                    last_frame=last,
                    visits=(visit.number,),
                )


def _of_crops(by_visit: dict[int, list[TrueSighting]]) -> Iterator[Fault]:
    for number, sightings in by_visit.items():
        cut = [s.frame for s in sightings if s.inside < TRUNCATED_BELOW]
        hidden = [s.frame for s in sightings if s.hidden >= OCCLUDED_FROM]
        for first, last in _runs(cut):
            yield _fault(FaultKind.TRUNCATION, "border", first, last, number)
        for first, last in _runs(hidden):
            yield _fault(FaultKind.OCCLUSION, "hidden", first, last, number)


def _crossings(script: Script, by_visit: dict[int, list[TrueSighting]]) -> Iterator[Fault]:
    """Pairs of people whose boxes come to overlap so much that a tracker may mix them up."""
    boxes = {n: {s.frame: s.box_xyxy for s in seen} for n, seen in by_visit.items()}
    identity = {visit.number: visit.identity for visit in script.visits}
    for first, second in combinations(sorted(boxes), 2):
        common = sorted(boxes[first].keys() & boxes[second].keys())
        overlaps = {frame: overlap(boxes[first][frame], boxes[second][frame]) for frame in common}
        similar = dressed_alike(script.people[identity[first]], script.people[identity[second]])
        meeting = [frame for frame in common if overlaps[frame] >= _MEETING_OVERLAP]
        for start, end in _runs(meeting):
            if max(overlaps[frame] for frame in range(start, end + 1)) >= _CROSSING_OVERLAP:
                cause = "alike" if similar else "unlike"
                yield _fault(FaultKind.IDENTITY_SWITCH, cause, start, end, first, second)


def overlap(first: PixelBox, second: PixelBox) -> float:
    """Intersection over union of two boxes."""
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    if wide <= 0 or high <= 0:
        return 0.0
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return wide * high / (sum(areas) - wide * high)


def _fault(kind: FaultKind, cause: str, first: int, last: int, *visits: int) -> Fault:
    return Fault(kind=kind, cause=cause, first_frame=first, last_frame=last, visits=visits)


def _runs(frames: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of every run of consecutive numbers."""
    for _, run in groupby(enumerate(frames), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        yield numbers[0], numbers[-1]


# Draws ways through the street: crossing, coming back, standing, walking towards the camera.

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

    def across(self, identity: int, z: float, middle_seconds: float, direction: int) -> Visit:
        """Straight across the street, to the right (`direction` 1) or left (-1)."""
        return self.past(
            identity, Place(self.chance.between(-0.5, 0.5), z), middle_seconds, direction
        )

    def past(self, identity: int, place: Place, seconds: float, direction: int) -> Visit:
        """Straight across the street, being at `place` at the given time."""
        speed, end = self._speed(), direction * self.outside(place.z)
        slope = self.chance.between(-0.25, 0.25)
        start = Waypoint(seconds=seconds - abs(place.x + end) / speed, x=-end, z=place.z - slope)
        last = Waypoint(seconds=seconds + abs(end - place.x) / speed, x=end, z=place.z + slope)
        return self._visit(identity, (start, last))

    def crossing(self, first: int, second: int, seconds: float) -> tuple[Visit, Visit]:
        """Two people who pass close by each other at the given time, in opposite directions."""
        x = self.chance.between(-0.25, 0.25) * self.camera.half_width_metres(NEAREST_METRES)
        z = self.lane(0.1, 0.6)
        direction = self.chance.pick((-1, 1))
        return (
            self.past(first, Place(x, z), seconds, direction),
            self.past(second, Place(x, z + 0.45), seconds, -direction),
        )

    def return_trip(self, identity: int, seconds: float, away: float) -> tuple[Visit, Visit]:
        """Somebody who leaves the frame and comes back the other way, `away` seconds later."""
        direction, z = self.chance.pick((-1, 1)), self.lane(0.0, 0.5)
        first = self.across(identity, z, seconds, direction)
        half_trip = self.outside(z) / 1.3
        again = first.path[-1].seconds + away + half_trip
        return first, self.across(identity, self.lane(0.0, 0.5), again, -direction)

    def stop(self, identity: int, seconds: float, stays: float) -> Visit:
        """Somebody who stands still for a while, right of the middle, then goes on."""
        direction, z = self.chance.pick((-1, 1)), self.lane(0.05, 0.4)
        x = self.chance.between(0.15, 0.45) * self.camera.half_width_metres(z)
        place = Place(x, z)
        through = self.past(identity, place, seconds, direction)
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
