"""The themes of street videos: who crosses, what is in the way, and what goes wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sources.demonstration.people import Chance, Person
from sources.demonstration.street.optics import Camera, Cloud, Movement, Stretch, Trouble
from sources.demonstration.street.scenery import Obstacle, ObstacleKind
from sources.demonstration.street.walks import (
    Place,
    Script,
    Visit,
    Walks,
    draw_walker,
    draw_walker_like,
)


class Theme(StrEnum):
    """What a video is about; the videos of a world take turns."""

    CROSSINGS = "crossings"
    OBSTACLES = "obstacles"
    HAND_HELD = "hand-held"
    EVENING = "evening"


_CROWD = 24
"""From so many people on, all are there all the time and nobody has a part to play."""

_MOVEMENTS = {
    Theme.CROSSINGS: Movement(),
    Theme.OBSTACLES: Movement(),
    Theme.HAND_HELD: Movement(shaken=True),
    Theme.EVENING: Movement(pan=0.2),
}


@dataclass(frozen=True)
class Setting:
    """What all videos of a world share."""

    camera: Camera
    frame_rate: int
    seconds: float
    people: int

    @property
    def frame_count(self) -> int:
        """How many frames a video has; one at least."""
        return max(1, round(self.seconds * self.frame_rate))


def write_script(setting: Setting, theme: Theme, first_identity: int, chance: Chance) -> Script:
    """What happens in a video of the theme; its people are numbered from `first_identity`."""
    director = _Director(setting, theme, first_identity, chance)
    visits = tuple(director.crowd() if setting.people >= _CROWD else director.visits())
    return Script(
        theme=theme,
        camera=setting.camera,
        movement=_MOVEMENTS[theme],
        frame_rate=setting.frame_rate,
        frame_count=setting.frame_count,
        people=director.people,
        visits=visits,
        obstacles=_obstacles(theme, setting.camera),
        stretches=tuple(_stretches(setting, theme)),
        cloud=_cloud(setting, theme),
        daylight=0.82 if theme is Theme.EVENING else 1.0,
    )


class _Director:
    """Casts people as they are needed, and sends them through the street."""

    def __init__(self, setting: Setting, theme: Theme, first_identity: int, chance: Chance) -> None:
        self.setting, self.theme = setting, theme
        self.first_identity, self.chance = first_identity, chance
        self.people: dict[int, Person] = {}
        pan = abs(_MOVEMENTS[theme].pan)
        self.walks = Walks(setting.camera, setting.seconds, chance, spare_share=pan)

    def visits(self) -> list[Visit]:
        """The parts of the theme first, as far as there are people; the others stroll."""
        visits = list(self._parts())
        strollers = self._free
        lanes = self.chance.shuffled(range(strollers))
        for turn, lane in enumerate(lanes):
            share = (turn + self.chance.between(0.2, 0.8)) / strollers
            z = self.walks.lane(lane / strollers, (lane + 0.5) / strollers)
            direction = 1 if turn % 2 else -1
            visits.append(self.walks.across(self._cast(), z, self._at(share), direction))
        return visits

    def crowd(self) -> list[Visit]:
        """Everybody is there all the time."""
        return [self.walks.mill(self._cast()) for _ in range(self.setting.people)]

    @property
    def _free(self) -> int:
        return self.setting.people - len(self.people)

    def _parts(self) -> Iterator[Visit]:
        if self.theme is Theme.CROSSINGS:
            yield from self._crossing(0.22, similar=True)
            yield from self._return_trip(0.15)
            yield from self._crossing(0.72, similar=False)
        elif self.theme is Theme.OBSTACLES:
            yield from self._behind_obstacles()
            yield from self._stop(0.3)
            yield from self._towards(0.45)
        elif self.theme is Theme.HAND_HELD:
            yield from self._return_trip(0.12)
            yield from self._crossing(0.45, similar=False)
            yield from self._away(0.55)
        else:
            yield from self._stop(0.25)
            yield from self._crossing(0.7, similar=True)
            yield from self._towards(0.1)

    def _crossing(self, share: float, *, similar: bool) -> Iterator[Visit]:
        if self._free >= 2:
            first = self._cast()
            second = self._cast(like=first if similar else None)
            yield from self.walks.crossing(first, second, self._at(share))

    def _return_trip(self, share: float) -> Iterator[Visit]:
        if self._free:
            away = 0.12 * self.setting.seconds
            yield from self.walks.return_trip(self._cast(), self._at(share), away)

    def _stop(self, share: float) -> Iterator[Visit]:
        if self._free:
            yield self.walks.stop(self._cast(), self._at(share), 0.2 * self.setting.seconds)

    def _towards(self, share: float) -> Iterator[Visit]:
        if self._free:
            yield self.walks.towards(self._cast(), self._at(share))

    def _away(self, share: float) -> Iterator[Visit]:
        if self._free:
            yield self.walks.away(self._cast(), self._at(share))

    def _behind_obstacles(self) -> Iterator[Visit]:
        """Somebody who is hidden by the kiosk for a moment, and somebody by the car."""
        for obstacle in _obstacles(self.theme, self.setting.camera):
            if self._free and obstacle.kind is not ObstacleKind.LAMP_POST:
                early = obstacle.kind is ObstacleKind.KIOSK
                place = Place(obstacle.x, obstacle.z + 1.0)
                seconds = self._at(0.2 if early else 0.8)
                yield self.walks.past(self._cast(), place, seconds, -1 if early else 1)

    def _at(self, share: float) -> float:
        return share * self.setting.seconds

    def _cast(self, like: int | None = None) -> int:
        """Another person, in the clothes of somebody else where `like` says so."""
        identity = self.first_identity + len(self.people)
        if like is None:
            self.people[identity] = draw_walker(self.chance)
        else:
            self.people[identity] = draw_walker_like(self.chance, self.people[like])
        return identity


def _obstacles(theme: Theme, camera: Camera) -> tuple[Obstacle, ...]:
    if theme is not Theme.OBSTACLES:
        return ()
    return tuple(
        Obstacle(kind=kind, x=share * camera.half_width_metres(z), z=z)
        for kind, share, z in (
            (ObstacleKind.LAMP_POST, 0.0, 6.7),
            (ObstacleKind.KIOSK, 0.55, 8.6),
            (ObstacleKind.CAR, -0.85, 9.0),
        )
    )


def _cloud(setting: Setting, theme: Theme) -> Cloud | None:
    if theme is not Theme.OBSTACLES:
        return None
    return Cloud(start_seconds=0.35 * setting.seconds, end_seconds=0.75 * setting.seconds)


_TROUBLES: dict[Theme, tuple[tuple[Trouble, float, float], ...]] = {
    Theme.CROSSINGS: ((Trouble.FROZEN, 0.28, 0.36),),
    Theme.OBSTACLES: (),
    Theme.HAND_HELD: ((Trouble.DEFOCUS, 0.25, 0.33), (Trouble.MOTION_BLUR, 0.75, 0.81)),
    Theme.EVENING: ((Trouble.LIGHTS_OUT, 0.45, 0.56),),
}
"""What goes wrong, from when to when, as shares of the video."""


def _stretches(setting: Setting, theme: Theme) -> Iterator[Stretch]:
    for trouble, start, end in _TROUBLES[theme]:
        first, last = (int(share * setting.frame_count) for share in (start, end))
        if 0 < first <= last - 1:
            yield Stretch(trouble=trouble, first_frame=first, last_frame=last - 1)
