"""Measure what an edit changed, judge whether this was intended, and mark it for reviewers."""

import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.schemas.base import Box
from loupe.schemas.decoders import as_rgb, plain_picture
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import EditMeasurement
from loupe.schemas.records import Rejection
from loupe.schemas.taxonomy import DifferenceType

# Alignment of two images of the same size.
#
# A diffusion model redraws the whole image. The result may be moved or zoomed by a pixel or two,
# and slightly warmer. This is not an edit, so it is removed before pixels are compared.

Lab = NDArray[np.float32]
"""An image in CIELAB, of shape (height, width, 3): L* from 0 to 100, a* and b* about as wide."""

_MOST_MOVED = 0.03
"""A shift by more than this share of the longer side is intended."""
_FEWEST_PX = 32
_ITERATIONS, _PRECISION = 60, 1e-5
_UNTOUCHED_SHARE = 0.2
"""If this share of the edges is identical, the images are aligned already."""
_ENOUGH = 20.0
"""A colour difference (ΔE*ab) beyond which two pixels differ."""
_BETTER = 0.98
"""A registration is used if it leaves less than this share of the difference."""


def opened_picture(data: bytes) -> Image.Image:
    """Decode an image as it is compared; see `plain_picture`."""
    with Image.open(io.BytesIO(data)) as picture:
        return plain_picture(picture)


def lab_of(picture: Image.Image, size: tuple[int, int]) -> Lab:
    """Convert an image to CIELAB, scaled to `size` (width, height)."""
    scaled = as_rgb(picture)
    if scaled.size != size:
        scaled = scaled.resize(size, Image.Resampling.LANCZOS, reducing_gap=3)
    pixels = np.asarray(scaled, np.float32) / 255
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2LAB), np.float32)


def _compared_size(width_px: int, height_px: int, side_px: int) -> tuple[int, int]:
    """Return the size of an image scaled to a longer side of `side_px`."""
    scale = side_px / max(width_px, height_px)
    return max(1, round(width_px * scale)), max(1, round(height_px * scale))


def _laid_over(anchor: Lab, edited: Lab, drift: float) -> tuple[Lab, NDArray[np.bool_]]:
    """Align `edited` with `anchor`, and remove its drift in colour.

    Args:
        anchor: the reference, which is not moved.
        edited: of the same shape.
        drift: the largest colour difference that is removed.

    Returns:
        The picture, and where it is known, of shape (height, width): what was moved leaves an edge
        behind.
    """
    everywhere = np.ones(edited.shape[:2], np.bool_)
    if _untouched_share(anchor, edited) >= _UNTOUCHED_SHARE:
        return edited, everywhere
    moved, known = _registered(anchor, edited)
    if not known.any():
        return edited, everywhere
    offset = np.median((moved - anchor)[known], axis=0)
    size = float(np.linalg.norm(offset))
    taken_off = offset * (min(size, drift) / size) if size > 0 else offset
    return np.asarray(moved - taken_off, np.float32), known


def _untouched_share(anchor: Lab, edited: Lab) -> float:
    """Return the share of the anchor's edges that the other image has at the same position.

    Flat areas are ignored because they look the same at every position.
    """
    light = anchor[..., 0]
    edges = np.zeros(light.shape, np.bool_)
    edges[:, 1:] |= light[:, 1:] != light[:, :-1]
    edges[1:] |= light[1:] != light[:-1]
    if not edges.any():
        return 0.0
    return float((anchor[edges] == edited[edges]).all(axis=1).mean())


def _registered(anchor: Lab, edited: Lab) -> tuple[Lab, NDArray[np.bool_]]:
    """Move, zoom and shear `edited` slightly if this makes the images more similar."""
    everywhere = np.ones(edited.shape[:2], np.bool_)
    height, width = edited.shape[0], edited.shape[1]
    warp = _warp(np.ascontiguousarray(anchor[..., 0]), np.ascontiguousarray(edited[..., 0]))
    if warp is None:
        return edited, everywhere
    how: Any = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved = cv2.warpAffine(edited, warp, (width, height), flags=how, borderMode=cv2.BORDER_REFLECT)
    inside = cv2.warpAffine(np.ones((height, width), np.uint8), warp, (width, height), flags=how)
    known = np.asarray(inside, np.uint8) > 0
    if _apart(anchor, moved, known) >= _BETTER * _apart(anchor, edited, known):
        return edited, everywhere
    return np.asarray(moved, np.float32), known


def _apart(anchor: Lab, edited: Any, known: NDArray[np.bool_]) -> float:
    """Return the mean difference of two images, clipped so that edits count little."""
    differences = np.linalg.norm(edited - anchor, axis=2)[known]
    return float(np.minimum(differences, _ENOUGH).mean())


