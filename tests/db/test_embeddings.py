"""Cached embeddings are returned bit for bit, and only for the same model."""

from hashlib import sha256

import numpy as np
import pytest
from numpy.typing import NDArray

from loupe.db.embeddings import find_vectors, space_of, store_vectors
from loupe.db.store import Store
from loupe.schemas.chat import ModelRef

MODEL = ModelRef(name="clip", revision="1")
PARAMETERS = {"provider": "test", "dtype": "float32"}
SPACE = space_of(MODEL, PARAMETERS, "image")


def digests_of(count: int) -> list[str]:
    return [sha256(str(number).encode()).hexdigest() for number in range(count)]


def vectors_of(count: int, dimension: int = 6) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((count, dimension)).astype(np.float32)


@pytest.mark.usefixtures("database_url")
def test_vectors_are_returned_bit_for_bit_and_never_overwritten(store: Store) -> None:
    digests, vectors = digests_of(5), vectors_of(5)
    vectors[0, :3] = (1e-45, -0.0, 3e38)
    store_vectors(store, SPACE, digests[:4], vectors[:4])
    store_vectors(store, SPACE, digests, np.vstack([vectors[:4] + 1, vectors[4:]]))
    store_vectors(store, SPACE, [], vectors_of(0))
    found = find_vectors(store, SPACE, [*digests[::-1], "f" * 64])
    assert set(found) == set(digests)
    for digest, vector in zip(digests, vectors, strict=True):
        assert found[digest].dtype == np.float32
        assert found[digest].tobytes() == vector.tobytes()
    assert find_vectors(store, SPACE, []) == {}


def test_images_texts_and_models_do_not_share_vectors(store: Store) -> None:
    digests = digests_of(2)
    store_vectors(store, SPACE, digests, vectors_of(2))
    assert space_of(MODEL, dict(reversed(PARAMETERS.items())), "image") == SPACE
    others = (
        space_of(MODEL, PARAMETERS, "text"),
        space_of(MODEL.model_copy(update={"revision": "2"}), PARAMETERS, "image"),
        space_of(MODEL, {**PARAMETERS, "dtype": "float16"}, "image"),
    )
    assert [find_vectors(store, other, digests) for other in others] == [{}, {}, {}]
