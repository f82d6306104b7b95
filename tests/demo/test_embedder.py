"""The built-in embedder: texts retrieve the images that they describe."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from loupe.demo.embedder import ColourLexiconEmbedder
from loupe.demo.worlds import load_truth, write_people_world
from loupe.schemas.embedding import BuiltinEmbedder

EMBEDDER = ColourLexiconEmbedder(BuiltinEmbedder())
SOURCE = "icfg-pedes-demo"


def recall_at_1(
    texts: list[str], ids: list[int], images: list[Image.Image], image_ids: list[int]
) -> float:
    similarity = EMBEDDER.embed_texts(texts) @ EMBEDDER.embed_images(images).T
    best: NDArray[np.int64] = np.array(image_ids)[similarity.argmax(axis=1)]
    return float((best == np.array(ids)).mean())


def test_captions_retrieve_their_people_far_above_chance(tmp_path: Path) -> None:
    write_people_world(tmp_path, seed=3, identities=4, train_identities=0, validation_identities=0)
    texts: list[str] = []
    of_text: list[int] = []
    images: list[Image.Image] = []
    of_image: list[int] = []
    paths = {path.name: path for path in (tmp_path / SOURCE).rglob("*.jpg")}
    for identity in load_truth(tmp_path)[SOURCE]:
        for image in identity.images:
            images.append(Image.open(paths[Path(image.file_path).name]).convert("RGB"))
            of_image.append(identity.id)
            texts += image.captions
            of_text += [identity.id] * len(image.captions)
    assert len(paths) == len(images)
    assert recall_at_1(texts, of_text, images, of_image) > 0.75  # chance: 0.25


def drawn(*bands: str) -> Image.Image:
    """Draw a person of coloured blocks on grey: hair, upper body, legs, shoes."""
    picture = Image.new("RGB", (100, 200), (150, 152, 155))
    pen = ImageDraw.Draw(picture)
    edges = (0, 24, 96, 174, 198)
    for band, colour in enumerate(bands):
        pen.rectangle((28, edges[band], 72, edges[band + 1]), fill=colour)
    return picture


def test_a_colour_counts_only_for_its_garment(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("A woman in a red shirt and blue trousers.", ("black", "red", "blue", "white")),
        ("A woman in a blue shirt and red trousers.", ("black", "blue", "red", "white")),
        ("She wears a yellow coat, black jeans and red shoes.", ("brown", "gold", "black", "red")),
        ("A man with black jeans, white boots and a yellow top.",
         ("brown", "gold", "black", "white")),
        ("The man, in green shorts, has a navy hat and a green jacket.",
         ("navy", "green", "green", "white")),
    ]  # fmt: skip
    colours = (
        ("black", "brown", "navy"),
        ("red", "blue", "gold", "green"),
        ("red", "blue", "black", "green"),
        ("red", "white"),
    )
    crowd = EMBEDDER.embed_images([drawn(*bands) for bands in product(*colours)])
    for text, bands in cases:
        with subtests.test(text=text):
            vectors = np.concatenate([crowd, EMBEDDER.embed_images([drawn(*bands)])])
            similarity = vectors @ EMBEDDER.embed_texts([text])[0]
            assert (
                similarity[-1] >= similarity.max() - 0.03
            )  # only garments without a named colour may be nearer
            assert similarity[-1] > np.quantile(similarity, 0.9)


def test_negated_garments_do_not_count() -> None:
    plain, without = EMBEDDER.embed_texts(
        ["A man in a red shirt.", "A man in a red shirt, no hat."]
    )
    assert np.allclose(plain, without)
