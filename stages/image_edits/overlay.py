"""The anchor with what an edit changed marked on it."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.contrast import EditCheckSettings
from stages.image_edits.change import Mask, change_between

if TYPE_CHECKING:
    from PIL import Image

_TINT = np.array([230, 159, 0], np.float32)
"""Orange (Okabe and Ito, 2008): told from grey in every kind of colour vision."""
_TINT_SHARE = 0.6
_PALE = 0.55
"""How much white lies on what did not change."""
_CLOSED_PX = 9
"""Holes no wider than this, in pixels of the comparison, are filled."""
_LINE_SHARE = 0.0025
"""How wide the line around a change is, as a share of the longer side."""


def difference_overlay(
    anchor: "Image.Image", edited: "Image.Image", settings: EditCheckSettings
) -> bytes:
    """The anchor in pale grey, what changed tinted with a dark line around it, as PNG.

    For pictures that show the same from the same place: edits. It has the size of the anchor.
    """
    from PIL import Image

    change = change_between(anchor, edited, settings)
    mask = _enlarged(_closed(change.mask), anchor.size)
    grey = np.asarray(anchor.convert("L"), np.float32)
    ground = np.repeat((255 - (255 - grey) * (1 - _PALE))[..., None], 3, axis=2)
    tinted = grey[..., None] * (1 - _TINT_SHARE) + _TINT * _TINT_SHARE
    ground[mask] = tinted[mask]
    pixels = np.ascontiguousarray(ground.round().astype(np.uint8))
    _outline(pixels, mask)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def _closed(mask: Mask) -> Mask:
    """The mask without the small holes in it: a changed thing is shown as one."""
    import cv2

    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (_CLOSED_PX, _CLOSED_PX))
    return np.asarray(cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, disc), np.bool_)


def _enlarged(mask: Mask, size: tuple[int, int]) -> Mask:
    import cv2

    grown = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(grown, np.float32) >= 0.5


def _outline(pixels: NDArray[np.uint8], mask: Mask) -> None:
    """Draws a black line with a white one around it, so that it shows on any ground."""
    import cv2

    found: Any = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    width = max(1, round(_LINE_SHARE * max(mask.shape)))
    cv2.drawContours(pixels, found[0], -1, (255, 255, 255), 3 * width)
    cv2.drawContours(pixels, found[0], -1, (20, 20, 20), width)
