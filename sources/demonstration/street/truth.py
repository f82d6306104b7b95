"""The truth about street videos: the people in every frame, and the faults."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import combinations, groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.base import Record
from sources.demonstration.people import Person
from sources.demonstration.street.script import Script, Trouble, dressed_alike

TRUTH_FILE = "street_truth.json"

TRUNCATED_BELOW = 0.98
"""A person is truncated if less than this share of them lies inside the frame."""

OCCLUDED_FROM = 0.3
"""A person is occluded if at least this share of the part inside the frame is hidden."""

Pixels = NDArray[np.uint8]
"""An image of shape (height, width, 3), RGB."""

PixelBox = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels; right and bottom are not part of the box."""


class FaultKind(StrEnum):
    """Faults of the crop of a person, and situations that confuse a tracker."""

    BLUR = "blur"
    DARKNESS = "darkness"
    TRUNCATION = "truncation"
    OCCLUSION = "occlusion"
    DUPLICATE = "duplicate"
    IDENTITY_SWITCH = "identity_switch"


class Fault(Record):
    """A planted fault, from `first_frame` to `last_frame` (both included).

    `visits` are the visits concerned; if empty, everybody in those frames. `cause` is the
    mechanism: defocus, motion, lights out, frozen (every frame equals the one before
    `first_frame`), standing still, border, hidden, alike or unlike (clothes of two people who
    cross, which may lead a tracker to switch identities; the crops have no fault).
    """

    kind: FaultKind
    cause: str
    first_frame: int
    last_frame: int
    visits: tuple[int, ...] = ()


class TruePerson(Record):
    """A person of a video, with descriptions of the most visible side."""

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
        box_xyxy: the whole figure, including hidden parts; may extend beyond the frame.
        visible_xyxy: the visible part, None if there is none.
        inside: share of the figure's pixels that lie inside the frame.
        visible: share of the figure's pixels that are visible.
    """

    frame: int
    visit: int
    box_xyxy: PixelBox
    visible_xyxy: PixelBox | None
    inside: float
    visible: float

    @property
    def hidden(self) -> float:
        """Return the share of the part inside the frame that is covered."""
        return 1 - self.visible / self.inside if self.inside else 0.0


class TrueVideo(Record):
    """The truth about one video; `file_path` and `mot_path` are relative to the world's folder.

    `same_content_as` names the video of which this one is a re-encoded copy.
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
        """Return the identity of a visit."""
        return next(one.identity for one in self.visits if one.number == visit)

    def faulty(self) -> Iterator[tuple[TrueSighting, frozenset[FaultKind]]]:
        """Return every sighting with its faults, for the precision and recall of a filter."""
        for sighting in self.sightings:
            kinds = (
                fault.kind
                for fault in self.faults
                if fault.first_frame <= sighting.frame <= fault.last_frame
                and (not fault.visits or sighting.visit in fault.visits)
            )
            yield sighting, frozenset(kinds)


class StreetTruth(Record):
    """The truth about a world of street videos."""

    seed: int
    videos: tuple[TrueVideo, ...]


class StreetWorld(Record):
    """A generated world: its videos in order, and the file with the truth about them."""

    folder: Path
    seed: int
    videos: tuple[Path, ...]
    truth_file: Path


def load_street_truth(folder: Path) -> StreetTruth:
    """Load the truth about the street videos that were written to `folder`."""
    return StreetTruth.model_validate_json((folder / TRUTH_FILE).read_bytes())


# The faults of a rendered video, from its script and from the painted pixels.

_MEETING_OVERLAP, _CROSSING_OVERLAP = 0.1, 0.3
"""Overlaps (intersection over union): two people meet at the first and cross at the second."""

_OF_TROUBLE = {
    Trouble.DEFOCUS: FaultKind.BLUR,
    Trouble.MOTION_BLUR: FaultKind.BLUR,
    Trouble.LIGHTS_OUT: FaultKind.DARKNESS,
    Trouble.FROZEN: FaultKind.DUPLICATE,
}


def list_faults(script: Script, sightings: Sequence[TrueSighting]) -> tuple[Fault, ...]:
    """Return all faults of a video, in the order of their first frames."""
    faults: list[Fault] = []

    def note(kind: FaultKind, cause: str, frames: Iterable[int], *visits: int) -> None:
        """Add a fault for every run of consecutive frames."""
        for run in _runs(frames):
            first, last = run[0], run[-1]
            fault = Fault(kind=kind, cause=cause, first_frame=first, last_frame=last, visits=visits)
            faults.append(fault)

    for one in script.stretches:
        whole = range(one.first_frame, one.last_frame + 1)
        note(_OF_TROUBLE[one.trouble], one.trouble.value, whole)
    by_visit: dict[int, list[TrueSighting]] = {visit.number: [] for visit in script.visits}
    for sighting in sightings:
        by_visit[sighting.visit].append(sighting)
    seconds = [scene / script.frame_rate for scene in script.scenes()]
    for visit in script.visits:
        seen = by_visit[visit.number]
        for start, end in visit.standing():  # equal in every frame except the first
            still = [frame for frame, now in enumerate(seconds) if start <= now < end]
            note(FaultKind.DUPLICATE, "standing still", still[1:], visit.number)
        cut = [one.frame for one in seen if one.inside < TRUNCATED_BELOW]
        note(FaultKind.TRUNCATION, "border", cut, visit.number)
        hidden = [one.frame for one in seen if one.hidden >= OCCLUDED_FROM]
        note(FaultKind.OCCLUSION, "hidden", hidden, visit.number)
    boxes = {n: {one.frame: one.box_xyxy for one in seen} for n, seen in by_visit.items()}
    for first, second in combinations(script.visits, 2):
        ours, theirs = boxes[first.number], boxes[second.number]
        shared = {n: overlap(ours[n], theirs[n]) for n in sorted(ours.keys() & theirs.keys())}
        similar = dressed_alike(script.people[first.identity], script.people[second.identity])
        meeting = [frame for frame, share in shared.items() if share >= _MEETING_OVERLAP]
        for frames in _runs(meeting):
            if max(shared[frame] for frame in frames) >= _CROSSING_OVERLAP:
                cause = "alike" if similar else "unlike"
                note(FaultKind.IDENTITY_SWITCH, cause, frames, first.number, second.number)
    return tuple(sorted(faults, key=lambda fault: (fault.first_frame, fault.kind, fault.visits)))


def _runs(frames: Iterable[int]) -> Iterator[list[int]]:
    """Return every run of consecutive numbers."""
    for _, run in groupby(enumerate(frames), lambda pair: pair[1] - pair[0]):
        yield [number for _, number in run]


def overlap(first: PixelBox, second: PixelBox) -> float:
    """Return the intersection over union of two boxes."""
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    if wide <= 0 or high <= 0:
        return 0.0
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return wide * high / (sum(areas) - wide * high)
