"""BLIP-2's image-text contrast (Li et al., ICML 2023, section 3.2) as transformers has it."""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from models.embedding import Vectors, plain_picture
from models.torch_batches import Batches, torch_device
from models.transformers_loading import load_network, processor_of
from schemas.chat import ModelRef
from schemas.embedding import TransformersEmbedder


class Blip2Embedder:
    """The vectors of BLIP-2's Q-Former: of a text its first token's, of an image its queries' mean.

    BLIP-2 compares a text with each of an image's 32 query vectors and takes the greatest cosine.
    Here an image has one vector, the mean of the 32 (each of unit length): its cosine with a text
    is, up to a factor of the image, the mean of the 32 cosines. That keeps images comparable with
    each other, too, as mining look-alikes wants it, and a gallery 32 times smaller; the figures are
    not those of the maximum, and `docs/embedders.md` says so.
    """

    def __init__(self, spec: TransformersEmbedder) -> None:
        import torch
        import transformers

        self._spec = spec
        self._device = torch_device(spec.device)
        self._dtype = getattr(torch, spec.dtype)
        model_class = transformers.Blip2ForImageTextRetrieval
        self._model = load_network(model_class, spec, self._dtype).to(self._device)
        self._processor = processor_of(transformers, spec.ref)
        config = self._model.config
        self._most_tokens = config.qformer_config.max_position_embeddings
        self._batches = Batches(spec.ref, spec.batch_size, config.image_text_hidden_size)

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the profile states them; the revision is what is loaded."""
        return self._spec.ref

    @property
    def dimension(self) -> int:
        """How long a vector is."""
        return self._batches.dimension

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each image: see `ImageTextEmbedder`."""
        return self._batches.embed(images, self._encode_images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: see `ImageTextEmbedder`."""
        return self._batches.embed(texts, self._encode_texts)

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
