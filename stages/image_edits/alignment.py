"""Two pictures of the same size, laid over each other as well as they go.

A diffusion model makes the whole picture anew: it may come back moved or zoomed by a pixel or two,
and a little warmer. None of that is an edit, so it is taken off before pixels are compared.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

Lab = NDArray[np.float32]
"""A picture in CIELAB, of shape (height, width, 3): L* from 0 to 100, a* and b* about as wide."""

_MOST_MOVED = 0.03
"""What moved further than this share of the longer side is moved on purpose."""
_FEWEST_PX = 32
_ITERATIONS, _PRECISION = 60, 1e-5
_UNTOUCHED_SHARE = 0.2
"""Where so much of what has edges is the very same, the picture lies where it lay."""
_ENOUGH = 20.0
"""A colour difference (ΔE*ab) beyond which two pixels are other pixels."""
_BETTER = 0.98
"""A registration is believed if it leaves less than this share of the difference."""


def lab_of(picture: "Image.Image", size: tuple[int, int]) -> Lab:
    """The picture in CIELAB, scaled to `size` (width, height)."""
    import cv2
    from PIL import Image

    scaled = picture.convert("RGB")
    if scaled.size != size:
        scaled = scaled.resize(size, Image.Resampling.LANCZOS, reducing_gap=3)
    pixels = np.asarray(scaled, np.float32) / 255
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2LAB), np.float32)


def compared_size(width_px: int, height_px: int, side_px: int) -> tuple[int, int]:
    """The size of a picture whose longer side is `side_px`; smaller ones are enlarged."""
    scale = side_px / max(width_px, height_px)
    return max(1, round(width_px * scale)), max(1, round(height_px * scale))


def laid_over(anchor: Lab, edited: Lab, drift: float) -> tuple[Lab, NDArray[np.bool_]]:
    """`edited`, moved onto `anchor` and without its drift in colour.

    Args:
        anchor: what stays where it is.
        edited: of the same shape.
        drift: the most that is taken off, as a colour difference.

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
    """The share of the anchor's edges that the other picture has exactly so.

    Flat parts say nothing: they are the same wherever they lie.
    """
    light = anchor[..., 0]
    edges = np.zeros(light.shape, np.bool_)
    edges[:, 1:] |= light[:, 1:] != light[:, :-1]
    edges[1:] |= light[1:] != light[:-1]
    if not edges.any():
        return 0.0
    return float((anchor[edges] == edited[edges]).all(axis=1).mean())


def _registered(anchor: Lab, edited: Lab) -> tuple[Lab, NDArray[np.bool_]]:
    """`edited` moved, zoomed and sheared a little, where that makes the two more alike."""
    import cv2

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
    """The mean difference of two pictures; more than enough is enough, so that edits say little."""
    differences = np.linalg.norm(edited - anchor, axis=2)[known]
    return float(np.minimum(differences, _ENOUGH).mean())


def _warp(anchor: NDArray[np.float32], edited: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The small affine map from the anchor's pixels to the edited ones; None where there is none.

    By enhanced correlation (Evangelidis and Psarakis, 2008), which neither brightness nor contrast
    disturbs.
    """
    import cv2

    height, width = anchor.shape
    if min(height, width) < _FEWEST_PX:
        return None
    warp = np.eye(2, 3, dtype=np.float32)
    until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, _ITERATIONS, _PRECISION)
    try:
        _, found = cv2.findTransformECC(
            anchor, edited, warp, cv2.MOTION_AFFINE, until, np.ones((height, width), np.uint8), 5
        )
    except cv2.error:  # it does not converge: the two have too little in common
        return None
    corners = np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]], np.float32)
    by_px = np.linalg.norm(corners @ np.asarray(found).T - corners[:, :2], axis=1)
    return (
        np.asarray(found, np.float32) if by_px.max() <= _MOST_MOVED * max(width, height) else None
    )
