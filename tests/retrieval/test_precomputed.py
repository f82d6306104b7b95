"""Precomputed vectors are read from files, checked against the release and normalised."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from loupe.flows.engine.embedding import pinned, read_vectors
from loupe.schemas.base import sha256_of
from loupe.schemas.embedding import PrecomputedEmbedder
from loupe.schemas.errors import FormatError

IMAGES = np.random.default_rng(0).standard_normal((3, 4))
NO_ARRAY = r"texts\.npy is not a \.npy file, is cut off, or holds objects; expected numbers$"
TEXTS = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float16)

IMAGE_NAMES = [f"images/{number}.jpg" for number in range(1, 4)]
TEXT_NAMES = [f"text {number}" for number in range(6)]


@pytest.fixture
def spec(tmp_path: Path) -> PrecomputedEmbedder:
    images, texts = tmp_path / "images.npy", tmp_path / "texts.npy"
    np.save(images, IMAGES)
    np.save(texts, TEXTS)
    return PrecomputedEmbedder(provider="precomputed", name="theirs", images=images, texts=texts)


def unit(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    exact = rows.astype(np.float64)
    unit: NDArray[np.float64] = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return unit


def test_rows_keep_their_order_and_have_unit_length(spec: PrecomputedEmbedder) -> None:
    images, texts = read_vectors(spec, IMAGE_NAMES, TEXT_NAMES)
    assert images.dtype == texts.dtype == np.float32
    np.testing.assert_allclose(images, unit(IMAGES), atol=1e-7)
    np.testing.assert_allclose(texts, unit(TEXTS), atol=1e-7)


def test_a_row_count_that_differs_from_the_release_is_refused(spec: PrecomputedEmbedder) -> None:
    with pytest.raises(FormatError, match=r"images\.npy must have a row for each of the 4 images"):
        read_vectors(spec, [*IMAGE_NAMES, "4.jpg"], TEXT_NAMES)
    with pytest.raises(FormatError, match=r"each of the 5 texts .* its shape is \(6, 4\)"):
        read_vectors(spec, IMAGE_NAMES, TEXT_NAMES[:5])


def save_archive(path: Path) -> None:
    with path.open("wb") as file:  # `np.savez` would add a suffix to the name
        np.savez(file, texts=np.ones((6, 4)))


def test_invalid_vector_files_are_refused(
    subtests: pytest.Subtests, spec: PrecomputedEmbedder
) -> None:
    cases: list[tuple[Callable[[Path], object], str]] = [
        (lambda path: path.unlink(), r"texts\.npy does not exist"),
        (lambda path: path.write_bytes(b"no array"), NO_ARRAY),
        (lambda path: path.write_bytes(b""), NO_ARRAY),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), NO_ARRAY),
        (lambda path: np.save(path, np.array([{}] * 6)), NO_ARRAY),
        (save_archive, NO_ARRAY),
        (lambda path: path.write_bytes(b"PK\x03\x04 a zip that ends early"), NO_ARRAY),
        (
            lambda path: np.save(path, np.zeros((6, 4))),
            r"zeros; the first such row is that of text 0",
        ),
        (lambda path: np.save(path, np.full((6, 4), np.nan)), "NaN"),
        (lambda path: np.save(path, np.diag([0, 1, 1, np.nan, 1, 1])), "row is that of text 3"),
        (lambda path: np.save(path, np.ones(6)), r"its shape is \(6,\)"),
        (lambda path: np.save(path, np.ones((6, 5))), "rows of one length; got 5 and 4"),
    ]
    for write, sentence in cases:
        with subtests.test(sentence=sentence):
            write(spec.texts)
            with pytest.raises(FormatError, match=sentence):
                read_vectors(spec, IMAGE_NAMES, TEXT_NAMES)


def test_vectors_are_pinned_by_their_digest(spec: PrecomputedEmbedder) -> None:
    found = pinned(spec)
    assert found.parameters == {
        "images_sha256": sha256_of(spec.images.read_bytes()),
        "texts_sha256": sha256_of(spec.texts.read_bytes()),
    }
    assert pinned(found) == found


def test_vectors_with_another_digest_are_refused(
    spec: PrecomputedEmbedder,
) -> None:
    asked = pinned(spec)
    np.save(spec.texts, TEXTS + 1)
    with pytest.raises(FormatError, match=rf"texts\.npy has the SHA-256 .*{asked.texts_sha256}$"):
        pinned(asked)
    spec.images.unlink()
    with pytest.raises(FormatError, match=r"images\.npy is not a file"):
        pinned(spec)
