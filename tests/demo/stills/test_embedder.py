"""The embedder of stills: captions retrieve their drawings, and false captions do not."""

from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from loupe.demo.embedder import StillsLexiconEmbedder
from loupe.demo.stills.drawing import draw_still
from loupe.demo.worlds.stills import StillTruth, plan_stills
from loupe.schemas.embedding import BuiltinStillsEmbedder

EMBEDDER = StillsLexiconEmbedder(BuiltinStillsEmbedder())
SEED, COUNT, PAIRS = 1618, 48, 12
MARGIN = 0.02


@pytest.fixture(scope="module")
def truths() -> list[StillTruth]:
    return list(plan_stills(SEED, COUNT, same_caption_pairs=PAIRS))


@pytest.fixture(scope="module")
def images(truths: list[StillTruth]) -> NDArray[np.float32]:
    return EMBEDDER.embed_images([draw_still(truth.scene) for truth in truths])


def test_captions_and_drawings_retrieve_each_other(
    truths: list[StillTruth], images: NDArray[np.float32]
) -> None:
    own = np.arange(COUNT)
    for place in range(5):
        texts = EMBEDDER.embed_texts([truth.captions[place] for truth in truths[:COUNT]])
        similarity = texts @ images[:COUNT].T
        assert (similarity.argmax(axis=1) == own).mean() > 0.9  # chance: 0.0125
        assert (similarity.argmax(axis=0) == own).mean() > 0.9


def test_a_caption_that_is_true_of_two_drawings_is_equally_near_to_both(
    truths: list[StillTruth], images: NDArray[np.float32]
) -> None:
    planted = [truth for truth in truths if truth.same_caption_as is not None]
    texts = EMBEDDER.embed_texts([truth.captions[0] for truth in planted])
    near = [
        text @ images[truth.image_id - 1] > text @ images[(truth.same_caption_as or 0) - 1] - MARGIN
        for truth, text in zip(planted, texts, strict=True)
    ]
    assert np.mean(near) >= 0.95


def test_variants_are_farther_from_the_caption_than_the_original(
    truths: list[StillTruth], images: NDArray[np.float32]
) -> None:
    families: dict[int, list[StillTruth]] = defaultdict(list)
    for truth in truths[:COUNT]:
        families[truth.family].append(truth)
    found = []
    for first, *variants in families.values():
        [text] = EMBEDDER.embed_texts([first.captions[0]])
        for variant in variants:
            farther = text @ images[first.image_id - 1] - text @ images[variant.image_id - 1]
            found.append(farther > MARGIN)
    assert np.mean(found) > 0.93


def test_images_without_a_coded_strip_are_compared_by_layout() -> None:
    random = np.random.default_rng(2)
    scenes = [
        Image.fromarray(random.integers(0, 255, (6, 8, 3), np.uint8)).resize((400, 300), 3)
        for _ in range(6)
    ]
    noisy = [
        Image.fromarray(
            np.clip(np.asarray(s, np.int16) + random.normal(12, 6, (300, 400, 3)), 0, 255).astype(
                np.uint8
            )
        ).resize((200, 150))
        for s in scenes
    ]
    similarity = EMBEDDER.embed_images(scenes) @ EMBEDDER.embed_images(noisy).T
    assert (similarity.argmax(axis=1) == np.arange(6)).all()
    assert similarity.diagonal().min() > 0.9
