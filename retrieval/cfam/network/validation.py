"""How well a network finds people that it was not trained on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retrieval.cfam.network.model import Cfam
from retrieval.cfam.network.pairs import image_batches, tokenizer_for
from retrieval.cfam.training_data import TrainingImage
from retrieval.ranking import score_retrieval
from schemas.cfam import CfamTraining


class IdentityVectors(NamedTuple):
    """Unit vectors of texts (the queries) and of images (the gallery), with whose they are."""

    texts: NDArray[np.float32]
    text_identities: NDArray[np.int64]
    images: NDArray[np.float32]
    image_identities: NDArray[np.int64]


def embed_pairs(
    model: Cfam, images: Sequence[TrainingImage], settings: CfamTraining, device: torch.device
) -> IdentityVectors:
    """The global vectors of all images and of all their captions, without augmentation.

    Raises:
        UsageError: an image cannot be read.
    """
    numbers = {name: number for number, name in enumerate(sorted({one.identity for one in images}))}
    captions = [(text, numbers[one.identity]) for one in images for text in one.captions]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = IdentityVectors(
            _texts(model, [text for text, _ in captions], settings, device),
            np.array([identity for _, identity in captions]),
            _images(model, images, settings, device),
            np.array([numbers[one.identity] for one in images]),
        )
    model.train(was_training)
    return found


def _images(
    model: Cfam, images: Sequence[TrainingImage], settings: CfamTraining, device: torch.device
) -> NDArray[np.float32]:
    paths = [image.path for image in images]
    size = settings.schedule.batch_pairs
    batches = image_batches(paths, settings.backbone, size, settings.workers)
    return _rows([model.encode_images(pixels.to(device)) for pixels in batches])


def _texts(
    model: Cfam, texts: Sequence[str], settings: CfamTraining, device: torch.device
) -> NDArray[np.float32]:
    tokenizer = tokenizer_for(settings.backbone.text_tokens)
    size = settings.schedule.batch_pairs
    batches = (texts[start : start + size] for start in range(0, len(texts), size))
    return _rows([model.encode_texts(tokenizer(batch).to(device)) for batch in batches])


def _rows(batches: Sequence[Tensor]) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = torch.cat(list(batches)).float().cpu().numpy()
    return rows


def retrieval_scores(found: IdentityVectors) -> dict[str, float]:
    """How well texts find the images of their identity: `retrieval.ranking`, all in percent."""
    scores = score_retrieval(
        found.texts, found.images, found.text_identities, found.image_identities
    )
    return scores.means()
