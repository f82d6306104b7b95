"""The detections of one frame in the terms of an association."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tracking.detector import Detections
from schemas.errors import ModelError
from schemas.tracking import AssociationSettings


class Sightings(NamedTuple):
    """Detections that can be followed, in the detector's order.

    Attributes:
        boxes_xyxy: (m, 4): left, top, right, bottom.
        boxes_xyah: (m, 4): centre, width / height, and height.
        scores: (m,) in [0, 1].
        looks: (m, d) of unit length; d is 0 where nothing is known of appearance.
        sure: (m,): which are above the confidence threshold.
    """

    boxes_xyxy: NDArray[np.float64]
    boxes_xyah: NDArray[np.float64]
    scores: NDArray[np.float32]
    looks: NDArray[np.float32]
    sure: NDArray[np.bool_]

    def only(self, rows: NDArray[np.intp]) -> "Sightings":
        """Those of `rows`."""
        return Sightings(
            self.boxes_xyxy[rows],
            self.boxes_xyah[rows],
            self.scores[rows],
            self.looks[rows],
            self.sure[rows],
        )


def sightings(detections: Detections, settings: AssociationSettings) -> Sightings:
    """What can be followed of `detections`: boxes that have width and height, scored high enough.

    Without embeddings those that get a second chance only are among them.

    Raises:
        ModelError: an array is not of the shape it should be, or a number is not finite.
    """
    least = settings.confidence_threshold
    looks = detections.embeddings
    if looks is None:
        least = min(least, settings.second_chance_threshold)
        looks = np.empty((len(detections.scores), 0), np.float32)
    _check(detections.boxes_xyxy, detections.scores, looks)
    boxes = detections.boxes_xyxy.astype(np.float64)
    sides = boxes[:, 2:] - boxes[:, :2]
    keep = np.flatnonzero((detections.scores > least) & (sides > 0).all(axis=1))
    boxes, sides, scores = boxes[keep], sides[keep], detections.scores[keep]
    return Sightings(
        boxes_xyxy=boxes,
        boxes_xyah=_xyah(boxes, sides),
        scores=scores,
        looks=looks[keep],
        sure=scores > settings.confidence_threshold,
    )


def _xyah(boxes: NDArray[np.float64], sides: NDArray[np.float64]) -> NDArray[np.float64]:
    boxes_xyah = np.empty_like(boxes)
    boxes_xyah[:, :2] = boxes[:, :2] + sides / 2
    boxes_xyah[:, 2] = sides[:, 0] / sides[:, 1]
    boxes_xyah[:, 3] = sides[:, 1]
    return boxes_xyah


def _check(
    boxes: NDArray[np.floating[Any]],
    scores: NDArray[np.floating[Any]],
    looks: NDArray[np.floating[Any]],
) -> None:
    count = len(scores)
    wanted = ((count, 4), (count,), (count, looks.shape[-1]))
    names = ("boxes", "scores", "embeddings")
    for name, part, shape in zip(names, (boxes, scores, looks), wanted, strict=True):
        if part.shape != shape:
            raise ModelError(
                f"the {name} of {count} detections must be of shape {shape}; got {part.shape}"
            )
        if not np.isfinite(part).all():
            raise ModelError(f"the {name} of {count} detections must all be finite numbers")
