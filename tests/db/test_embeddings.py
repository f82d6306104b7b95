"""Cached embeddings are returned bit for bit, and only for the same model."""

from hashlib import sha256

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import select

from db.embeddings import Space, find_space, find_vectors, register_space, store_vectors
from db.store import Store
from db.tables import Embedding, EmbeddingSpace
from schemas.chat import ModelRef
from schemas.errors import IntegrityError
from tests.db.samples import row_count

MODEL = ModelRef(name="clip", revision="1")
PARAMETERS = {"provider": "test", "dtype": "float32"}


def digests_of(count: int) -> list[str]:
    return [sha256(str(number).encode()).hexdigest() for number in range(count)]


def vectors_of(count: int, dimension: int = 6) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((count, dimension)).astype(np.float32)


@pytest.fixture
def space(store: Store) -> Space:
    return register_space(store, MODEL, PARAMETERS, 6)


@pytest.mark.usefixtures("database_url")
def test_vectors_are_returned_bit_for_bit_and_never_overwritten(store: Store, space: Space) -> None:
    digests, vectors = digests_of(5), vectors_of(5)
    vectors[0, :3] = (1e-45, -0.0, 3e38)
    store_vectors(store, space, "image", digests[:4], vectors[:4])
    store_vectors(store, space, "image", digests, np.vstack([vectors[:4] + 1, vectors[4:]]))
    found = find_vectors(store, space, "image", [*digests[::-1], "f" * 64])
    assert set(found) == set(digests)
    for digest, vector in zip(digests, vectors, strict=True):
        assert found[digest].dtype == np.float32
        assert found[digest].tobytes() == vector.tobytes()


def test_images_texts_and_models_do_not_share_vectors(store: Store, space: Space) -> None:
    digests = digests_of(2)
    store_vectors(store, space, "image", digests, vectors_of(2))
    others = [
        register_space(store, MODEL.model_copy(update={"revision": "2"}), PARAMETERS, 6),
        register_space(store, MODEL, {**PARAMETERS, "dtype": "float16"}, 6),
    ]
    assert len({space.id, *(other.id for other in others)}) == 3
    assert find_vectors(store, space, "text", digests) == {}
    assert [find_vectors(store, other, "image", digests) for other in others] == [{}, {}]


def test_a_space_is_registered_once_and_names_its_model(store: Store, space: Space) -> None:
    assert register_space(store, MODEL, dict(reversed(PARAMETERS.items())), 6) == space
    assert find_space(store, MODEL, PARAMETERS) == space
    assert find_space(store, MODEL, {}) is None
    assert row_count(store, EmbeddingSpace) == 1
    with pytest.raises(IntegrityError, match="have 6 numbers, those it gives now have 7"):
        register_space(store, MODEL, PARAMETERS, 7)
    store_vectors(store, space, "text", [], vectors_of(0))
    assert find_vectors(store, space, "text", []) == {}
    store_vectors(store, space, "text", digests_of(1), vectors_of(1))
    query = select(EmbeddingSpace.model, EmbeddingSpace.revision, EmbeddingSpace.parameters)
    with store.read() as connection:
        row = connection.execute(query.join(Embedding)).one()
    assert tuple(row) == ("clip", "1", PARAMETERS)
