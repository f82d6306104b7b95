"""Embedders made of Qwen2-VL: GME (Zhang et al., CVPR 2025) and Ops-MM-embedding."""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from models.embedding import plain_picture
from models.torch_batches import TorchEmbedder, loading_faults
from models.transformers_loading import configuration_of, load_network, processor_of
from schemas.embedding import QwenVLEmbedder
from schemas.errors import MissingExtraError, ModelError

_KIND = "qwen2_vl"
_SEEN = "<|vision_start|><|image_pad|><|vision_end|>"
_PROMPT = (
    "<|im_start|>system\n{instruction}<|im_end|>\n"
    "<|im_start|>user\n{content}<|im_end|>\n"
    "<|im_start|>assistant\n<|endoftext|>"
)
"""What both families were trained with: the state of the last token is the vector."""


class QwenVLImageTextEmbedder(TorchEmbedder[QwenVLEmbedder]):
    """The state of the last token after an instruction and an image or a text.

    Only the transformer is loaded: an embedder writes nothing. Images are resized to between
    `least_pixels` and `most_pixels`; texts are cut at `most_tokens`, the end of the prompt is kept.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is no Qwen2-VL.
    """

    def __init__(self, spec: QwenVLEmbedder) -> None:
        try:
            import torch  # noqa: F401
            import torchvision  # noqa: F401
            import transformers
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"the embedder {spec.name!r}", "torch") from error
        super().__init__(spec)
        with loading_faults("transformers", spec.ref):
            found = configuration_of(transformers, spec.ref).model_type
            if found != _KIND:
                raise ModelError(f"{spec.ref} is a {found!r}; wanted a {_KIND!r}")
            self._load(transformers)
        self.dimension = self._model.config.get_text_config().hidden_size

    def _load(self, transformers: Any) -> None:
        spec = self._spec
        model = load_network(transformers.Qwen2VLModel, spec, self._dtype)
        self._model = model.to(self._device)
        size = {"shortest_edge": spec.least_pixels, "longest_edge": spec.most_pixels}
        self._processor = processor_of(transformers, spec.ref, size=size)
        self._tokenizer = self._processor.tokenizer
        self._tokenizer.padding_side = "left"  # so that the last state is each one's own

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        prompt = _PROMPT.format(instruction=self._instruction("images"), content=_SEEN)
        pictures = [plain_picture(image) for image in images]
        inputs = self._processor(
            text=[prompt] * len(pictures), images=pictures, padding=True, return_tensors="pt"
        ).to(self._device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self._dtype)
        return self._last_states(inputs)

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        instruction = self._instruction("texts")
        prompts = [
            _PROMPT.format(instruction=instruction, content=self._cut(text)) for text in texts
        ]
        inputs = self._tokenizer(prompts, padding=True, return_tensors="pt").to(self._device)
        return self._last_states(inputs)

    def _last_states(self, inputs: Any) -> Any:
        return self._model(**inputs, use_cache=False).last_hidden_state[:, -1]

    def _instruction(self, kind: str) -> str:
        spec = self._spec
        if spec.queries not in ("both", kind):
            return spec.candidate_instruction
        return spec.image_instruction if kind == "images" else spec.text_instruction

    def _cut(self, text: str) -> str:
        """The text, cut where it has too many tokens; marks of the prompt in it are broken."""
        text = text.replace("<|", "< |")
        found = self._tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        tokens = found["offset_mapping"][: self._spec.most_tokens]
        return text[: tokens[-1][1]] if tokens else text
