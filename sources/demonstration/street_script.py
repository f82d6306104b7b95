"""The script of a street video, decided before painting."""

import math
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from schemas.base import Record
from sources.demonstration.figure import STATURE_METRES, Action, Pose
from sources.demonstration.people import Chance, Person, draw_person_attributes

# The camera, and how it moves.

NEAREST_METRES = 6.0
"""Distance from the camera to the nearest lane that people walk on."""

_HORIZON, _WALL, _FARTHEST, _NEAREST = 0.10, 0.47, 0.60, 0.97
"""Rows as shares of the frame's height: horizon, foot of the houses, farthest and nearest lane."""

Shift = tuple[int, int]
"""Displacement of the whole image in pixels: (right, down)."""


class Camera(Record):
    """A pinhole camera above a flat street, looking straight along it.

    Positions on the ground are (x, z) in metres: to the right of the centre, and away from the
    camera. `stature_px` is the height of a person in the nearest lane. The camera may be `shaken`
    by a hand, and turned by `pan` widths of the frame in total.
    """

    width_px: int
    height_px: int
    stature_px: float
    shaken: bool = False
    pan: float = 0.0

    @property
    def wall_metres(self) -> float:
        """Return the distance of the houses."""
        return NEAREST_METRES * (_NEAREST - _HORIZON) / (_WALL - _HORIZON)

    @property
    def farthest_metres(self) -> float:
        """Return the distance of the farthest lane that people walk on."""
        return NEAREST_METRES * (_NEAREST - _HORIZON) / (_FARTHEST - _HORIZON)

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

    @property
    def margins(self) -> Shift:
        """Return the maximum displacement of the image to either side, and up or down."""
        shake = math.ceil(0.03 * self.height_px) if self.shaken else 0
        return math.ceil(abs(self.pan) * self.width_px / 2) + shake, shake

    def shifts(self, chance: Chance, times: list[float]) -> list[Shift]:
        """Return the displacement of the image at each of the times (seconds)."""
        length = max(times[-1] - times[0], 1e-9)
        turned = [self.pan * self.width_px * (0.5 - (t - times[0]) / length) for t in times]
        right, down = self._shake(chance, times), self._shake(chance, times)
        return [(round(r + t), round(d)) for r, t, d in zip(right, turned, down, strict=True)]

    def _shake(self, chance: Chance, times: list[float]) -> list[float]:
        """Return a sum of three oscillations; the slower ones are larger."""
        wide = 0.01 * self.height_px * self.shaken
        swings = [(n, n * chance.between(0.6, 1.1), chance.between(0, 1)) for n in (1, 2, 4)]
        return [
            sum(
                wide / n * math.sin(2 * math.pi * (hertz * t + start)) for n, hertz, start in swings
            )
            for t in times
        ]


# The paths of people, and the planted faults.

STRIDE_METRES = 1.34
"""Distance of two steps: the reach of a figure's legs, so that feet do not slide."""


class Place(NamedTuple):
    """A position on the ground, in metres: to the right of the centre, and away from the camera."""

    x: float
    z: float


class Waypoint(Record):
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
        """Return the direction that the person faces: that of their last movement."""
        before, after = self._at(seconds - 0.25), self._at(seconds + 0.25)
        if math.dist(before, after) < 1e-6:
            ways = pairwise(self.path)
            gone = [(a, b) for a, b in ways if a.place != b.place and a.seconds <= seconds]
            if not gone:
                return 0.0
            before, after = (point.place for point in gone[-1])
        return math.degrees(math.atan2(after[0] - before[0], before[1] - after[1])) % 360


class Trouble(StrEnum):
    """A fault of whole frames."""

    DEFOCUS = "defocus"
    MOTION_BLUR = "motion blur"
    LIGHTS_OUT = "lights out"
    FROZEN = "frozen"


class Stretch(Record):
    """A fault from `first_frame` to `last_frame`, both included."""

    trouble: Trouble
    first_frame: int
    last_frame: int

    def holds(self, frame: int) -> bool:
        """Whether the frame has the fault."""
        return self.first_frame <= frame <= self.last_frame


class Script(Record):
    """One video: its camera, its people by identity, their visits, and its faults.

    People can pass behind a kiosk. While the video is frozen nobody moves, and afterwards time
    continues where it stopped.
    """

    theme: str
    camera: Camera
    frame_rate: int
    frame_count: int
    people: dict[int, Person]
    visits: tuple[Visit, ...]
    kiosk: Place | None = None
    stretches: tuple[Stretch, ...] = ()

    def troubles_at(self, frame: int) -> set[Trouble]:
        """Return the faults of a frame."""
        return {one.trouble for one in self.stretches if one.holds(frame)}

    def scenes(self) -> list[int]:
        """Return the moment that each frame shows, counted in frames that are not frozen."""
        moving = (Trouble.FROZEN not in self.troubles_at(n) for n in range(1, self.frame_count))
        return list(accumulate(moving, initial=0))


