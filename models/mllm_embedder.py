"""Multimodal language models as embedders: the last hidden state of a prompt."""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from models.embedding import plain_picture
from models.torch_batches import TorchEmbedder, loading_faults
from models.transformers_loading import configuration_of, load_network, processor_of
from schemas.embedding import MllmEmbedder, mllm_families
from schemas.errors import MissingExtraError, ModelError


class MllmImageTextEmbedder(TorchEmbedder[MllmEmbedder]):
    """The last hidden state of the family's prompt for an image or a text.

    Only the transformer is loaded. Texts are cut at `most_tokens`; the end of the prompt is kept. A
    Qwen2-VL resizes images to between `least_pixels` and `most_pixels`, a LLaVA to the tiles of its
    processor.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is of another type than its family.
    """

    def __init__(self, spec: MllmEmbedder) -> None:
        try:
            import torch  # noqa: F401
            import torchvision  # noqa: F401
            import transformers
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"the embedder {spec.name!r}", "torch") from error
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
        self._model = load_network(transformers.AutoModel, spec, self._dtype).to(self._device)
        settings: dict[str, Any] = {}
        if model_type == "qwen2_vl":
            size = {"shortest_edge": spec.least_pixels, "longest_edge": spec.most_pixels}
            settings["size"] = size
        self._processor = processor_of(transformers, spec.ref, **settings)
        self._tokenizer = self._processor.tokenizer
        self._tokenizer.padding_side = "left"  # the last state is then each row's own

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        pictures = [plain_picture(image) for image in images]
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
