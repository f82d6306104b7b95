"""Embeddings, cached: by model and parameters, and by the digest of the image or text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select

from db.engine import insert_new, insert_new_text
from db.entities import rows_in
from db.releases import acquire_release_lock
from db.store import Store, retried
from db.tables.embeddings import Embedding, EmbeddingSpace
from db.tables.withdrawals import Withdrawal, WithdrawnDigest
from schemas.base import canonical_json, digest_of
from schemas.chat import ModelRef
from schemas.errors import IntegrityError

Kind = Literal["image", "text"]
Vector = NDArray[np.float32]

_STORED = np.dtype("<f4")
_COLUMNS = ("key", "space_id", "kind", "sha256", "vector")


class Space(NamedTuple):
    """What vectors are comparable: those of one model with one set of parameters."""

    id: int
    key: str
    dimension: int


@retried
def find_space(store: Store, model: ModelRef, parameters: Mapping[str, Any]) -> Space | None:
    """The space of a model with these parameters, or None where it never embedded anything."""
    query = _select_space(_key(model, parameters))
    with store.read() as connection:
        row = connection.execute(query).one_or_none()
    return Space(row.id, row.key, row.dimension) if row else None


@retried
def register_space(
    store: Store, model: ModelRef, parameters: Mapping[str, Any], dimension: int
) -> Space:
    """Stores the space and gives its number; the same model and parameters give the same number.

    Raises:
        IntegrityError: the model gave vectors of another length before, under the same name.
    """
    key = _key(model, parameters)
    row = {
        "key": key,
        "model": model.name,
        "revision": model.revision,
        "parameters": dict(parameters),
        "dimension": dimension,
    }
    with store.write() as connection:
        insert_new(connection, EmbeddingSpace, [row])
        stored = connection.execute(_select_space(key)).one()
    if stored.dimension != dimension:
        raise IntegrityError(
            f"cached vectors of {model} have {stored.dimension} numbers, those it gives now have "
            f"{dimension}; another model has taken its name: give it another revision"
        )
    return Space(stored.id, key, dimension)


@retried
def find_vectors(
    store: Store, space: Space, kind: Kind, digests: Iterable[str]
) -> dict[str, Vector]:
    """The cached vectors of shape (dimension,), by digest; what is not cached is left out.

    Raises:
        IntegrityError: what is stored is no vector of this space.
    """
    keys = (digest_of(space.key, kind, sha256) for sha256 in digests)
    found: dict[str, Vector] = {}
    query = select(Embedding.sha256, Embedding.vector)
    with store.read() as connection:
        for sha256, data in rows_in(connection, query, Embedding.key, keys):
            if len(data) != space.dimension * _STORED.itemsize:
                raise IntegrityError(
                    f"the cached vector of {sha256} must have {space.dimension} numbers of 4 "
                    f"bytes; got {len(data)} bytes"
                )
            found[sha256] = np.frombuffer(data, _STORED).astype(np.float32, copy=False)
    return found


@retried
def store_vectors(
    store: Store, space: Space, kind: Kind, digests: Sequence[str], vectors: Vector
) -> None:
    """Stores `vectors`, of shape (n, dimension), in one transaction; cached ones stay.

    Vectors of files and texts that a withdrawal erases are left out.
    """
    stored = np.ascontiguousarray(vectors, _STORED)
    with store.write() as connection:
        acquire_release_lock(connection)  # so that concurrent withdrawals are seen
        gone = _erased(connection, digests)
        rows = [
            (digest_of(space.key, kind, sha256), space.id, kind, sha256, vector.tobytes())
            for sha256, vector in zip(digests, stored, strict=True)
            if sha256 not in gone
        ]
        insert_new_text(connection, Embedding, _COLUMNS, rows)


def _erased(connection: Connection, digests: Iterable[str]) -> set[str]:
    """The digests that a withdrawal erases."""
    query = (
        select(WithdrawnDigest.sha256)
        .join(Withdrawal, Withdrawal.id == WithdrawnDigest.withdrawal_id)
        .where(Withdrawal.erases)
    )
    return {sha256 for (sha256,) in rows_in(connection, query, WithdrawnDigest.sha256, digests)}


def _key(model: ModelRef, parameters: Mapping[str, Any]) -> str:
    return digest_of(model.name, model.revision, canonical_json(parameters))


def _select_space(key: str) -> Select[int, str, int]:
    return select(EmbeddingSpace.id, EmbeddingSpace.key, EmbeddingSpace.dimension).where(
        EmbeddingSpace.key == key
    )
