"""The script of a street video, decided before painting."""

import math
from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from loupe.demo.worlds.figure import STATURE_METRES, Action, Pose
from loupe.demo.worlds.people import Person, draw_person_attributes
from loupe.schemas.base import Record
from loupe.schemas.validation import packaged_toml
from loupe.testing import Chance

# The camera.

NEAREST_METRES = 6.0
"""Distance from the camera to the nearest lane that people walk on."""

# Rows as shares of the frame's height: horizon, foot of the houses, farthest and nearest lane.
_HORIZON = 0.10
_WALL = 0.47
_FARTHEST = 0.60
_NEAREST = 0.97

WALL_METRES = NEAREST_METRES * (_NEAREST - _HORIZON) / (_WALL - _HORIZON)
_FARTHEST_METRES = NEAREST_METRES * (_NEAREST - _HORIZON) / (_FARTHEST - _HORIZON)


class Camera(Record):
    """A pinhole camera above a flat street, looking straight along it.

    Positions on the ground are (x, z) in metres: to the right of the centre, and away from the
    camera. `stature_px` is the height of a person in the nearest lane.
    """

    width_px: int
    height_px: int
    stature_px: float

    def scale_at(self, z: float) -> float:
        """Return the pixels per metre at a distance of `z` metres."""
        return self.stature_px / STATURE_METRES * NEAREST_METRES / z

    def place(self, x: float, z: float) -> tuple[float, float]:
        """Return the column and row of a position on the ground."""
        row = _HORIZON + (_NEAREST - _HORIZON) * NEAREST_METRES / z
        return self.width_px / 2 + x * self.scale_at(z), row * self.height_px

    def half_width_metres(self, z: float) -> float:
        """Return half the width of the frame in metres, at a distance of `z` metres."""
        return self.width_px / 2 / self.scale_at(z)


# The paths of people, and the planted faults.

STRIDE_METRES = 1.34
"""Distance of two steps: the reach of a figure's legs, so that feet do not slide."""


class Place(NamedTuple):
    """A position on the ground, in metres: to the right of the centre, and away from the camera."""

    x: float
    z: float


class Waypoint(NamedTuple):
    """The position of a person at a time; between two waypoints they walk at constant velocity."""

    seconds: float
    x: float
    z: float

    @property
    def place(self) -> Place:
        """Return its position."""
        return Place(self.x, self.z)


class Visit(Record):
    """One passage of a person through the street, from entering to leaving.

    `number` counts from 1 in the video. A person who comes back later has two visits.
    """

    number: int
    identity: int
    path: tuple[Waypoint, ...]

    def place_at(self, seconds: float) -> Place | None:
        """Return the person's position; None before they enter and after they leave."""
        return self._at(seconds) if self._times[0] <= seconds <= self._times[-1] else None

    def pose_at(self, seconds: float, phases: int, turns: int = 36) -> Pose:
        """Return the pose, from `phases` moments of a step and `turns` directions."""
        yaw = round(self._yaw(seconds) / 360 * turns) % turns * 360 / turns
        if math.dist(self._at(seconds - 0.02), self._at(seconds + 0.02)) < 0.004:
            return Pose(action=Action.STANDING, yaw_degrees=yaw, phase=0.0)
        ways = [math.dist(a.place, b.place) for a, b in pairwise(self.path)]
        travelled = np.interp(seconds, self._times, [0.0, *accumulate(ways)])
        steps = float(travelled) / STRIDE_METRES + 0.37 * self.number
        phase = int(steps % 1.0 * phases) / phases
        return Pose(action=Action.WALKING, yaw_degrees=yaw, phase=phase)

    def is_standing(self, start: float, end: float) -> bool:
        """Whether the person stands still from `start` to `end`, in seconds."""
        ways = pairwise(self.path)
        return any(a.place == b.place and a.seconds <= start and end < b.seconds for a, b in ways)

    @property
    def _times(self) -> list[float]:
        return [point.seconds for point in self.path]

    def _at(self, seconds: float) -> Place:
        times = self._times
        x = np.interp(seconds, times, [point.x for point in self.path])
        return Place(float(x), float(np.interp(seconds, times, [point.z for point in self.path])))

    def _yaw(self, seconds: float) -> float:
        """Return the direction that the person faces: that of the way that they are on."""
        ways = [(a, b) for a, b in pairwise(self.path) if a.place != b.place]
        begun = [way for way in ways if way[0].seconds <= seconds]
        start, end = (begun or ways)[-1 if begun else 0]
        return math.degrees(math.atan2(end.x - start.x, start.z - end.z)) % 360


class FaultKind(StrEnum):
    """Faults of the crop of a person; the first three are planted in whole frames."""

    BLUR = "blur"
    DARKNESS = "darkness"
    DUPLICATE = "duplicate"
    TRUNCATION = "truncation"
    OCCLUSION = "occlusion"


class Stretch(Record):
    """A fault from `first_frame` to `last_frame`, both included."""

    kind: FaultKind
    first_frame: int
    last_frame: int

    def holds(self, frame: int) -> bool:
        """Whether the frame has the fault."""
        return self.first_frame <= frame <= self.last_frame


