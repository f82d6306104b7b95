"""What is known of generated street videos: who is where in every frame, and what is wrong."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from schemas.base import Record
from sources.demonstration.people import Person

TRUTH_FILE = "street_truth.json"

TRUNCATED_BELOW = 0.98
"""A person is truncated where less than this share of them lies inside the frame."""

OCCLUDED_FROM = 0.3
"""A person is occluded where at least this share of what lies inside the frame is hidden."""

PixelBox = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels; right and bottom are not part of the box."""


class FaultKind(StrEnum):
    """What can be wrong with the crop of a person, or make a tracker go wrong."""

    BLUR = "blur"
    DARKNESS = "darkness"
    TRUNCATION = "truncation"
    OCCLUSION = "occlusion"
    DUPLICATE = "duplicate"
    IDENTITY_SWITCH = "identity_switch"


class Fault(Record):
    """Something planted, from `first_frame` to `last_frame` (both included).

    `visits` are the visits that it concerns; where there are none, everybody in those frames.
    `cause` says how: defocus, motion, lights out, frozen (every frame equals the one before
    `first_frame`), standing still, border, hidden, alike or unlike (clothes of two who cross, which
    is an opportunity for a tracker to switch identities, no fault of the crops).
    """

    kind: FaultKind
    cause: str
    first_frame: int
    last_frame: int
    visits: tuple[int, ...] = ()


class TruePerson(Record):
    """A person of a video, with descriptions of the side that is seen most."""

    identity: int
    person: Person
    descriptions: tuple[str, ...]


class TrueVisit(Record):
    """One passage of a person; `number` is the track id in the MOTChallenge file.

    The frames are the first and last in which a part of the person lies inside the frame.
    """

    number: int
    identity: int
    first_frame: int
    last_frame: int


class TrueSighting(Record):
    """A visitor in one frame.

    Attributes:
        frame: counts from 0.
        box_xyxy: the whole figure, hidden parts included; may reach out of the frame.
        visible_xyxy: what can be seen of it, None where that is nothing.
        inside: share of the figure's pixels that lie inside the frame.
        visible: share of the figure's pixels that can be seen.
    """

    frame: int
    visit: int
    box_xyxy: PixelBox
    visible_xyxy: PixelBox | None
    inside: float
    visible: float

    @property
    def hidden(self) -> float:
        """Share of what lies inside the frame that something else covers."""
        return 1 - self.visible / self.inside if self.inside else 0.0


class TrueVideo(Record):
    """What is known of one video; `file_path` and `mot_path` are relative to the world's folder.

    `same_content_as` names the video of which this one is a copy, encoded again.
    """

    name: str
    theme: str
    file_path: str
    mot_path: str
    width_px: int
    height_px: int
    frame_rate: float
    frame_count: int
    people: tuple[TruePerson, ...]
    visits: tuple[TrueVisit, ...]
    sightings: tuple[TrueSighting, ...]
    faults: tuple[Fault, ...]
    same_content_as: str | None = None

    def identity_of(self, visit: int) -> int:
        """The person whose visit this is."""
        return next(one.identity for one in self.visits if one.number == visit)

    def faulty(self) -> Iterator[tuple[TrueSighting, frozenset[FaultKind]]]:
        """Every sighting with what is wrong with it, for a filter's precision and recall."""
        for sighting in self.sightings:
            yield (
                sighting,
                frozenset(
                    fault.kind
                    for fault in self.faults
                    if fault.first_frame <= sighting.frame <= fault.last_frame
                    and (not fault.visits or sighting.visit in fault.visits)
                ),
            )


class StreetTruth(Record):
    """Everything that is known of a world of street videos."""

    seed: int
    videos: tuple[TrueVideo, ...]


class StreetWorld(Record):
    """A generated world: its videos in order, and the file with the truth about them."""

    folder: Path
    seed: int
    videos: tuple[Path, ...]
    truth_file: Path


def load_street_truth(folder: Path) -> StreetTruth:
    """The truth about the street videos that were written to `folder`."""
    return StreetTruth.model_validate_json((folder / TRUTH_FILE).read_bytes())
