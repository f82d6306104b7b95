"""The recorded scenes of the reference tracker, and what it made of them."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tracking.association import Association, TrackedPerson
from models.tracking.detector import Detections
from schemas.tracking import AssociationSettings

DATA = Path(__file__).parents[2] / "data" / "tracking"
SCENES = ("synthetic", "crowd")

PUBLISHED = AssociationSettings(least_area_px2=0, widest_aspect=1e9)
"""The published settings, before small and wide boxes are left out of what is given out."""


class Scene(NamedTuple):
    """Detections, and what the reference gave for them, frame by frame."""

    frame_rate: float
    detections: tuple[Detections, ...]
    arrays: dict[str, NDArray[Any]]

    def output(self, frame: int) -> dict[str, NDArray[Any]]:
        """What was given out in `frame`, from 1: `id`, `tlwh` and `score`."""
        rows = self.arrays["out_frame"] == frame
        return {name: self.arrays[f"out_{name}"][rows] for name in ("id", "tlwh", "score")}

    def lost(self, frame: int) -> tuple[list[int], list[bool]]:
        """The numbers on the list of the lost after `frame`, and which of them were removed."""
        rows = self.arrays["lost_frame"] == frame
        numbers, removed = self.arrays["lost_id"][rows], self.arrays["lost_is_removed"][rows]
        return numbers.tolist(), removed.tolist()

    def association(self, settings: AssociationSettings = PUBLISHED) -> Association:
        """A new association at the scene's frame rate."""
        return Association(settings, self.frame_rate)


@cache
def units() -> dict[str, NDArray[Any]]:
    """The recorded parts: filter, gate, overlap, assignments, smoothing and fused cost."""
    with np.load(DATA / "tracker_units.npz") as file:
        return dict(file)


@cache
def scene(name: str) -> Scene:
    """A recorded scene."""
    with np.load(DATA / f"tracker_{name}.npz") as file:
        arrays = dict(file)
    parameters = json.loads(str(arrays["params"]))
    assert parameters["conf_thres"] == PUBLISHED.confidence_threshold
    assert parameters["track_buffer"] == PUBLISHED.buffer_frames
    return Scene(parameters["frame_rate"], tuple(_detections(arrays)), arrays)


def _detections(arrays: dict[str, NDArray[Any]]) -> Iterator[Detections]:
    boxes = xyxy(arrays["det_tlwh"])
    for frame in range(1, int(arrays["n_frames"]) + 1):
        rows = arrays["det_frame"] == frame
        yield Detections(boxes[rows], arrays["det_score"][rows], arrays["det_emb"][rows])


def without_looks(detections: Detections) -> Detections:
    """The same detections of a detector that knows nothing of appearance."""
    return detections._replace(embeddings=None)


def xyxy(boxes_tlwh: NDArray[Any]) -> NDArray[Any]:
    """Left, top, right, bottom from left, top, width, height."""
    return np.concatenate([boxes_tlwh[:, :2], boxes_tlwh[:, :2] + boxes_tlwh[:, 2:]], axis=1)


def xyah(boxes_tlwh: NDArray[Any]) -> NDArray[Any]:
    """Centre, width / height and height from left, top, width, height."""
    left, top, width, height = boxes_tlwh.astype(np.float64).T
    return np.stack([left + width / 2, top + height / 2, width / height, height], axis=1)


def tlwh(people: tuple[TrackedPerson, ...]) -> NDArray[np.float64]:
    """The boxes of people as left, top, width, height."""
    boxes = np.array([person.box_xyxy for person in people]).reshape(-1, 4)
    boxes[:, 2:] -= boxes[:, :2]
    return boxes
