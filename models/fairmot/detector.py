"""FairMOT as a person detector."""

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.models.adapter import Adapter
from loupe.models.tracking.detector import Detections, Frame, Pixels
from loupe.models.weights import checkpoint_digest, torch_device
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.tracking import FairMOTDetector

if TYPE_CHECKING:
    import torch

    from loupe.models.fairmot.network import Candidates, FairMOTNetwork, HeadMaps


# Converts frames to the network's input, and the network's boxes back to the frame.

_PADDING = 128  # on uint8; the network was trained with 127.5
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
    """Return the width and height of an image."""
    height, width, _ = pixels.shape
    return Size(width, height)


def place(frame: Size, network: Size) -> Placement:
    """Scale the frame to fit and centre it; an odd pixel of padding goes right or below."""
    ratio = min(network.height / frame.height, network.width / frame.width)
    # The width of a frame that is far longer than wide is at least one pixel.
    size = Size(max(round(frame.width * ratio), 1), max(round(frame.height * ratio), 1))
    beside = (network.width - size.width) / 2
    above = (network.height - size.height) / 2
    return Placement(
        size,
        left=round(beside - 0.1),
        top=round(above - 0.1),
        right=round(beside + 0.1),
        bottom=round(above + 0.1),
    )


def letterbox(pixels: Pixels, network: Size) -> Pixels:
    """Scale the image up or down to the network's size, keeping its aspect ratio, on grey."""
    import cv2

    placement = place(size_of(pixels), network)
    resized = cv2.resize(np.ascontiguousarray(pixels), placement.size, interpolation=cv2.INTER_AREA)
    boxed = np.full((network.height, network.width, 3), _PADDING, np.uint8)
    bottom = network.height - placement.bottom
    right = network.width - placement.right
    boxed[placement.top : bottom, placement.left : right] = resized
    return boxed


def network_input(boxed: Pixels) -> NDArray[np.float32]:
    """Convert (h, w, 3) uint8 to (1, 3, h, w) float32 in [0, 1].

    FairMOT has a mean and a deviation in its options, but was trained without applying them.
    """
    channels_first = np.ascontiguousarray(boxed.transpose(2, 0, 1)[None], dtype=np.float32)
    return channels_first / np.float32(_CHANNEL_MAXIMUM)


def boxes_in_frame(
    boxes_xyxy: NDArray[np.floating], cells: Size, frame: Size
) -> NDArray[np.float32]:
    """Convert (n, 4) boxes in cells of a map of size `cells` to pixels of the frame, not clipped.

    This is FairMOT's own inverse: one scale for both axes about the centre. It ignores the rounding
    in `place` and so differs from the exact inverse by less than a cell.
    """
    scale = max(cells.width / cells.height * frame.height, frame.width) / cells.width
    middle_of_cells = np.array([cells.width, cells.height] * 2) / 2
    middle_of_frame = np.array([frame.width, frame.height] * 2) / 2
    boxes = middle_of_frame + scale * (boxes_xyxy.astype(np.float64) - middle_of_cells)
    return boxes.astype(np.float32)


# FairMOT as a person detector.

_ONE_AT_A_TIME = Lock()


@lru_cache(maxsize=1)
def _network(checkpoint: Path, sha256: str, device: "torch.device") -> "FairMOTNetwork":
    """Return the network on a device; all detectors share it, because it has no state."""
    from loupe.models.fairmot.network import load_network

    return load_network(checkpoint, sha256).to(device)


class FairMOTPersonDetector(Adapter[FairMOTDetector]):
    """Finds people and their embeddings with a published checkpoint; frames are independent.

    FairMOT's own decoding has no other suppression than that a cell must score highest among its
    eight neighbours. Here, boxes that overlap a better one by more than `overlap_threshold` (IoU)
    are left out as well; a threshold of 1 is the decoding of the reference.

    Attributes:
        network: the network, which detectors of the same checkpoint on the same device share.

    Raises:
        MissingExtraError: torch or torchvision is not installed.
        ModelError: the checkpoint is missing or invalid, or the device cannot be used.
    """

    def __init__(self, spec: FairMOTDetector) -> None:
        with needs_extra(f"the detector {spec.name!r} (provider 'fairmot')"):
            import timm  # noqa: F401
            import torch
            import torchvision  # noqa: F401
        self._torch = torch
        super().__init__(spec)
        self._input_size = Size(spec.input_width_px, spec.input_height_px)
        self._device = torch_device(spec.device)
        digest = spec.checkpoint_sha256 or checkpoint_digest(spec.checkpoint)
        with _ONE_AT_A_TIME:
            self.network = _network(spec.checkpoint, digest, self._device)

    def detect(self, frame: Frame) -> Detections:
        """Return the people in `frame`.

        Raises:
            ModelError: the network does not fit into the memory of the device.
        """
        from loupe.models.fairmot.network import STRIDE

        with self._torch.inference_mode():
            people = self._find(network_input(letterbox(frame.pixels, self._input_size)))
            boxes, scores, embeddings = (
                part.cpu().numpy() for part in (people.boxes_xyxy, people.scores, people.embeddings)
            )
        cells = Size(self._input_size.width // STRIDE, self._input_size.height // STRIDE)
        return Detections(boxes_in_frame(boxes, cells, size_of(frame.pixels)), scores, embeddings)

    def _find(self, images: NDArray[np.float32]) -> "Candidates":
        from loupe.models.fairmot.network import decode, select_people

        spec = self._spec
        candidates = decode(self._maps(images), spec.most_people)
        return select_people(candidates, spec.score_threshold, spec.overlap_threshold)

    def _maps(self, images: NDArray[np.float32]) -> "HeadMaps":
        # On a GPU, rounding (TF32) or nondeterministic algorithms would change the results per run.
        exact = self._torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        )
        try:
            with exact:
                maps: HeadMaps = self.network(self._torch.from_numpy(images).to(self._device))
        except self._torch.OutOfMemoryError as error:
            raise ModelError(
                f"{self.ref} does not fit into the memory of {self._device} at "
                f"{self._input_size.width}x{self._input_size.height} pixels"
            ) from error
        return maps
