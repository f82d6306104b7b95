"""Two-tower models as transformers has them: a vector an image, one a text."""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from models.embedding import ImageTextEmbedder, plain_picture
from models.torch_batches import TorchEmbedder, loading_faults
from models.transformers_loading import configuration_of, load_network, processor_of
from schemas.embedding import TransformersEmbedder
from schemas.errors import MissingExtraError, ModelError

_CLASSES = {
    "align": "AlignModel",
    "altclip": "AltCLIPModel",
    "clip": "CLIPModel",
    "siglip": "SiglipModel",
    "siglip2": "Siglip2Model",
}
_TRAINED_TOKENS = {"align": 64, "altclip": 77, "siglip": 64, "siglip2": 64}
"""How many tokens of a text were read in training, where that is below the network's limit."""
_PADDED = ("align", "siglip", "siglip2")
"""Texts of these were filled up to that length in training."""
_BLIP, _BLIP2 = "blip", "blip-2"


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
            return _DualEncoder(spec, found)
        if found == _BLIP:
            return _BlipEmbedder(spec)
        if found == _BLIP2:
            return Blip2Embedder(spec)
    wanted = ", ".join(map(repr, (*_CLASSES, _BLIP, _BLIP2)))
    raise ModelError(f"{spec.ref} is a {found!r}; wanted one of {wanted}")


class _DualEncoder(TorchEmbedder[TransformersEmbedder]):
    """A tower for images and one for texts, each with a projection into the common space.

    Texts longer than those of its training are cut. Those of ALIGN and SigLIP are filled up to 64
    tokens, and SigLIP's put into lower case, as in their training.
    """

    def __init__(self, spec: TransformersEmbedder, kind: str) -> None:
        import torch
        import transformers

        super().__init__(spec)
        self._lower_case = kind.startswith("siglip")
        self._padding: bool | str = "max_length" if kind in _PADDED else True
        network = load_network(getattr(transformers, _CLASSES[kind]), spec, self._dtype)
        self._model = network.to(self._device)
        self._processor = processor_of(transformers, spec.ref)
        text = network.config.text_config
        longest = text.max_position_embeddings
        self._most_tokens = min(_TRAINED_TOKENS.get(kind, longest), longest)
        with torch.inference_mode():
            self.dimension = self._encode_texts([""]).shape[1]

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        pictures = [plain_picture(image) for image in images]
        inputs = self._processor.image_processor(pictures, return_tensors="pt")
        inputs = inputs.to(self._device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self._dtype)
        return self._model.get_image_features(**inputs).pooler_output

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        tokens = self._processor.tokenizer(
            [text.lower() if self._lower_case else text for text in texts],
            padding=self._padding,
            truncation=True,
            max_length=self._most_tokens,
            return_tensors="pt",
        )
        return self._model.get_text_features(**tokens.to(self._device)).pooler_output


class _BlipEmbedder(TorchEmbedder[TransformersEmbedder]):
    """BLIP's image-text contrast (Li et al., ICML 2022, section 3.2): the first token of each side.

    Its matching head, with which papers rerank the first candidates, is not used.
    """

    def __init__(self, spec: TransformersEmbedder) -> None:
        import transformers

        super().__init__(spec)
        network = load_network(transformers.BlipForImageTextRetrieval, spec, self._dtype)
        self._model = network.to(self._device)
        self._processor = processor_of(transformers, spec.ref)
        self._most_tokens = network.config.text_config.max_position_embeddings
        self.dimension = network.config.image_text_hidden_size

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        pictures = [plain_picture(image) for image in images]
        pixels = self._processor.image_processor(pictures, return_tensors="pt")["pixel_values"]
        seen = self._model.vision_model(pixel_values=pixels.to(self._device, self._dtype))
        return self._model.vision_proj(seen.last_hidden_state[:, 0])

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        tokens = self._processor.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._most_tokens,
            return_token_type_ids=False,
            return_tensors="pt",
        ).to(self._device)
        read = self._model.text_encoder(**tokens)
        return self._model.text_proj(read.last_hidden_state[:, 0])


# BLIP-2's image-text contrast (Li et al., ICML 2023, section 3.2) as transformers has it.


class Blip2Embedder(TorchEmbedder[TransformersEmbedder]):
    """The vectors of BLIP-2's Q-Former: of a text its first token's, of an image its queries' mean.

    BLIP-2 compares a text with each of an image's 32 query vectors and takes the greatest cosine.
    Here an image has one vector, the mean of the 32 (each of unit length): its cosine with a text
    is, up to a factor of the image, the mean of the 32 cosines. That keeps images comparable with
    each other, too, as mining look-alikes wants it, and a gallery 32 times smaller; the figures are
    not those of the maximum, and `docs/embedders.md` says so.
    """

    def __init__(self, spec: TransformersEmbedder) -> None:
        import transformers

        super().__init__(spec)
        model_class = transformers.Blip2ForImageTextRetrieval
        self._model = load_network(model_class, spec, self._dtype).to(self._device)
        self._processor = processor_of(transformers, spec.ref)
        config = self._model.config
        self._most_tokens = config.qformer_config.max_position_embeddings
        self.dimension = config.image_text_hidden_size

    def query_vectors(self, images: Sequence[Image.Image]) -> Any:
        """The unit vectors of all queries, as a tensor of shape (n, queries, d)."""
        import torch

        pictures = [plain_picture(image) for image in images]
        pixels = self._processor.image_processor(pictures, return_tensors="pt")["pixel_values"]
        model = self._model
        seen = model.vision_model(pixel_values=pixels.to(self._device, self._dtype))[0]
        asked = model.qformer(
            query_embeds=model.query_tokens.expand(len(pictures), -1, -1),
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(
                seen.shape[:-1], dtype=torch.long, device=self._device
            ),
        ).last_hidden_state
        return _unit(model.vision_projection(asked.to(model.vision_projection.weight.dtype)))

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        return self.query_vectors(images).mean(dim=1)

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        tokens = self._processor.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._most_tokens,
            return_tensors="pt",
        ).to(self._device)
        model = self._model
        read = model.qformer(
            query_embeds=model.embeddings(input_ids=tokens["input_ids"]),
            query_length=0,
            attention_mask=tokens["attention_mask"],
        ).last_hidden_state
        return model.text_projection(read[:, 0].to(model.text_projection.weight.dtype))


def _unit(vectors: Any) -> Any:
    vectors = vectors.float()
    return vectors / vectors.norm(dim=-1, keepdim=True)
