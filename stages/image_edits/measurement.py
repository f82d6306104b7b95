"""How much an edit changed, where, and whether it came nearer to what was wanted."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.contrast import EditCheckSettings
from schemas.proposals import Box, EditMeasurement
from schemas.taxonomy import DifferenceType
from stages.image_edits.change import Area, Change, Mask, change_between, changed_areas, scaled_box

if TYPE_CHECKING:
    from PIL import Image

Vector = NDArray[Any]
"""An embedding of unit length, of shape (d,)."""

_AREAS = {
    DifferenceType.ENTITY_TYPE: 1,
    DifferenceType.ENTITY_ATTRIBUTE: 1,
    DifferenceType.ENTITY_EMOTION: 1,
    DifferenceType.EVENT_TYPE: 1,
    DifferenceType.ENTITY_RELATION: 2,  # what moves leaves one place and takes another
    DifferenceType.EVENT_ATTRIBUTE: 2,  # who does it, and to whom
}
"""How many changed areas a difference is expected to have; the other types concern all of it."""
_SAME_COLOUR = 20.0
"""Areas whose colours moved in the same way (ΔE*ab between the moves) changed together."""
_EDGE_PX = 3
"""What changed so near to a region, in pixels of the comparison, is its own smoothed edge."""
_DECIMALS = 6


def concerns_all(difference: DifferenceType) -> bool:
    """Whether a difference of the type is expected to change all of a picture."""
    return difference not in _AREAS


def measure_edit(
    anchor: "Image.Image",
    edited: "Image.Image",
    difference: DifferenceType,
    settings: EditCheckSettings,
    *,
    region: Box | None = None,
    region_by: str = "given",
    shift: float | None = None,
) -> EditMeasurement:
    """How much of the anchor an edit changed.

    The region is told as one box around all of its areas; what lies between these is outside.

    Args:
        anchor: the picture before.
        edited: after it, of the same proportions.
        difference: the type that was wanted. Where nobody knows the region, it is that of the
            largest changed area (of two where something moves, of all that took the same colour
            for an attribute); places and styles have none.
        settings: what is visible.
        region: where the change was wanted, in pixels of the anchor.
        region_by: who says so.
        shift: see `caption_shift`, where there are embeddings.
    """
    change = change_between(anchor, edited, settings)
    boxes: list[Box] = []
    if region is not None:
        boxes = [scaled_box(region, anchor.size, change.size)]
    elif not concerns_all(difference):
        boxes = [area.box for area in _wanted_areas(change, difference)]
        region_by = "the largest changed area" if len(boxes) == 1 else "the largest changed areas"
    around = scaled_box(_around(boxes), change.size, anchor.size) if boxes else None
    return EditMeasurement(
        changed_share=round(float(change.mask.mean()), _DECIMALS),
        outside_share=_outside(change.mask, boxes) if boxes else None,
        region_xyxy=around,
        region_by=region_by if boxes else None,
        shift=shift,
    )


def caption_shift(anchor: Vector, candidate: Vector, caption: Vector, wanted: Vector) -> float:
    """By how much more the candidate fits the wanted caption than the anchor's, -4 to 4.

    [s(candidate, wanted) - s(candidate, caption)] - [s(anchor, wanted) - s(anchor, caption)], where
    s is the cosine: what an embedder generally thinks of either caption, or of such pictures, falls
    out of it.

    Args:
        anchor: the embedding of the anchor, of unit length like all of them.
        candidate: that of the edited picture.
        caption: that of the anchor's caption.
        wanted: that of the caption of the contrastive image.
    """
    moved = np.asarray(candidate, np.float64) - np.asarray(anchor, np.float64)
    turned = np.asarray(wanted, np.float64) - np.asarray(caption, np.float64)
    return round(float(np.clip(moved @ turned, -4, 4)), _DECIMALS)


def _wanted_areas(change: Change, difference: DifferenceType) -> list[Area]:
    """The areas that a difference of the type explains.

    Of an attribute those that changed as the largest did, too: three apples become green at once.
    """
    areas = changed_areas(change)
    if difference is not DifferenceType.ENTITY_ATTRIBUTE:
        return areas[: _AREAS[difference]]
    return [area for area in areas if math.dist(area.colour, areas[0].colour) <= _SAME_COLOUR]


def _outside(mask: Mask, boxes: Sequence[Box]) -> float:
    """The share of the picture's pixels that changed and lie in none of the boxes."""
    left_over = mask.copy()
    for left, top, right, bottom in boxes:
        rows = slice(max(0, int(top) - _EDGE_PX), max(0, math.ceil(bottom) + _EDGE_PX))
        left_over[rows, max(0, int(left) - _EDGE_PX) : max(0, math.ceil(right) + _EDGE_PX)] = False
    return round(float(left_over.mean()), _DECIMALS)


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return (min(lefts), min(tops), max(rights), max(bottoms))
