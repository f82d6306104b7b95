"""Embeddings, cached by model and parameters and by the digest of the image or text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select

from db.entities import rows_in
from db.store import acquire_release_lock, reads, writes
from db.tables import (
    Embedding,
    EmbeddingSpace,
    Withdrawal,
    WithdrawnDigest,
    insert_new,
    insert_new_text,
    select_columns,
)
from schemas.base import canonical_json, digest_of
from schemas.chat import ModelRef
from schemas.errors import IntegrityError

Kind = Literal["image", "text"]
Vector = NDArray[np.float32]

_STORED = np.dtype("<f4")
_COLUMNS = ("key", "space_id", "kind", "sha256", "vector")


class Space(NamedTuple):
    """A vector space: one model with one set of parameters. Only its own vectors are comparable."""

    id: int
    key: str
    dimension: int


@reads
def find_space(
    connection: Connection, model: ModelRef, parameters: Mapping[str, Any]
) -> Space | None:
    """Return the space of a model with these parameters; None if nothing is embedded with it."""
    row = connection.execute(_select_space(_key(model, parameters))).one_or_none()
    return Space._make(row) if row else None


@writes
def register_space(
    connection: Connection, model: ModelRef, parameters: Mapping[str, Any], dimension: int
) -> Space:
    """Store the space and return its number; the same model and parameters have the same number.

    Raises:
        IntegrityError: the model returned vectors of another length before.
    """
    key = _key(model, parameters)
    row = {
        "key": key,
        "model": model.name,
        "revision": model.revision,
        "parameters": dict(parameters),
        "dimension": dimension,
    }
    insert_new(connection, EmbeddingSpace, [row])
    space = Space._make(connection.execute(_select_space(key)).one())
    if space.dimension != dimension:
        raise IntegrityError(
            f"cached vectors of {model} have {space.dimension} numbers, those it gives now have "
            f"{dimension}; another model has taken its name: give it another revision"
        )
    return space


@reads
def find_vectors(
    connection: Connection, space: Space, kind: Kind, digests: Iterable[str]
) -> dict[str, Vector]:
    """Return the cached vectors of shape (dimension,), by digest; uncached ones are left out."""
    keys = (digest_of(space.key, kind, sha256) for sha256 in digests)
    query = select(Embedding.sha256, Embedding.vector)
    return {
        sha256: np.frombuffer(data, _STORED).astype(np.float32, copy=False)
        for sha256, data in rows_in(connection, query, Embedding.key, keys)
    }


@writes
def store_vectors(
    connection: Connection, space: Space, kind: Kind, digests: Sequence[str], vectors: Vector
) -> None:
    """Store `vectors`, of shape (n, dimension), in one transaction; cached ones are not changed.

    Vectors of files and texts that a withdrawal erases are left out.
    """
    stored = np.ascontiguousarray(vectors, _STORED)
    acquire_release_lock(connection)  # to see concurrent withdrawals
    gone = _erased(connection, digests)
    rows = [
        (digest_of(space.key, kind, sha256), space.id, kind, sha256, vector.tobytes())
        for sha256, vector in zip(digests, stored, strict=True)
        if sha256 not in gone
    ]
    insert_new_text(connection, Embedding, _COLUMNS, rows)


def _erased(connection: Connection, digests: Iterable[str]) -> set[str]:
    """Return those of the digests that a withdrawal erases."""
    query = (
        select(WithdrawnDigest.sha256)
        .join(Withdrawal, Withdrawal.id == WithdrawnDigest.withdrawal_id)
        .where(Withdrawal.erases)
    )
    return {sha256 for (sha256,) in rows_in(connection, query, WithdrawnDigest.sha256, digests)}


def _key(model: ModelRef, parameters: Mapping[str, Any]) -> str:
    return digest_of(model.name, model.revision, canonical_json(parameters))


def _select_space(key: str) -> Select[*tuple[Any, ...]]:
    return select_columns(EmbeddingSpace, Space._fields).where(EmbeddingSpace.key == key)