def _warp(anchor: NDArray[np.float32], edited: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Return the small affine map from anchor pixels to edited pixels, or None if not found.

    Maximizes the enhanced correlation coefficient (Evangelidis and Psarakis, 2008), which is
    invariant to brightness and contrast.
    """
    height, width = anchor.shape
    if min(height, width) < _FEWEST_PX:
        return None
    warp = np.eye(2, 3, dtype=np.float32)
    until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, _ITERATIONS, _PRECISION)
    try:
        _, found = cv2.findTransformECC(
            anchor, edited, warp, cv2.MOTION_AFFINE, until, np.ones((height, width), np.uint8), 5
        )
    except cv2.error:  # it does not converge: the images have too little in common
        return None
    corners = np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]], np.float32)
    by_px = np.linalg.norm(corners @ np.asarray(found).T - corners[:, :2], axis=1)
    return (
        np.asarray(found, np.float32) if by_px.max() <= _MOST_MOVED * max(width, height) else None
    )


# Where two images differ visibly.

Mask = NDArray[np.bool_]
"""Mask of changed pixels, of shape (height, width)."""

_AROUND_PX = 5
"""Width of the neighbourhood that a pixel is compared with, in pixels of the comparison."""
_GRAIN_PX = 3
"""Thinner areas, in pixels of the comparison, are redrawn edges."""
_JOINED_PX = 7
"""Changes within this distance are merged."""


class Change(NamedTuple):
    """What an edit changed, at the size of the comparison.

    Attributes:
        mask: changed pixels.
        colours: the change of each colour, of shape (height, width, 3).
    """

    mask: Mask
    colours: Lab

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.mask.shape[1], self.mask.shape[0]


class Area(NamedTuple):
    """A changed area.

    Attributes:
        box: (left, top, right, bottom); right and bottom are exclusive.
        pixels: number of changed pixels.
        colour: mean change of these pixels, as a vector in CIELAB.
    """

    box: tuple[int, int, int, int]
    pixels: int
    colour: tuple[float, float, float]


def change_between(anchor: Image.Image, edited: Image.Image, settings: EditCheckSettings) -> Change:
    """Return where `edited` differs visibly from `anchor`.

    Both images are smoothed. A pixel has changed if the other image does not have its colour in the
    neighbourhood. This ignores noise, compression blocks and edges redrawn a pixel away; thin
    remainders of these are removed.
    """
    size = _compared_size(*anchor.size, settings.side_px)
    one = lab_of(anchor, size)
    other, known = _laid_over(one, lab_of(edited, size), settings.drift)
    one, other = (
        np.asarray(cv2.GaussianBlur(picture, (0, 0), settings.smoothing_px), np.float32)
        for picture in (one, other)
    )
    difference = np.maximum(_beyond(one, other), _beyond(other, one))
    visible = (difference >= settings.visible_difference) & known
    return Change(_morphed(visible, cv2.MORPH_OPEN, _GRAIN_PX), other - one)


def changed_areas(change: Change) -> list[Area]:
    """Return the changed areas, largest first; nearby ones are merged."""
    joined = _morphed(change.mask, cv2.MORPH_DILATE, _JOINED_PX)
    count, labels = cv2.connectedComponents(joined.astype(np.uint8), connectivity=8)
    places = np.asarray(labels)[change.mask]
    rows, columns = np.nonzero(change.mask)
    colours = change.colours[change.mask]
    found = []
    for label in range(1, count):
        here = places == label
        across, down = columns[here], rows[here]
        box = (int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1)
        lightness, a, b = colours[here].mean(axis=0).tolist()
        found.append(Area(box, len(down), (lightness, a, b)))
    return sorted(found, key=lambda one: (-one.pixels, one.box))


def scaled_box(
    box: tuple[float, float, float, float], from_size: tuple[int, int], to_size: tuple[int, int]
) -> Box:
    """Scale a box from an image of one size (width, height) to one of another size."""
    across, down = to_size[0] / from_size[0], to_size[1] / from_size[1]
    left, top, right, bottom = box
    return (left * across, top * down, right * across, bottom * down)


def _beyond(picture: Lab, other: Lab) -> NDArray[np.float32]:
    """Return the distance (ΔE*ab) of each colour of `picture` to those nearby in `other`."""
    lowest, highest = cv2.erode(other, _disc(_AROUND_PX)), cv2.dilate(other, _disc(_AROUND_PX))
    beyond = np.maximum(np.maximum(lowest - picture, picture - highest), 0)
    return np.asarray(np.linalg.norm(beyond, axis=2), np.float32)


def _morphed(mask: Mask, operation: int, across_px: int) -> Mask:
    """Open, close or dilate a mask with a disc."""
    morphed = cv2.morphologyEx(mask.astype(np.uint8), operation, _disc(across_px))
    return np.asarray(morphed, np.bool_)


def _disc(across_px: int) -> NDArray[np.uint8]:
    return np.asarray(
        cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (across_px, across_px)), np.uint8
    )


# How much an edit changed, where, and whether it came nearer to the intended difference.

Vector = NDArray[Any]
"""A unit embedding, of shape (d,)."""

_AREAS = {
    DifferenceType.ENTITY_TYPE: 1,
    DifferenceType.ENTITY_ATTRIBUTE: 1,
    DifferenceType.ENTITY_EMOTION: 1,
    DifferenceType.EVENT_TYPE: 1,
    DifferenceType.ENTITY_RELATION: 2,  # a moved object leaves one place and appears in another
    DifferenceType.EVENT_ATTRIBUTE: 2,  # the agent and the patient
}
"""The areas that a difference is expected to change; other types affect the whole image.
"""
_SAME_COLOUR = 20.0
"""Areas whose colour changes differ by less than this (ΔE*ab) changed together."""
_EDGE_PX = 3
"""Changes within this distance of a region, in pixels of the comparison, are its smoothed edge."""
_DECIMALS = 6


def concerns_all(difference: DifferenceType) -> bool:
    """Return whether a difference of this type is expected to change the whole image."""
    return difference not in _AREAS


def measure_edit(
    change: Change,
    size: tuple[int, int],
    difference: DifferenceType,
    *,
    regions: Sequence[Box] = (),
    shift: float | None = None,
) -> EditMeasurement:
    """Measure how much of the anchor an edit changed, and how much outside the intended region.

    The intended region cannot be inferred from the edit. If no region is known, the share of
    further changed areas is measured instead. The reported region is one box around all given
    boxes; the space between these still counts as outside.

    Args:
        change: what the edit changed.
        size: width and height of the anchor in pixels.
        difference: the intended type. It explains one changed area (two if something moves, all
            with the same change of colour for an attribute); a place or a style explains all.
        regions: the editor's boxes around the intended change, in pixels of the anchor; empty if
            unknown.
        shift: see `caption_shift`, if there are embeddings.
    """
    measured = EditMeasurement(
        changed_share=round(float(change.mask.mean()), _DECIMALS), shift=shift
    )
    if concerns_all(difference):
        return measured
    if not regions:
        explained = [area.box for area in _explained_areas(change, difference)]
        return measured.model_copy(update={"apart_share": _outside(change.mask, explained)})
    boxes = [scaled_box(region, size, change.size) for region in regions]
    outside = {
        "outside_share": _outside(change.mask, boxes),
        "region_xyxy": _around(regions),
        "region_by": "the editor",
    }
    return measured.model_copy(update=outside)


def caption_shift(anchor: Vector, candidate: Vector, caption: Vector, wanted: Vector) -> float:
    """Return how much better the candidate fits the wanted caption than the anchor does, -4 to 4.

    [s(candidate, wanted) - s(candidate, caption)] - [s(anchor, wanted) - s(anchor, caption)], where
    s is the cosine. The differences remove the embedder's general bias towards a caption or an
    image.

    Args:
        anchor: unit embedding of the anchor.
        candidate: unit embedding of the edited image.
        caption: unit embedding of the anchor's caption.
        wanted: unit embedding of the caption of the contrastive image.
    """
    moved = np.asarray(candidate, np.float64) - np.asarray(anchor, np.float64)
    turned = np.asarray(wanted, np.float64) - np.asarray(caption, np.float64)
    return round(float(np.clip(moved @ turned, -4, 4)), _DECIMALS)


def _explained_areas(change: Change, difference: DifferenceType) -> list[Area]:
    """Return the areas that a difference of the type explains.

    For an attribute these include areas that changed as the largest did: three apples turn green.
    """
    areas = changed_areas(change)
    if difference is not DifferenceType.ENTITY_ATTRIBUTE:
        return areas[: _AREAS[difference]]
    return [area for area in areas if math.dist(area.colour, areas[0].colour) <= _SAME_COLOUR]


def _outside(mask: Mask, boxes: Sequence[Box]) -> float:
    """Return the share of the image's pixels that changed outside all boxes."""
    left_over = mask.copy()
    for left, top, right, bottom in boxes:
        rows = slice(max(0, int(top) - _EDGE_PX), max(0, math.ceil(bottom) + _EDGE_PX))
        left_over[rows, max(0, int(left) - _EDGE_PX) : max(0, math.ceil(right) + _EDGE_PX)] = False
    return round(float(left_over.mean()), _DECIMALS)


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return (min(lefts), min(tops), max(rights), max(bottoms))


# The verdict: whether the image was edited at all, and warnings about the edit.

STAGE = "judge_edits"

NO_CHANGE = "no_change"
"""The reason of a rejection after which an edit is retried with another seed."""


def judge_edit(
    measurement: EditMeasurement, difference: DifferenceType, settings: EditCheckSettings
) -> tuple[str, ...] | Rejection:
    """Return warnings about an edit as sentences, or a rejection (`no_change`).

    An edit is rejected if almost nothing changed visibly, or if the candidate fits the wanted
    caption no better than the anchor does by the embedder.
    """
    changed, outside = measurement.changed_share, measurement.outside_share
    apart = measurement.apart_share
    least = settings.least_shift
    shift = None if least is None else measurement.shift
    detail = ""
    if changed < settings.least_changed_share:
        detail = (
            f"{_percent(changed)} of the picture changed visibly, "
            f"wanted {_percent(settings.least_changed_share)} at least"
        )
    elif least is not None and shift is not None and shift <= least:
        detail = (
            "the wanted detail did not change: the edited image fits the wanted caption no better "
            f"than the anchor does (shift {shift:+.3f}, wanted more than {least:g})"
        )
    if detail:
        return Rejection.of(STAGE, NO_CHANGE, detail, **measurement.model_dump(mode="json"))
    warnings: list[str] = []
    if outside is not None and changed - outside < settings.least_changed_share:
        warnings.append("Next to nothing changed in the wanted region.")
    if outside is not None and outside >= settings.doubtful_outside_share:
        warnings.append(f"{_percent(outside)} of the picture changed outside the wanted region.")
    if apart is not None and apart >= settings.doubtful_outside_share:
        warnings.append(
            f"{_percent(apart)} of the picture changed in further places than one such change "
            "explains."
        )
    if concerns_all(difference):
        if changed < settings.doubtful_global_share:
            warnings.append(
                f"Only {_percent(changed)} of the picture changed, though {difference} concerns "
                "all of it."
            )
    elif changed >= settings.doubtful_changed_share:
        warnings.append(
            f"{_percent(changed)} of the picture changed, though {difference} concerns one thing "
            "in it."
        )
    doubtful_shift = settings.doubtful_shift
    if apart is not None:  # at an unknown place, only the embedder can identify the intended change
        doubtful_shift = max(doubtful_shift, settings.doubtful_unplaced_shift)
    if shift is not None and shift < doubtful_shift:
        warnings.append(
            f"The wanted detail may not have changed: the image fits the wanted caption hardly "
            f"better than the anchor does (shift {shift:+.3f})."
        )
    return tuple(warnings)


def _percent(share: float) -> str:
    """Format a share in percent with as many digits as are meaningful."""
    percents = 100 * share
    return f"{percents:.0f} %" if percents >= 10 else f"{percents:.2g} %"


# The anchor with the changed areas marked.

_TINT = np.array([230, 159, 0], np.float32)
"""Orange (Okabe and Ito, 2008), which is distinct from grey in all kinds of colour blindness."""
_TINT_SHARE = 0.6
_PALE = 0.55
"""Opacity of the white over unchanged pixels."""
_CLOSED_PX = 9
"""Holes up to this width, in pixels of the comparison, are filled."""
_LINE_SHARE = 0.0025
"""Width of the line around a change, as a share of the longer side."""


def difference_overlay(anchor: Image.Image, change: Change) -> bytes:
    """Draw the anchor in pale grey with changes tinted and outlined, as PNG.

    For images of the same scene from the same viewpoint, such as edits. The result has the anchor's
    size.
    """
    # a changed object is shown as one area
    closed = _morphed(change.mask, cv2.MORPH_CLOSE, _CLOSED_PX)
    grown = cv2.resize(closed.astype(np.float32), anchor.size, interpolation=cv2.INTER_LINEAR)
    mask = np.asarray(grown, np.float32) >= 0.5
    grey = np.asarray(anchor.convert("L"), np.float32)
    ground = np.repeat((255 - (255 - grey) * (1 - _PALE))[..., None], 3, axis=2)
    tinted = grey[..., None] * (1 - _TINT_SHARE) + _TINT * _TINT_SHARE
    ground[mask] = tinted[mask]
    pixels = np.ascontiguousarray(ground.round().astype(np.uint8))
    # a black line with a white border is visible on every background
    found: Any = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    width = max(1, round(_LINE_SHARE * max(mask.shape)))
    cv2.drawContours(pixels, found[0], -1, (255, 255, 255), 3 * width)
    cv2.drawContours(pixels, found[0], -1, (20, 20, 20), width)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
