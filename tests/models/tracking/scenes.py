"""Recorded scenes and outputs of the reference tracker."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.models.tracking.association import Association, TrackedPerson
from loupe.models.tracking.detector import Detections
from loupe.schemas.tracking import AssociationSettings

DATA = Path(__file__).parents[2] / "data" / "tracking"
SCENES = ("synthetic", "crowd")

PUBLISHED = AssociationSettings(least_area_px2=0, widest_aspect=1e9)
"""The published settings, without filters for small and wide boxes."""


class Scene(NamedTuple):
    """Detections and the output of the reference tracker, frame by frame."""

    frame_rate: float
    detections: tuple[Detections, ...]
    arrays: dict[str, NDArray[Any]]

    def output(self, frame: int) -> dict[str, NDArray[Any]]:
        """Return the output of `frame`, from 1: `id`, `tlwh` and `score`."""
        rows = self.arrays["out_frame"] == frame
        return {name: self.arrays[f"out_{name}"][rows] for name in ("id", "tlwh", "score")}

    def lost(self, frame: int) -> tuple[list[int], list[bool]]:
        """Return the numbers of lost tracks after `frame`, and which of them were removed."""
        rows = self.arrays["lost_frame"] == frame
        numbers, removed = self.arrays["lost_id"][rows], self.arrays["lost_is_removed"][rows]
        return numbers.tolist(), removed.tolist()

    def association(self, settings: AssociationSettings = PUBLISHED) -> Association:
        """Return a new association at the frame rate of the scene."""
        return Association(settings, self.frame_rate)


@cache
def units() -> dict[str, NDArray[Any]]:
    """Return the recorded parts: filter, gate, overlap, assignments, smoothing and fused cost."""
    with np.load(DATA / "tracker_units.npz") as file:
        return dict(file)


@cache
def scene(name: str) -> Scene:
    """Return a recorded scene."""
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


def without_embeddings(detections: Detections) -> Detections:
    """Return the detections without embeddings."""
    return detections._replace(embeddings=None)


def xyxy(boxes_tlwh: NDArray[Any]) -> NDArray[Any]:
    """Convert left, top, width, height to left, top, right, bottom."""
    return np.concatenate([boxes_tlwh[:, :2], boxes_tlwh[:, :2] + boxes_tlwh[:, 2:]], axis=1)


def tlwh(people: tuple[TrackedPerson, ...]) -> NDArray[np.float64]:
    """Return the boxes of people as left, top, width, height."""
    boxes = np.array([person.box_xyxy for person in people]).reshape(-1, 4)
    boxes[:, 2:] -= boxes[:, :2]
    return boxes
