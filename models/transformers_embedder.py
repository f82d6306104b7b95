"""CLIP, SigLIP and SigLIP 2 as transformers has them: one vector an image, one a text."""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from models.embedding import ImageTextEmbedder, plain_picture
from models.torch_batches import TorchEmbedder, loading_faults
from models.transformers_loading import configuration_of, load_network, processor_of
from schemas.embedding import TransformersEmbedder
from schemas.errors import MissingExtraError, ModelError

_CLASSES = {"clip": "CLIPModel", "siglip": "SiglipModel", "siglip2": "Siglip2Model"}
_BLIP2 = "blip-2"
_SIGLIP_TOKENS = 64


def load_transformers_embedder(spec: TransformersEmbedder) -> ImageTextEmbedder:
    """The embedder of the class that the model's configuration names.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is none of these classes.
    """
    try:
        import torch  # noqa: F401
        import torchvision  # noqa: F401
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the embedder {spec.name!r}", "torch") from error
    with loading_faults("transformers", spec.ref):
        found = configuration_of(transformers, spec.ref).model_type
        if found in _CLASSES:
            return DualEncoder(spec, found)
        if found == _BLIP2:
            from models.blip2_embedder import Blip2Embedder

            return Blip2Embedder(spec)
    wanted = ", ".join(map(repr, (*_CLASSES, _BLIP2)))
    raise ModelError(f"{spec.ref} is a {found!r}; wanted one of {wanted}")


class DualEncoder(TorchEmbedder[TransformersEmbedder]):
    """A tower for images and one for texts, each with a projection into the common space.

    Texts longer than the context are cut. Those of SigLIP are put into lower case and filled up to
    64 tokens, as in its training.
    """

    def __init__(self, spec: TransformersEmbedder, kind: str) -> None:
        import torch
        import transformers

        super().__init__(spec)
        self._is_siglip = kind != "clip"
        network = load_network(getattr(transformers, _CLASSES[kind]), spec, self._dtype)
        self._model = network.to(self._device)
        self._processor = processor_of(transformers, spec.ref)
        text = network.config.text_config
        self._most_tokens = _SIGLIP_TOKENS if self._is_siglip else text.max_position_embeddings
        with torch.inference_mode():
            self.dimension = self._encode_texts([""]).shape[1]

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        pictures = [plain_picture(image) for image in images]
        inputs = self._processor.image_processor(pictures, return_tensors="pt")
        inputs = inputs.to(self._device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self._dtype)
        return self._model.get_image_features(**inputs).pooler_output

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        padding: bool | str = True
        if self._is_siglip:
            texts, padding = [text.lower() for text in texts], "max_length"
        tokens = self._processor.tokenizer(
            list(texts),
            padding=padding,
            truncation=True,
            max_length=self._most_tokens,
            return_tensors="pt",
        )
        return self._model.get_text_features(**tokens.to(self._device)).pooler_output
