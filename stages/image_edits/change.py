"""Where two pictures differ visibly."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.contrast import EditCheckSettings
from schemas.proposals import Box
from stages.image_edits.alignment import Lab, compared_size, lab_of, laid_over

if TYPE_CHECKING:
    from PIL import Image

Mask = NDArray[np.bool_]
"""What has changed, of shape (height, width)."""

_AROUND_PX = 5
"""How wide the place is that a pixel is compared with, in pixels of the comparison."""
_GRAIN_PX = 3
"""What is thinner than this, in pixels of the comparison, is an edge that was drawn anew."""
_JOINED_PX = 7
"""Changes this near to each other are one."""


class Change(NamedTuple):
    """What an edit changed, at the size of the comparison.

    Attributes:
        mask: where it did.
        colours: how colours moved, of shape (height, width, 3).
    """

    mask: Mask
    colours: Lab

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.mask.shape[1], self.mask.shape[0]


class Area(NamedTuple):
    """A changed area.

    Attributes:
        box: (left, top, right, bottom), the ends exclusive.
        pixels: how many of its pixels changed.
        colour: how these moved on average, as a vector in CIELAB.
    """

    box: tuple[int, int, int, int]
    pixels: int
    colour: tuple[float, float, float]


def change_between(
    anchor: "Image.Image", edited: "Image.Image", settings: EditCheckSettings
) -> Change:
    """Where `edited` differs visibly from `anchor`.

    Both are smoothed, and a pixel has changed if its colour is none that the other picture has
    around that place: so noise, blocks of a compression and edges that were drawn anew a pixel
    beside do not count. What is left of those is thin and is taken out.
    """
    size = compared_size(*anchor.size, settings.side_px)
    one = lab_of(anchor, size)
    other, known = laid_over(one, lab_of(edited, size), settings.drift)
    one, other = _smoothed(one, settings), _smoothed(other, settings)
    difference = np.maximum(_beyond(one, other), _beyond(other, one))
    visible = (difference >= settings.visible_difference) & known
    return Change(np.asarray(_without_grain(visible), np.bool_), other - one)


def changed_areas(change: Change) -> list[Area]:
    """The areas that changed, the largest first; near ones are one area."""
    import cv2

    joined = cv2.dilate(change.mask.astype(np.uint8), _disc(_JOINED_PX))
    count, labels = cv2.connectedComponents(joined, connectivity=8)
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
    """A box of a picture of one size (width, height) in pixels of another size."""
    across, down = to_size[0] / from_size[0], to_size[1] / from_size[1]
    left, top, right, bottom = box
    return (left * across, top * down, right * across, bottom * down)


def _smoothed(picture: Lab, settings: EditCheckSettings) -> Lab:
    import cv2

    return np.asarray(cv2.GaussianBlur(picture, (0, 0), settings.smoothing_px), np.float32)


def _beyond(picture: Lab, other: Lab) -> NDArray[np.float32]:
    """How far each colour of `picture` is from those that `other` has around it, as a ΔE*ab."""
    import cv2

    lowest, highest = cv2.erode(other, _disc(_AROUND_PX)), cv2.dilate(other, _disc(_AROUND_PX))
    beyond = np.maximum(np.maximum(lowest - picture, picture - highest), 0)
    return np.asarray(np.linalg.norm(beyond, axis=2), np.float32)


def _without_grain(mask: Mask) -> NDArray[np.uint8]:
    import cv2

    return np.asarray(
        cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, _disc(_GRAIN_PX)), np.uint8
    )


def _disc(across_px: int) -> NDArray[np.uint8]:
    import cv2

    return np.asarray(
        cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (across_px, across_px)), np.uint8
    )
