"""Embedders of transformers: two-tower models, and multimodal language models."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.models.embedding import ImageTextEmbedder
from loupe.models.torch_embedder import TorchEmbedder
from loupe.models.weights import (
    configuration_of,
    load_network,
    loading_faults,
    processor_of,
)
from loupe.schemas.decoders import plain_picture
from loupe.schemas.embedding import MllmEmbedder, TransformersEmbedder, mllm_families
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra

_CLASSES = {
    "align": "AlignModel",
    "altclip": "AltCLIPModel",
    "clip": "CLIPModel",
    "siglip": "SiglipModel",
    "siglip2": "Siglip2Model",
}
_TRAINED_TOKENS = {"align": 64, "altclip": 77, "siglip": 64, "siglip2": 64}
"""The number of tokens of a text in training, if it is below the network's limit."""
_PADDED = ("align", "siglip", "siglip2")
"""Texts of these were padded to that length in training."""
_BLIP = "blip"
_BLIP2 = "blip-2"


def load_transformers_embedder(spec: TransformersEmbedder) -> ImageTextEmbedder:
    """The embedder of the class that the model's configuration names.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is none of these classes.
    """
    with needs_extra(f"the embedder {spec.name!r}"):
        import torch  # noqa: F401
        import torchvision  # noqa: F401
        import transformers
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

    Texts longer than in training are cut. As in their training, texts of ALIGN and SigLIP are
    padded to 64 tokens, and texts of SigLIP lower-cased.
    """

    def __init__(self, spec: TransformersEmbedder, kind: str) -> None:
        import torch
        import transformers

        super().__init__(spec)
        self._lower_case = kind.startswith("siglip")
        self._padding: bool | str = "max_length" if kind in _PADDED else True
        network = load_network(
            getattr(transformers, _CLASSES[kind]), spec.ref, spec.folder_sha256, dtype=self._dtype
        )
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


class BlipFamily(TorchEmbedder[TransformersEmbedder]):
    """BLIP and BLIP-2: an image-text contrast, and a head that judges pairs."""

    def __init__(self, spec: TransformersEmbedder, model_class: str) -> None:
        import transformers

        super().__init__(spec)
        network = load_network(
            getattr(transformers, model_class), spec.ref, spec.folder_sha256, dtype=self._dtype
        )
        self._model = network.to(self._device)
        self._processor = processor_of(transformers, spec.ref)
        self.dimension = network.config.image_text_hidden_size

    def see(self, images: Sequence[Image.Image]) -> Any:
        """The output of the vision tower for each image, (n, patches, d), as `judge` takes it."""
        import torch

        pictures = [plain_picture(image) for image in images]
        pixels = self._processor.image_processor(pictures, return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            return self._model.vision_model(pixel_values=pixels.to(self._device, self._dtype))[0]

    def judge(self, seen: Sequence[Any], texts: Sequence[str]) -> NDArray[np.float64]:
        """The matching head's logits for images with the texts beside them, of shape (n,)."""
        import torch

        size = self._spec.batch_size
        found = [np.empty(0)]
        for start in range(0, len(texts), size):
            with torch.inference_mode():
                batch = torch.stack(list(seen[start : start + size])).to(self._device)
                judged = self._match(batch, texts[start : start + size])
            found.append(judged.double().cpu().numpy())
        return np.concatenate(found)

    @abstractmethod
    def _match(self, seen: Any, texts: Sequence[str]) -> Any:
        """The logits of a batch."""

    def _tokens(self, texts: Sequence[str], longest: int) -> Any:
        return self._processor.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=longest,
            return_token_type_ids=False,
            return_tensors="pt",
        ).to(self._device)


class _BlipEmbedder(BlipFamily):
    """BLIP (Li et al., ICML 2022, section 3.2): the first token of each side."""

    def __init__(self, spec: TransformersEmbedder) -> None:
        super().__init__(spec, "BlipForImageTextRetrieval")
        self._longest = self._model.config.text_config.max_position_embeddings

    def _match(self, seen: Any, texts: Sequence[str]) -> Any:
        tokens = self._tokens(texts, self._longest)
        read = self._model.text_encoder(**tokens, encoder_hidden_states=seen)
        return self._model.itm_head(read.last_hidden_state[:, 0])[:, 1]

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        return self._model.vision_proj(self.see(images)[:, 0])

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        read = self._model.text_encoder(**self._tokens(texts, self._longest))
        return self._model.text_proj(read.last_hidden_state[:, 0])


