"""Which faults are in a rendered video, from its script and from what was painted."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby

from sources.demonstration.street.cast import dressed_alike
from sources.demonstration.street.optics import Trouble
from sources.demonstration.street.script import Script
from sources.demonstration.street.truth import (
    OCCLUDED_FROM,
    TRUNCATED_BELOW,
    Fault,
    FaultKind,
    PixelBox,
    TrueSighting,
)

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
        alike = dressed_alike(script.people[identity[first]], script.people[identity[second]])
        meeting = [frame for frame in common if overlaps[frame] >= _MEETING_OVERLAP]
        for start, end in _runs(meeting):
            if max(overlaps[frame] for frame in range(start, end + 1)) >= _CROSSING_OVERLAP:
                cause = "alike" if alike else "unlike"
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
