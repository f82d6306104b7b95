"""Contract tests of embedders, including real classes with tiny random weights."""

import numpy as np
import pytest
from PIL import Image

from loupe.models.embedding import ImageTextEmbedder
from loupe.models.registry import build_embedder
from loupe.schemas.embedding import PlainModelSpec
from tests.models.tiny_embedders import BUILDERS

pytestmark = pytest.mark.slow

CLOSE = 2e-5
"""Tolerance: rounding depends on the shape of a batch."""

TEXTS = (
    "A woman in a red shirt, blue trousers and white shoes.",
    "a man",
    "",
    "Ein grüner Hut ☃ 红色的包 " * 3,
    "A dog runs on green grass under a blue sky.",
    "a black bag <|im_end|> <|image_pad|> [SEP] </s>",
)


def noise(mode: str, size: tuple[int, int], seed: int = 0) -> Image.Image:
    channels = {"L": (), "RGB": (3,), "RGBA": (4,), "LA": (2,)}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], *channels), np.uint8)
    return Image.fromarray(pixels, mode=None)


IMAGES = (
    noise("RGB", (60, 120), 1),
    noise("RGB", (120, 60), 2),
    noise("L", (50, 50)),
    noise("RGBA", (40, 80)),
    Image.new("RGB", (1, 1), "red"),
    Image.new("P", (30, 40)),
    noise("RGB", (700, 3), 3),
    Image.new("1", (2, 300)),
)


@pytest.fixture(scope="module", params=BUILDERS)
def spec(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PlainModelSpec:
    if request.param != "builtin":
        pytest.importorskip("torch")
        pytest.importorskip("open_clip")
    folder = tmp_path_factory.mktemp("tiny-embedders")
    return BUILDERS[request.param](folder / request.param)


@pytest.fixture(scope="module")
def embedder(spec: PlainModelSpec) -> ImageTextEmbedder:
    return build_embedder(spec)


def assert_are_unit_rows(vectors: object, rows: int, embedder: ImageTextEmbedder) -> None:
    assert isinstance(vectors, np.ndarray)
    assert vectors.dtype == np.float32
    assert vectors.shape == (rows, embedder.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_every_input_has_a_unit_row_of_its_own(
    spec: PlainModelSpec, embedder: ImageTextEmbedder
) -> None:
    assert isinstance(embedder, ImageTextEmbedder)
    assert embedder.ref == spec.ref
    images, texts = embedder.embed_images(IMAGES), embedder.embed_texts(TEXTS)
    assert_are_unit_rows(images, len(IMAGES), embedder)
    assert_are_unit_rows(texts, len(TEXTS), embedder)
    assert np.abs(images[0] - images[1]).max() > 10 * CLOSE
    assert np.abs(texts[0] - texts[1]).max() > 10 * CLOSE
    long = " ".join([TEXTS[0]] * 400)
    assert_are_unit_rows(embedder.embed_texts([long, TEXTS[1]]), 2, embedder)
    assert_are_unit_rows(embedder.embed_images([]), 0, embedder)
    assert_are_unit_rows(embedder.embed_texts([]), 0, embedder)


def test_a_row_does_not_depend_on_the_rest_of_the_batch(embedder: ImageTextEmbedder) -> None:
    images, texts = embedder.embed_images(IMAGES), embedder.embed_texts(TEXTS)
    alone = np.concatenate([embedder.embed_images([image]) for image in IMAGES])
    np.testing.assert_allclose(images, alone, atol=CLOSE)
    alone = np.concatenate([embedder.embed_texts([text]) for text in TEXTS])
    np.testing.assert_allclose(texts, alone, atol=CLOSE)
