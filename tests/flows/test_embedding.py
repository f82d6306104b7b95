"""Embedding through the cache: order, no repeated work, resumption, and checks of files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loupe.db.embeddings import space_of, store_vectors
from loupe.db.store import Store
from loupe.demo.embedder import ColourLexiconEmbedder
from loupe.flows.engine.embedding import CachedEmbedder, ReadableImage, image_file, read_ahead
from loupe.flows.engine.report import LineProgress
from loupe.models.embedding import ImageTextEmbedder, Vectors
from loupe.schemas.base import sha256_of
from loupe.schemas.embedding import BuiltinEmbedder, EmbeddingModelSpec
from loupe.schemas.errors import BlobMismatchError, IntegrityError

COLOURS = ("red", "green", "blue", "white")
TEXTS = ("a man in a red shirt", "a woman in blue trousers", "a man in a red shirt", "")


class CountingEmbedder(ColourLexiconEmbedder):
    """Counts the images and texts it embeds; the text «die» raises KeyboardInterrupt."""

    def __init__(self, spec: BuiltinEmbedder) -> None:
        super().__init__(spec)
        self.images = 0
        self.texts: list[str] = []

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        self.images += len(images)
        return super().embed_images(images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        if "die" in texts:
            raise KeyboardInterrupt
        self.texts += texts
        return super().embed_texts(texts)


class Bench:
    """A store, and the models built for it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.built: list[CountingEmbedder] = []
        self.shown: list[str] = []

    def embedder(self, revision: str = "1") -> CachedEmbedder:
        spec = BuiltinEmbedder(revision=revision)
        return CachedEmbedder(self.store, spec, LineProgress(self.shown.append), self._build)

    def _build(self, spec: EmbeddingModelSpec) -> ImageTextEmbedder:
        assert isinstance(spec, BuiltinEmbedder)
        self.built.append(CountingEmbedder(spec))
        return self.built[-1]


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    return Bench(sqlite_store)


@pytest.fixture
def files(tmp_path: Path) -> list[ReadableImage]:
    """An image of each colour, and a copy of the first under another name."""
    found = []
    for place, colour in enumerate((*COLOURS, COLOURS[0])):
        path = tmp_path / f"{place}.png"
        Image.new("RGB", (20, 40), colour).save(path)
        found.append(image_file(sha256_of(path.read_bytes()), path))
    return found


def test_rows_equal_those_of_the_model_in_order(bench: Bench, files: list[ReadableImage]) -> None:
    alone = ColourLexiconEmbedder(BuiltinEmbedder())
    cached = bench.embedder()
    pictures = [Image.new("RGB", (20, 40), colour) for colour in (*COLOURS, COLOURS[0])]
    assert np.array_equal(cached.embed_images(files), alone.embed_images(pictures))
    assert np.array_equal(cached.embed_texts(TEXTS), alone.embed_texts(TEXTS))


def test_stored_embeddings_need_no_model(bench: Bench, files: list[ReadableImage]) -> None:
    first = bench.embedder()
    images, texts = first.embed_images(files), first.embed_texts(TEXTS)
    again = bench.embedder()
    assert np.array_equal(again.embed_images(files[::-1]), images[::-1])
    assert np.array_equal(again.embed_texts(TEXTS[::-1]), texts[::-1])
    assert len(bench.built) == 1


def test_each_revision_has_its_own_embeddings(bench: Bench) -> None:
    bench.embedder().embed_texts(TEXTS)
    bench.embedder("2").embed_texts(TEXTS)
    assert len(bench.built) == 2
    assert bench.built[0].texts == bench.built[1].texts


def test_vectors_of_another_length_are_refused(bench: Bench) -> None:
    spec = BuiltinEmbedder()
    space = space_of(spec.ref, {"provider": spec.provider, **spec.parameters}, "text")
    store_vectors(bench.store, space, [sha256_of(b"short")], np.ones((1, 3), np.float32))
    with pytest.raises(IntegrityError, match="have 3 numbers, those it gives now have"):
        bench.embedder().embed_texts(["short", "long"])


def test_a_killed_run_is_resumed(bench: Bench) -> None:
    texts = [f"text {number}" for number in range(1500)]
    with pytest.raises(KeyboardInterrupt):
        bench.embedder().embed_texts([*texts, "die"])
    done = len(bench.built[0].texts)
    assert 0 < done < len(texts)
    assert f"{done:,} done" in bench.shown[-1], "its progress ended"
    bench.embedder().embed_texts(texts)
    assert bench.built[1].texts == texts[done:]


def test_empty_inputs_give_empty_arrays(bench: Bench) -> None:
    assert bench.embedder().embed_images([]).shape == (0, bench.built[0].dimension)
    assert bench.embedder().embed_texts([]).shape == (0, bench.built[0].dimension)


def test_a_changed_file_is_refused(bench: Bench, files: list[ReadableImage]) -> None:
    Image.new("RGB", (20, 40), "black").save(files[2].name)
    with pytest.raises(BlobMismatchError, match=r"2\.png' must have the SHA-256"):
        bench.embedder().embed_images(files)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (None, r"2\.png' cannot be read: No such file"),
        (b"\x89PNG\r\n\x1a\n", r"2\.png' cannot be decoded"),
    ],
)
def test_an_error_names_the_unreadable_image(
    bench: Bench, files: list[ReadableImage], data: bytes | None, sentence: str
) -> None:
    path = Path(files[2].name)
    path.unlink()
    if data is not None:
        path.write_bytes(data)
        files[2] = image_file(sha256_of(data), path)
    with pytest.raises(IntegrityError, match=sentence):
        bench.embedder().embed_images(files)


def test_many_images_keep_their_order(tmp_path: Path) -> None:
    files = []
    for number in range(300):  # more than a batch and more than are decoded ahead
        path = tmp_path / f"{number}.bmp"
        Image.new("L", (4, 4), number % 256).save(path)
        files.append(image_file(sha256_of(path.read_bytes()), path))
    batches = list(read_ahead(files))
    assert [len(pictures) for _, pictures in batches] == [256, 44]
    assert [file for batch, _ in batches for file in batch] == files
    found = [picture.getpixel((0, 0)) for _, pictures in batches for picture in pictures]
    assert found == [(number % 256,) * 3 for number in range(300)]


def test_large_images_are_read_in_smaller_batches(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (5000, 4000)).save(path)
    files = [image_file(sha256_of(path.read_bytes()), path)] * 4
    assert [len(pictures) for _, pictures in read_ahead(files)] == [3, 1]