class Blip2Embedder(BlipFamily):
    """BLIP-2 (Li et al., ICML 2023, section 3.2): a vector for each query of the Q-Former.

    It compares a text with all query vectors of an image and takes the greatest cosine. With
    `scoring = "maximum"` an image has all query vectors, concatenated, and a text its vector
    repeated as often, so that their product is the mean of the cosines. Otherwise an image has one
    vector, the mean of the queries': images are compared with each other this way, and galleries
    are 32 times smaller.
    """

    def __init__(self, spec: TransformersEmbedder) -> None:
        super().__init__(spec, "Blip2ForImageTextRetrieval")
        self._longest = self._model.config.qformer_config.max_position_embeddings
        self._vectors = self._model.query_tokens.shape[1] if spec.scoring == "maximum" else 1
        self.dimension *= self._vectors

    def query_vectors(self, images: Sequence[Image.Image]) -> Any:
        """The unit vectors of all queries, as a tensor of shape (n, queries, d)."""
        model = self._model
        seen = self.see(images)
        asked = model.qformer(
            query_embeds=model.query_tokens.expand(len(seen), -1, -1),
            encoder_hidden_states=seen,
        ).last_hidden_state
        return _unit(model.vision_projection(asked.to(model.vision_projection.weight.dtype)))

    def _match(self, seen: Any, texts: Sequence[str]) -> Any:
        import torch

        model = self._model
        tokens = self._tokens(texts, self._longest)
        queries = model.query_tokens.expand(len(seen), -1, -1)
        asked = torch.ones(queries.shape[:2], dtype=torch.long, device=self._device)
        read = model.qformer(
            query_embeds=model.embeddings(input_ids=tokens["input_ids"], query_embeds=queries),
            query_length=queries.shape[1],
            attention_mask=torch.cat([asked, tokens["attention_mask"]], dim=1),
            encoder_hidden_states=seen,
        ).last_hidden_state[:, : queries.shape[1]]
        return model.itm_head(read.to(model.itm_head.weight.dtype)).mean(dim=1)[:, 1]

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        vectors = self.query_vectors(images)
        return vectors.mean(dim=1) if self._vectors == 1 else vectors.flatten(1)

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        model = self._model
        tokens = self._tokens(texts, self._longest)
        read = model.qformer(
            query_embeds=model.embeddings(input_ids=tokens["input_ids"]),
            query_length=0,
            attention_mask=tokens["attention_mask"],
        ).last_hidden_state
        vectors = model.text_projection(read[:, 0].to(model.text_projection.weight.dtype))
        return _unit(vectors).repeat(1, self._vectors)


def _unit(vectors: Any) -> Any:
    vectors = vectors.float()
    return vectors / vectors.norm(dim=-1, keepdim=True)


class MllmImageTextEmbedder(TorchEmbedder[MllmEmbedder]):
    """The last hidden state of the family's prompt for an image or a text.

    Only the transformer is loaded. Texts are cut at `most_tokens`; the end of the prompt is kept. A
    Qwen2-VL resizes images to between `least_pixels` and `most_pixels`, a LLaVA to the tiles of its
    processor, after the family's `image_size_px`.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is of another type than its family.
    """

    def __init__(self, spec: MllmEmbedder) -> None:
        with needs_extra(f"the embedder {spec.name!r}"):
            import torch  # noqa: F401
            import torchvision  # noqa: F401
            import transformers
        super().__init__(spec)
        with loading_faults("transformers", spec.ref):
            found = configuration_of(transformers, spec.ref).model_type
            wanted = mllm_families()[spec.family].model_type
            if found != wanted:
                raise ModelError(
                    f"{spec.ref} is a {found!r}; the family {spec.family!r} wants a {wanted!r}"
                )
            self._load(transformers, found)
        self.dimension = self._model.config.get_text_config().hidden_size

    def _load(self, transformers: Any, model_type: str) -> None:
        spec = self._spec
        network = load_network(
            transformers.AutoModel, spec.ref, spec.folder_sha256, dtype=self._dtype
        )
        self._model = network.to(self._device)
        settings: dict[str, Any] = {}
        if model_type == "qwen2_vl":
            size = {"shortest_edge": spec.least_pixels, "longest_edge": spec.most_pixels}
            settings["size"] = size
        self._processor = processor_of(transformers, spec.ref, **settings)
        self._tokenizer = self._processor.tokenizer
        self._tokenizer.padding_side = "left"  # the last state is then each row's own

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        pictures = [plain_picture(image) for image in images]
        if size := mllm_families()[self._spec.family].image_size_px:
            pictures = [picture.resize((size, size)) for picture in pictures]
        inputs = self._processor(
            text=[self._spec.image_prompt] * len(pictures),
            images=pictures,
            padding=True,
            return_tensors="pt",
        ).to(self._device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self._dtype)
        return self._last_states(inputs)

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        prompts = [self._spec.text_prompt.replace("{text}", self._cut(text)) for text in texts]
        inputs = self._tokenizer(prompts, padding=True, return_tensors="pt").to(self._device)
        return self._last_states(inputs)

    def _last_states(self, inputs: Any) -> Any:
        return self._model(**inputs, use_cache=False).last_hidden_state[:, -1]

    def _cut(self, text: str) -> str:
        """The text, cut if it has too many tokens; special tokens in it are broken up."""
        for mark in (*self._tokenizer.all_special_tokens, self._processor.image_token):
            text = text.replace(mark, f"{mark[0]} {mark[1:]}")
        found = self._tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        tokens = found["offset_mapping"][: self._spec.most_tokens]
        return text[: tokens[-1][1]] if tokens else text
