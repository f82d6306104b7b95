"""BLIP-2's image-text contrast (Li et al., ICML 2023, section 3.2) as transformers has it."""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from models.embedding import plain_picture
from models.torch_batches import TorchEmbedder
from models.transformers_loading import load_network, processor_of
from schemas.embedding import TransformersEmbedder


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
