"""Follows people through detections that somebody else made: no video, no detector."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.tracking.association import Association
from models.tracking.detector import Detections
from schemas.tracking import AssociationSettings
from sources.motchallenge import BadLine, Boxes, Result, read_boxes, write_results

RESULT_FILE = "result.txt"


@dataclass(frozen=True)
class TrackedDetections:
    """What came of a file of detections: where it was written, and how much it is."""

    result: Path
    detections: int
    frames: int
    boxes: int
    people: int
    bad_lines: tuple[BadLine, ...]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        lines = [line._asdict() for line in self.bad_lines]
        return {**vars(self), "result": str(self.result), "bad_lines": lines}


def track_detections(
    path: Path, out: Path, settings: AssociationSettings, frame_rate: float
) -> TrackedDetections:
    """Follows the people of a MOTChallenge file into `result.txt` in the folder `out`.

    Raises:
        FormatError: the file cannot be read or is of another format.
        UsageError: the frame rate is none, or the result cannot be written.
    """
    association = Association(settings, frame_rate)
    detections, bad_lines = read_boxes(path)
    results = list(follow(association, detections))
    write_results(out / RESULT_FILE, results)
    return TrackedDetections(
        result=out / RESULT_FILE,
        detections=len(detections.frames),
        frames=len(np.unique(detections.frames)),
        boxes=len(results),
        people=len({result.number for result in results}),
        bad_lines=tuple(bad_lines),
    )


def follow(association: Association, boxes: Boxes) -> Iterator[Result]:
    """The people of all frames, in order.

    The video is taken to begin with the first frame that has boxes. Later frames without boxes
    count as seen and empty; they are passed over once nobody is left who could come back.
    """
    nobody = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), None)
    before = None
    for frame, found in boxes.by_frame():
        missing = frame - before - 1 if before is not None else 0
        while missing and association.alive:
            association.update(nobody)
            missing -= 1
        for person in association.update(_detections(found)):
            yield Result(frame, person.number, person.box_xyxy, person.score)
        before = frame


def _detections(boxes: Boxes) -> Detections:
    order = np.argsort(-boxes.scores, kind="stable")
    corners = boxes.boxes_tlwh[order]
    corners[:, 2:] += corners[:, :2]
    return Detections(corners.astype(np.float32), boxes.scores[order].astype(np.float32), None)
