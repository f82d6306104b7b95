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
    regions: Sequence[Box] = (),
    region_by: str = "the editor",
    shift: float | None = None,
) -> EditMeasurement:
    """How much of the anchor an edit changed, and how much of that where it was not wanted.

    What was wanted cannot be read off what was done: where nobody knows a region, none is made up,
    and what is told is how much changed in further places. The region is told as one box around all
    of its boxes; what lies between these is outside.

    Args:
        anchor: the picture before.
        edited: after it, of the same proportions.
        difference: the type that was wanted. It explains one changed area (two where something
            moves, all that took the same colour for an attribute); a place or a style explains all.
        settings: what is visible.
        regions: boxes around where the change was wanted, in pixels of the anchor; none where
            nobody knows.
        region_by: who knows.
        shift: see `caption_shift`, where there are embeddings.
    """
    change = change_between(anchor, edited, settings)
    measured = EditMeasurement(
        changed_share=round(float(change.mask.mean()), _DECIMALS), shift=shift
    )
    if concerns_all(difference):
        return measured
    if not regions:
        explained = [area.box for area in _explained_areas(change, difference)]
        return measured.model_copy(update={"apart_share": _outside(change.mask, explained)})
    boxes = [scaled_box(region, anchor.size, change.size) for region in regions]
    told = {
        "outside_share": _outside(change.mask, boxes),
        "region_xyxy": _around(regions),
        "region_by": region_by,
    }
    return measured.model_copy(update=told)


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


def _explained_areas(change: Change, difference: DifferenceType) -> list[Area]:
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
