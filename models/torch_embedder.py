"""Embed with a torch network: in batches, to rows of unit length on the CPU."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from PIL import Image

from loupe.models.adapter import Adapter
from loupe.models.embedding import Vectors
from loupe.models.weights import torch_device
from loupe.schemas.embedding import TorchEmbedderSpec
from loupe.schemas.errors import ModelError

if TYPE_CHECKING:
    import torch


_Input = TypeVar("_Input")
SpecT = TypeVar("SpecT", bound=TorchEmbedderSpec)


class TorchEmbedder(Adapter[SpecT], ABC):
    """An `ImageTextEmbedder` of a network that encodes a batch to a tensor (batch, dimension).

    A subclass loads its network after this constructor, then sets `dimension`.
    """

    dimension: int
    """The length of a vector."""

    def __init__(self, spec: SpecT) -> None:
        import torch

        super().__init__(spec)
        self._device = torch_device(spec.device)
        self._dtype: torch.dtype = getattr(torch, spec.dtype)

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each image: see `ImageTextEmbedder`."""
        return self._embed(images, self._encode_images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: see `ImageTextEmbedder`."""
        return self._embed(texts, self._encode_texts)

    @abstractmethod
    def _encode_images(self, images: Sequence[Image.Image]) -> "torch.Tensor": ...

    @abstractmethod
    def _encode_texts(self, texts: Sequence[str]) -> "torch.Tensor": ...

    def _embed(
        self, inputs: Sequence[_Input], encode: "Callable[[Sequence[_Input]], torch.Tensor]"
    ) -> Vectors:
        import torch

        model = self._spec.ref
        size = self._spec.batch_size
        rows = np.empty((len(inputs), self.dimension), np.float32)
        for start in range(0, len(inputs), size):
            batch = inputs[start : start + size]
            try:
                with torch.inference_mode():
                    vectors = encode(batch).float()
                    vectors = vectors / vectors.norm(dim=1, keepdim=True)
            except torch.OutOfMemoryError as error:
                raise ModelError(
                    f"{len(batch)} inputs do not fit into memory at once; "
                    f"lower batch_size ({size}) of {model}"
                ) from error
            rows[start : start + len(batch)] = vectors.cpu().numpy()
        if not np.isfinite(rows).all():
            place = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ModelError(
                f"{model} gives no direction for input {place}: its vector is zero or NaN; "
                f"a wider dtype may help"
            )
        return rows
