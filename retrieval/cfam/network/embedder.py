"""A trained CFAM as an embedder: its global vectors, which are all that retrieval compares."""

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from models.embedding import Vectors, plain_picture
from models.fairmot.detector import checkpoint_digest
from models.torch_batches import Batches, torch_device
from models.weights import require_digest
from retrieval.cfam.network.checkpoints import WEIGHTS, load_model
from retrieval.cfam.network.pairs import ClipTokenizer, clip_pixels
from schemas.chat import ModelRef
from schemas.embedding import CfamEmbedder


class CfamImageTextEmbedder:
    """The two towers of a checkpoint; decoder and heads are only for training.

    Images are resized to the network's height and width; texts longer than its length are cut.

    Raises:
        ModelError: the checkpoint is missing, damaged, or has another digest than was asked for.
    """

    def __init__(self, spec: CfamEmbedder) -> None:
        self._spec = spec
        if spec.checkpoint_sha256 is not None:
            weights = spec.checkpoint / WEIGHTS
            require_digest(weights, spec.checkpoint_sha256, checkpoint_digest(weights))
        self._device = torch_device(spec.device)
        self._dtype: torch.dtype = getattr(torch, spec.dtype)
        self._model = load_model(spec.checkpoint).to(self._device, self._dtype)
        self._size = self._model.settings.backbone
        self._tokenizer = ClipTokenizer(self._size.text_tokens)
        self._batches = Batches(spec.ref, spec.batch_size, self._model.dimension)

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the specification states them."""
        return self._spec.ref

    @property
    def dimension(self) -> int:
        """How long a vector is."""
        return self._model.dimension

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each image: see `ImageTextEmbedder`."""
        return self._batches.embed(images, self._encode_images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: see `ImageTextEmbedder`."""
        return self._batches.embed(texts, self._encode_texts)

    def _encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        pixels = [clip_pixels(plain_picture(image), self._size) for image in images]
        return self._model.encode_images(torch.stack(pixels).to(self._device, self._dtype))

    def _encode_texts(self, texts: Sequence[str]) -> Tensor:
        return self._model.encode_texts(self._tokenizer(texts).to(self._device))
