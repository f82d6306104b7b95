"""People made of what the HOG sees and of what moves: one tight, scored box each."""

from typing import Final, NamedTuple

import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from models.builtin.pedestrians.background import places_in
from models.builtin.pedestrians.blobs import Blobs
from models.builtin.pedestrians.boxes import Boxes, best_apart, overlaps
from models.builtin.pedestrians.hog import Sights

_MOST_OVERLAP: Final = 0.4
_MOST_INSIDE: Final = 0.7
_REACH: Final = 0.2
_ENOUGH_FILL: Final = 0.3
_LEAST_PIXELS: Final = 30
_ASPECTS: Final = (0.2, 0.75)
_UNSEEN_MARGIN: Final = -1.6
_MARGINS: Final = (-1.6, 3.0)

# Logistic regression of "is a person" on the two measures. Somebody who walks leaves a good quarter
# of the box free, at the head and between the limbs; what fills more of it is light that changed,
# or the street behind a camera that turned. So more counts no more, and a blob that the HOG does
# not see stays unsure: were it sure, the background would wait for it, and differ there for good.
_FULLEST: Final = 0.75
_MARGIN_WEIGHT: Final = 1.3
_FILL_WEIGHT: Final = 4.0
_BIAS: Final = -1.6
_STILL: Final = 0.1
_STILL_WEIGHT: Final = -1.6


class People(NamedTuple):
    """Boxes (n, 4) xyxy and scores (n,), falling by score."""

    boxes: Boxes
    scores: NDArray[np.float32]


def people_of(sights: Sights, blobs: Blobs | None) -> People:
    """The people that `sights` and `blobs` speak for; without blobs, the sights alone."""
    kept = best_apart(sights.boxes, sights.margins, _MOST_OVERLAP, _MOST_INSIDE)
    boxes, margins = sights.boxes[kept], sights.margins[kept]
    fills = None
    if blobs is not None:
        boxes = _fitted(boxes, blobs)
        lonely = _without_sight(boxes, blobs)
        boxes = np.concatenate([boxes, lonely])
        margins = np.concatenate([margins, np.full(len(lonely), _UNSEEN_MARGIN, np.float32)])
        fills = np.array([fill(box, blobs.mask) for box in boxes], np.float32)
    scores = score(margins, fills)
    order = best_apart(boxes, scores, _MOST_OVERLAP, _MOST_INSIDE)
    return People(boxes[order], scores[order])


def score(margins: NDArray[np.float32], fills: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """(n,) in [0, 1]: how likely each is a person, from SVM margin and share of moving pixels.

    `fills` is None where the camera moves: nothing is then known of what moves.
    """
    evidence = _MARGIN_WEIGHT * np.clip(margins, *_MARGINS) + _BIAS
    if fills is not None:
        moving = _FILL_WEIGHT * np.minimum(fills, _FULLEST)
        evidence = evidence + moving + _STILL_WEIGHT * (fills < _STILL)
    likely: NDArray[np.float32] = (1 / (1 + np.exp(-evidence))).astype(np.float32)
    return likely


def _fitted(boxes: Boxes, blobs: Blobs) -> Boxes:
    """Each box drawn tight around what moves there.

    A box that is alone in a blob of a person's shape takes the blob's; several in one blob divide
    its pixels, each taking those that are nearer to it than to the others.
    """
    if not len(boxes):
        return boxes
    fitted = boxes.copy()
    homes = np.array([_home(box, blobs) for box in boxes])
    rows, columns = places_in((blobs.labels > 0).astype(np.uint8))
    distance = _distances(boxes, rows, columns)
    nearest = distance.argmin(axis=0)
    for index, home in enumerate(homes):
        if home is None or fill(boxes[index], blobs.mask) < _ENOUGH_FILL:
            continue
        if np.count_nonzero(homes == home) == 1 and _has_shape(blobs.boxes[home][None])[0]:
            fitted[index] = blobs.boxes[home]
            continue
        mine = (nearest == index) & (distance[index] <= 1 + _REACH)
        if np.count_nonzero(mine) >= _LEAST_PIXELS:
            fitted[index] = _around(rows[mine], columns[mine])
    return fitted


def _home(box: Boxes, blobs: Blobs) -> int | None:
    """Index of the blob that most moving pixels of `box` belong to."""
    labels = _part(box, blobs.labels)
    counts = np.bincount(labels.ravel(), minlength=1)
    counts[0] = 0
    return int(counts.argmax()) - 1 if counts.any() else None


def _has_shape(boxes: Boxes) -> NDArray[np.bool_]:
    """Which boxes are as wide for their height as somebody who walks."""
    wide, high = (boxes[:, 2:] - boxes[:, :2]).T
    aspect = wide / np.maximum(high, 1)
    shaped: NDArray[np.bool_] = (aspect >= _ASPECTS[0]) & (aspect <= _ASPECTS[1])
    return shaped


def _distances(boxes: Boxes, rows: MatLike, columns: MatLike) -> NDArray[np.float32]:
    """(n, pixels): how far pixels lie from the middles of boxes; 1 is the border."""
    middles, halves = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
    across = np.abs(columns[None] - middles[:, :1]) / np.maximum(halves[:, :1], 1)
    down = np.abs(rows[None] - middles[:, 1:]) / np.maximum(halves[:, 1:], 1)
    distance: NDArray[np.float32] = np.maximum(across * 0.7, down).astype(np.float32)
    return distance


def _around(rows: MatLike, columns: MatLike) -> Boxes:
    """The box of nearly all of the pixels: single ones that stick out are noise."""
    left, right = np.percentile(columns, (1, 99))
    top, bottom = np.percentile(rows, (0.5, 99.5))
    return np.array([left, top, right + 1, bottom + 1], np.float32)


def _without_sight(boxes: Boxes, blobs: Blobs) -> Boxes:
    """The blobs of a person's shape of which no box speaks yet."""
    shaped = _has_shape(blobs.boxes)
    if len(boxes):
        shaped &= overlaps(blobs.boxes, boxes).max(axis=1) < _MOST_OVERLAP
    return blobs.boxes[shaped]


def fill(box: Boxes, mask: MatLike) -> float:
    """Share of the pixels in `box` that are in `mask`."""
    inside = _part(box, mask)
    return float(np.count_nonzero(inside)) / inside.size if inside.size else 0.0


def _part(box: Boxes, picture: MatLike) -> MatLike:
    """What lies in `box`."""
    left, top, right, bottom = np.clip(np.round(box), 0, None).astype(int)
    return picture[top:bottom, left:right]
