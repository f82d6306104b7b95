"""How a frame gets into the network, and what the network saw gets back into the frame."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tracking.frame import Pixels

_PADDING = 128  # on uint8; 127.5 is what was trained with
_CHANNEL_MAXIMUM = 255


class Size(NamedTuple):
    """Width and height, in pixels or in cells."""

    width: int
    height: int


class Placement(NamedTuple):
    """Where the frame lies in the network's input; padding in pixels."""

    size: Size
    left: int
    top: int
    right: int
    bottom: int


def size_of(pixels: Pixels) -> Size:
    """Width and height of a picture."""
    height, width, _ = pixels.shape
    return Size(width, height)


def place(frame: Size, network: Size) -> Placement:
    """The frame as large as it fits, in the middle; an odd pixel of padding goes right or below."""
    ratio = min(network.height / frame.height, network.width / frame.width)
    # A frame far longer than it is wide still keeps a pixel of width.
    size = Size(max(round(frame.width * ratio), 1), max(round(frame.height * ratio), 1))
    beside, above = (network.width - size.width) / 2, (network.height - size.height) / 2
    return Placement(
        size,
        left=round(beside - 0.1),
        top=round(above - 0.1),
        right=round(beside + 0.1),
        bottom=round(above + 0.1),
    )


def letterbox(pixels: Pixels, network: Size) -> Pixels:
    """The picture at the network's size, its shape kept, on grey; made larger too."""
    import cv2

    placement = place(size_of(pixels), network)
    resized = cv2.resize(np.ascontiguousarray(pixels), placement.size, interpolation=cv2.INTER_AREA)
    boxed = np.full((network.height, network.width, 3), _PADDING, np.uint8)
    bottom, right = network.height - placement.bottom, network.width - placement.right
    boxed[placement.top : bottom, placement.left : right] = resized
    return boxed


def network_input(boxed: Pixels) -> NDArray[np.float32]:
    """(h, w, 3) uint8 to (1, 3, h, w) float32 in [0, 1].

    FairMOT carries a mean and a deviation in its options, and was trained without applying them.
    """
    channels_first = np.ascontiguousarray(boxed.transpose(2, 0, 1)[None], dtype=np.float32)
    return channels_first / np.float32(_CHANNEL_MAXIMUM)


def boxes_in_frame(
    boxes_xyxy: NDArray[np.floating], cells: Size, frame: Size
) -> NDArray[np.float32]:
    """(n, 4) boxes in cells of a map of size `cells` to pixels of the frame, not clipped.

    This is FairMOT's own way back: one scale for both axes about the middle, which does not know of
    the rounding in `place` and so differs from its exact inverse by less than a cell.
    """
    scale = max(cells.width / cells.height * frame.height, frame.width) / cells.width
    middle_of_cells = np.array([cells.width, cells.height] * 2) / 2
    middle_of_frame = np.array([frame.width, frame.height] * 2) / 2
    boxes = middle_of_frame + scale * (boxes_xyxy.astype(np.float64) - middle_of_cells)
    return boxes.astype(np.float32)
