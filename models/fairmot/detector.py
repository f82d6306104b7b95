"""FairMOT behind the seam of person detectors."""

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.fairmot.digest import checkpoint_digest
from models.fairmot.letterbox import Size, boxes_in_frame, letterbox, network_input, size_of
from models.torch_device import torch_device
from models.tracking.detector import Detections
from models.tracking.frame import Frame
from schemas.chat import ModelRef
from schemas.errors import MissingExtraError, ModelError
from schemas.tracking import FairMOTDetector

if TYPE_CHECKING:
    import torch

    from models.fairmot.network.decoding import Candidates
    from models.fairmot.network.fairmot import FairMOTNetwork, HeadMaps


_ONE_AT_A_TIME = Lock()


@lru_cache(maxsize=1)
def _network(checkpoint: Path, sha256: str, device: "torch.device") -> "FairMOTNetwork":
    """The network on a device; every video's detector has the same, which remembers nothing."""
    from models.fairmot.network.checkpoint import load_network

    return load_network(checkpoint, sha256).to(device)


class FairMOTPersonDetector:
    """Finds people and their embeddings with a published checkpoint; every frame by itself.

    FairMOT's own decoding knows no other suppression than that a cell must be the likeliest of its
    eight neighbours. Here boxes that a better one covers by more than `overlap_threshold` (IoU) are
    left out too; a threshold of 1 gives the decoding of the reference.

    Attributes:
        network: the network, which detectors of the same checkpoint on the same device share.

    Raises:
        MissingExtraError: torch or torchvision is not installed.
        ModelError: the checkpoint is missing or cannot be used, or the device cannot.
    """

    def __init__(self, spec: FairMOTDetector) -> None:
        try:
            import torch
            import torchvision  # noqa: F401
        except ModuleNotFoundError as error:
            what = f"the detector {spec.name!r} (provider 'fairmot')"
            raise MissingExtraError(what, "torch") from error
        self._torch = torch
        self._spec = spec
        self._input_size = Size(spec.input_width_px, spec.input_height_px)
        self._device = torch_device(spec.device)
        digest = spec.checkpoint_sha256 or checkpoint_digest(spec.checkpoint)
        with _ONE_AT_A_TIME:
            self.network = _network(spec.checkpoint, digest, self._device)

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the profile states them."""
        return self._spec.ref

    def detect(self, frame: Frame) -> Detections:
        """The people in `frame`.

        Raises:
            ModelError: the network does not fit into the memory of the device.
        """
        from models.fairmot.network.fairmot import STRIDE

        with self._torch.inference_mode():
            people = self._find(network_input(letterbox(frame.pixels, self._input_size)))
            boxes, scores, embeddings = (
                part.cpu().numpy() for part in (people.boxes_xyxy, people.scores, people.embeddings)
            )
        cells = Size(self._input_size.width // STRIDE, self._input_size.height // STRIDE)
        return Detections(boxes_in_frame(boxes, cells, size_of(frame.pixels)), scores, embeddings)

    def state(self) -> bytes:
        """Nothing: earlier frames are not remembered."""
        return b""

    def restore(self, state: bytes) -> None:
        """Takes nothing, and nothing else.

        Raises:
            ModelError: the state is another detector's.
        """
        if state:
            raise ModelError(f"{self.ref} remembers nothing; got {len(state)} bytes of state")

    def _find(self, images: NDArray[np.float32]) -> "Candidates":
        from models.fairmot.network.decoding import decode, select_people

        spec = self._spec
        candidates = decode(self._maps(images), spec.most_people)
        return select_people(candidates, spec.score_threshold, spec.overlap_threshold)

    def _maps(self, images: NDArray[np.float32]) -> "HeadMaps":
        # On a GPU, rounded (TF32) or freely chosen algorithms would give other numbers each run.
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
