"""What happens in a street video: everything that is decided before anything is painted."""

from schemas.base import Record
from sources.demonstration.people import Person
from sources.demonstration.street.camera import Camera, Movement
from sources.demonstration.street.optics import Cloud, Stretch, Trouble
from sources.demonstration.street.paths import Visit
from sources.demonstration.street.scenery import Obstacle


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