class Script(Record):
    """One video: its camera, its people by identity, their visits, and its faults.

    While frames are duplicates nobody moves, and afterwards time continues where it stopped.
    """

    theme: str
    camera: Camera
    frame_rate: int
    frame_count: int
    people: dict[int, Person]
    visits: tuple[Visit, ...]
    fault: Stretch | None = None

    def fault_at(self, frame: int) -> FaultKind | None:
        """Return the fault of a frame."""
        return self.fault.kind if self.fault and self.fault.holds(frame) else None

    def scenes(self) -> list[int]:
        """Return the moment that each frame shows, counted in frames that are no duplicates."""
        frames = range(1, self.frame_count)
        moving = (self.fault_at(frame) is not FaultKind.DUPLICATE for frame in frames)
        return list(accumulate(moving, initial=0))


# The themes of videos, and paths through the street.


class _Fault(Record):
    """A fault with its start and end, as shares of the video."""

    kind: FaultKind
    start: float
    end: float


class _Walk(Record):
    """A walk, as in `street.toml`."""

    person: int
    when: float
    x: float
    lane: float
    to: Literal["left", "right", "camera"]
    stays: float = 0.0
    like: int | None = None
    returns: bool = False


class _Theme(Record):
    """The theme of a video."""

    name: str
    fault: _Fault | None = None
    walks: tuple[_Walk, ...]


_TABLES = packaged_toml(__package__, "street.toml")
_THEMES = TypeAdapter(tuple[_Theme, ...]).validate_python(_TABLES["themes"])


def write_script(
    camera: Camera, frame_rate: int, seconds: float, people: int, number: int, chance: Chance
) -> Script:
    """Write the script of a video; its number, from 1, decides its theme and its identities."""
    theme = _THEMES[(number - 1) % len(_THEMES)]
    walks = [walk for walk in theme.walks if walk.person <= people]
    likes = {walk.person: walk.like for walk in walks if walk.like}
    cast: dict[int, Person] = {}
    for person in range(1, people + 1):
        cast[person] = draw_person_attributes(chance)
        if person in likes:  # in the same clothes, but with another build and hair
            model = cast[likes[person]]
            clothes = {name: getattr(model, name) for name in ("sex", "upper", "jacket", "lower")}
            cast[person] = cast[person].model_copy(update=clothes)
    walks += _strolls(sorted(cast.keys() - {walk.person for walk in walks}), chance)
    first = 1 + (number - 1) * people
    visits: list[Visit] = []
    for walk in walks:
        for path in _paths(walk, camera, seconds, chance):
            identity = first + walk.person - 1
            visits.append(Visit(number=len(visits) + 1, identity=identity, path=path))
    count = max(1, round(seconds * frame_rate))
    fault = None
    if theme.fault:
        begin = int(theme.fault.start * count)
        end = int(theme.fault.end * count) - 1
        fault = Stretch(kind=theme.fault.kind, first_frame=begin, last_frame=end)
    return Script(
        theme=theme.name,
        camera=camera,
        frame_rate=frame_rate,
        frame_count=count,
        people={first + person - 1: attributes for person, attributes in cast.items()},
        visits=tuple(visits),
        fault=fault,
    )


def _strolls(people: list[int], chance: Chance) -> Iterator[_Walk]:
    """Return walks past, spread over the video and the lanes."""
    for turn, lane in enumerate(chance.shuffled(range(len(people)))):
        yield _Walk(
            person=people[turn],
            when=(turn + chance.between(0.2, 0.8)) / len(people),
            x=chance.between(-0.2, 0.2),
            lane=(lane + chance.between(0.0, 0.5)) / len(people),
            to="right" if turn % 2 else "left",
        )


def _paths(
    walk: _Walk, camera: Camera, seconds: float, chance: Chance
) -> Iterator[tuple[Waypoint, ...]]:
    """Return the path of a walk, from one side of the frame, and that of the way back, if any."""
    z = NEAREST_METRES + walk.lane * (_FARTHEST_METRES - NEAREST_METRES)
    place = Place(walk.x * camera.half_width_metres(NEAREST_METRES), z)
    outside = camera.half_width_metres(z) + 0.9  # where a person is just outside the frame
    sign = -1 if walk.to == "left" else 1
    start = Place(-sign * outside, z)
    end = Place(sign * outside, z)
    if walk.to == "camera":
        end = Place(0.8 * place.x, 3.6)
    middle = walk.when * seconds
    for begin, finish in ((start, end), (end, start))[: 1 + walk.returns]:
        speed = chance.between(1.15, 1.45)
        leaves = middle + walk.stays * seconds
        route = (
            (middle - math.dist(begin, place) / speed, begin),
            (middle, place),
            (leaves, place),
            (leaves + math.dist(place, finish) / speed, finish),
        )
        yield tuple(Waypoint(time, *where) for time, where in route)
        middle = route[-1][0] + 0.12 * seconds + math.dist(place, finish) / 1.15