# The themes of videos, and paths through the street.


class Theme(StrEnum):
    """The theme of a video; the videos of a world alternate."""

    CROSSINGS = "crossings"
    OBSTACLES = "obstacles"
    HAND_HELD = "hand-held"
    EVENING = "evening"


_CAMERAS: dict[Theme, dict[str, float]] = {
    Theme.HAND_HELD: {"shaken": True},
    Theme.EVENING: {"pan": 0.2},
}
_TROUBLES: dict[Theme, tuple[tuple[Trouble, float, float], ...]] = {
    Theme.CROSSINGS: ((Trouble.FROZEN, 0.28, 0.36),),
    Theme.OBSTACLES: (),
    Theme.HAND_HELD: ((Trouble.DEFOCUS, 0.25, 0.33), (Trouble.MOTION_BLUR, 0.75, 0.81)),
    Theme.EVENING: ((Trouble.LIGHTS_OUT, 0.45, 0.56),),
}
"""Faults with their start and end, as shares of the video."""

_PARTS: dict[Theme, tuple[tuple[str, float], ...]] = {
    Theme.CROSSINGS: (("crossing alike", 0.22), ("return trip", 0.15), ("crossing", 0.72)),
    Theme.OBSTACLES: (("behind kiosk", 0.2), ("stop", 0.3), ("towards", 0.45)),
    Theme.HAND_HELD: (("return trip", 0.12), ("crossing", 0.45), ("towards", 0.55)),
    Theme.EVENING: (("stop", 0.25), ("crossing alike", 0.7), ("towards", 0.1)),
}
"""Roles with their time, as a share of the video."""


def write_script(
    camera: Camera,
    frame_rate: int,
    seconds: float,
    people: int,
    theme: Theme,
    first_identity: int,
    chance: Chance,
) -> Script:
    """Write the script of a video of the theme; its people are numbered from `first_identity`."""
    frame_count = max(1, round(seconds * frame_rate))
    camera = camera.model_copy(update=_CAMERAS.get(theme, {}))
    kiosk = Place(0.55 * camera.half_width_metres(8.6), 8.6) if theme is Theme.OBSTACLES else None
    director = _Director(camera, seconds, people, first_identity, chance, kiosk)
    visits = tuple(director.visits(_PARTS[theme]))
    stretches = []
    for trouble, start, end in _TROUBLES[theme]:
        first, last = int(start * frame_count), int(end * frame_count) - 1
        if 0 < first <= last:
            stretches.append(Stretch(trouble=trouble, first_frame=first, last_frame=last))
    return Script(
        theme=theme,
        camera=camera,
        frame_rate=frame_rate,
        frame_count=frame_count,
        people=director.people,
        visits=visits,
        kiosk=kiosk,
        stretches=tuple(stretches),
    )


