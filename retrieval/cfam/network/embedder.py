"""A trained CFAM as an embedder of images and texts by its global vectors."""

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from models.embedding import plain_picture
from models.fairmot.detector import checkpoint_digest
from models.torch_batches import TorchEmbedder
from models.weights import require_digest
from retrieval.cfam.network.checkpoints import WEIGHTS, load_model
from retrieval.cfam.network.pairs import ClipTokenizer, clip_pixels
from schemas.embedding import CfamEmbedder


class CfamImageTextEmbedder(TorchEmbedder[CfamEmbedder]):
    """The two towers of a checkpoint; the decoder and heads are used in training only.

    Raises:
        ModelError: the checkpoint is missing, damaged, or has another digest than was asked for.
    """

    def __init__(self, spec: CfamEmbedder) -> None:
        super().__init__(spec)
        if spec.checkpoint_sha256 is not None:
            weights = spec.checkpoint / WEIGHTS
            require_digest(weights, spec.checkpoint_sha256, checkpoint_digest(weights))
        self._model = load_model(spec.checkpoint).to(self._device, self._dtype)
        self._size = self._model.settings.backbone
        self._tokenizer = ClipTokenizer(self._size.text_tokens)
        self.dimension = self._model.dimension

    def _encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        pixels = [clip_pixels(plain_picture(image), self._size) for image in images]
        return self._model.encode_images(torch.stack(pixels).to(self._device, self._dtype))

    def _encode_texts(self, texts: Sequence[str]) -> Tensor:
        return self._model.encode_texts(self._tokenizer(texts).to(self._device))
