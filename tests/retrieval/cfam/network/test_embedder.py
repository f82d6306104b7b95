from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from loupe.models.embedding import ImageTextEmbedder
from loupe.models.weights import checkpoint_digest
from loupe.retrieval.cfam.network.checkpoints import WEIGHTS, CfamImageTextEmbedder, save_model
from loupe.retrieval.cfam.network.model import Cfam
from loupe.retrieval.cfam.network.pairs import clip_pixels
from loupe.schemas.embedding import CfamEmbedder
from loupe.schemas.errors import ModelError
from tests.retrieval.cfam.small_clip import small_training

TEXTS = ["A man in red.", "Two women with bags! " * 30, "", "a man in red."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Cfam:
    return Cfam(small_training(tmp_path_factory.mktemp("architecture")), 5).eval()


@pytest.fixture(scope="module")
def folder(model: Cfam, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    save_model(folder, model, model.settings, 5)
    return folder


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    random = np.random.default_rng(0)
    sizes = [(90, 30), (200, 80), (10, 10), (1, 300), (60, 20)]
    return [Image.fromarray(random.integers(0, 255, (*size, 3), np.uint8)) for size in sizes]


def embedder(folder: Path, **changes: Any) -> CfamImageTextEmbedder:
    return CfamImageTextEmbedder(CfamEmbedder(provider="cfam", checkpoint=folder, **changes))


def test_it_satisfies_the_embedder_protocol(folder: Path, images: list[Image.Image]) -> None:
    cfam = embedder(folder)
    assert isinstance(cfam, ImageTextEmbedder)
    assert cfam.ref.name == "cfam"
    for rows, count in ((cfam.embed_images(images), 5), (cfam.embed_texts(TEXTS), 4)):
        assert rows.shape == (count, cfam.dimension)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert cfam.embed_images([]).shape == (0, cfam.dimension)


def test_vectors_equal_the_output_of_the_network(
    model: Cfam, folder: Path, images: list[Image.Image]
) -> None:
    pixels = clip_pixels(images[0], model.settings.backbone)
    with torch.no_grad():
        expected = model.encode_images(pixels[None]).numpy()
    np.testing.assert_allclose(embedder(folder).embed_images(images[:1]), expected, atol=1e-6)


def test_the_batch_size_does_not_change_vectors(folder: Path, images: list[Image.Image]) -> None:
    whole = embedder(folder)
    pieces = embedder(folder, batch_size=2)
    np.testing.assert_allclose(pieces.embed_images(images), whole.embed_images(images), atol=1e-6)
    np.testing.assert_allclose(pieces.embed_texts(TEXTS), whole.embed_texts(TEXTS), atol=1e-6)


def test_bfloat16_is_close_to_float32(folder: Path, images: list[Image.Image]) -> None:
    short = embedder(folder, dtype="bfloat16").embed_images(images)
    cosines = (short * embedder(folder).embed_images(images)).sum(axis=1)
    assert cosines.min() > 0.99


def test_the_digest_of_the_checkpoint_is_checked(folder: Path) -> None:
    digest = checkpoint_digest(folder / WEIGHTS)
    assert embedder(folder, checkpoint_sha256=digest).dimension == 32
    with pytest.raises(ModelError, match="wanted 00"):
        embedder(folder, checkpoint_sha256="00" * 32)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no settings\.json"):
        embedder(tmp_path)


def test_a_missing_device_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="cuda:99"):
        embedder(folder, device="cuda:99")