class _Director:
    """Casts people as they are needed, and plans their paths through the street."""

    def __init__(
        self,
        camera: Camera,
        seconds: float,
        most: int,
        first_identity: int,
        chance: Chance,
        kiosk: Place | None,
    ) -> None:
        self.camera, self.seconds, self.most, self.chance = camera, seconds, most, chance
        self.first_identity, self.kiosk = first_identity, kiosk
        self.people: dict[int, Person] = {}
        self._visits = 0

    def visits(self, parts: tuple[tuple[str, float], ...]) -> Iterator[Visit]:
        """Return the visits: first the roles of the theme, as far as people suffice."""
        ways: dict[str, Callable[[float], Iterator[Visit]]] = {
            "crossing alike": lambda seconds: self._crossing(seconds, alike=True),
            "crossing": lambda seconds: self._crossing(seconds, alike=False),
            "return trip": self._return_trip,
            "behind kiosk": self._behind_kiosk,
            "stop": self._stop,
            "towards": self._towards,
        }
        for part, share in parts:
            if self._free >= 1 + part.startswith("crossing"):
                yield from ways[part](share * self.seconds)
        strollers = self._free
        for turn, lane in enumerate(self.chance.shuffled(range(strollers))):
            share = (turn + self.chance.between(0.2, 0.8)) / strollers
            z = self._lane(lane / strollers, (lane + 0.5) / strollers)
            yield self._across(self._cast(), z, share * self.seconds, 1 if turn % 2 else -1)

    @property
    def _free(self) -> int:
        return self.most - len(self.people)

    def _cast(self, like: int | None = None) -> int:
        """Cast a person; with `like`, in the same clothes, but with another build and hair."""
        person = draw_person_attributes(self.chance)
        if like is not None:
            model = self.people[like]
            clothes = {name: getattr(model, name) for name in ("sex", "upper", "jacket", "lower")}
            person = person.model_copy(update=clothes)
        identity = self.first_identity + len(self.people)
        self.people[identity] = person
        return identity

    # Paths through the street.

    def _crossing(self, seconds: float, *, alike: bool) -> Iterator[Visit]:
        """Return two people who pass close by each other, in opposite directions."""
        first = self._cast()
        second = self._cast(like=first if alike else None)
        x = self.chance.between(-0.25, 0.25) * self.camera.half_width_metres(NEAREST_METRES)
        z, direction = self._lane(0.1, 0.6), self.chance.pick((-1, 1))
        yield self._past(first, Place(x, z), seconds, direction)
        yield self._past(second, Place(x, z + 0.45), seconds, -direction)

    def _return_trip(self, seconds: float) -> Iterator[Visit]:
        """Return a person who leaves the frame and comes back the other way."""
        identity, direction, z = self._cast(), self.chance.pick((-1, 1)), self._lane(0.0, 0.5)
        first = self._across(identity, z, seconds, direction)
        yield first
        again = first.path[-1].seconds + 0.12 * self.seconds + self._outside(z) / 1.3
        yield self._across(identity, self._lane(0.0, 0.5), again, -direction)

    def _behind_kiosk(self, seconds: float) -> Iterator[Visit]:
        """Return a person who is hidden for a moment."""
        x, z = self.kiosk or Place(0.0, 8.0)
        yield self._past(self._cast(), Place(x, z + 1.0), seconds, -1)

    def _stop(self, seconds: float) -> Iterator[Visit]:
        """Return a person who stands still for a while, right of the centre, then continues."""
        z = self._lane(0.05, 0.4)
        place = Place(self.chance.between(0.15, 0.45) * self.camera.half_width_metres(z), z)
        through = self._past(self._cast(), place, seconds, self.chance.pick((-1, 1)))
        start, end = through.path
        stays = 0.2 * self.seconds
        here = [Waypoint(seconds=s, x=place.x, z=place.z) for s in (seconds, seconds + stays)]
        last = end.model_copy(update={"seconds": end.seconds + stays})
        yield through.model_copy(update={"path": (start, *here, last)})

    def _towards(self, seconds: float) -> Iterator[Visit]:
        """Return a person who enters from a side, walks up to the camera and leaves below."""
        side, z = self.chance.pick((-1, 1)), self.camera.farthest_metres
        x = self.chance.between(0.1, 0.45) * self.camera.half_width_metres(NEAREST_METRES) * side
        route = [Place(side * self._outside(z), z), Place(x, z), Place(0.8 * x, 3.6)]
        ways = [math.dist(a, b) for a, b in pairwise(route)]
        speed = self._speed()
        times = [seconds + way / speed for way in accumulate(ways, initial=0.0)]
        yield self._visit(self._cast(), zip(times, route, strict=True))

    def _across(self, identity: int, z: float, seconds: float, direction: int) -> Visit:
        """Return a path straight across the street, to the right (`direction` 1) or left (-1)."""
        return self._past(identity, Place(self.chance.between(-0.5, 0.5), z), seconds, direction)

    def _past(self, identity: int, place: Place, seconds: float, direction: int) -> Visit:
        """Return a path straight across the street, being at `place` at the given time."""
        speed, end = self._speed(), direction * self._outside(place.z)
        slope = self.chance.between(-0.25, 0.25)
        first = (seconds - abs(place.x + end) / speed, Place(-end, place.z - slope))
        last = (seconds + abs(end - place.x) / speed, Place(end, place.z + slope))
        return self._visit(identity, (first, last))

    def _visit(self, identity: int, points: Iterable[tuple[float, Place]]) -> Visit:
        self._visits += 1
        path = tuple(Waypoint(seconds=seconds, x=x, z=z) for seconds, (x, z) in points)
        return Visit(number=self._visits, identity=identity, path=path)

    def _lane(self, low: float, high: float) -> float:
        """Return a distance from the camera: 0 is the nearest lane, 1 the farthest."""
        share = self.chance.between(low, high)
        return NEAREST_METRES + share * (self.camera.farthest_metres - NEAREST_METRES)

    def _outside(self, z: float) -> float:
        """Return the distance from the centre at which a person is just outside the frame."""
        return (1 + abs(self.camera.pan)) * self.camera.half_width_metres(z) + 0.9

    def _speed(self) -> float:
        return self.chance.between(1.15, 1.45)
