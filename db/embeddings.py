"""Embeddings, cached by model and parameters and by the digest of the image or text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from loupe.db.entities import rows_in
from loupe.db.store import acquire_release_lock, reads, writes
from loupe.db.tables import Embedding, Withdrawal, WithdrawnDigest, insert_new_text
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.chat import ModelRef

Kind = Literal["image", "text"]
Vector = NDArray[np.float32]

_STORED = np.dtype("<f4")
_COLUMNS = ("sha256", "space", "vector")


def space_of(model: ModelRef, parameters: Mapping[str, Any], kind: Kind) -> str:
    """Return the name of the vectors of images, or of texts, by a model with these parameters."""
    return digest_of(model.name, model.revision, canonical_json(parameters), kind)


@reads
def find_vectors(connection: Connection, space: str, digests: Iterable[str]) -> dict[str, Vector]:
    """Return the cached vectors of shape (dimension,), by digest; uncached ones are left out."""
    query = select(Embedding.sha256, Embedding.vector).where(Embedding.space == space)
    return {
        sha256: np.frombuffer(data, _STORED).astype(np.float32, copy=False)
        for sha256, data in rows_in(connection, query, Embedding.sha256, digests)
    }


@writes
def store_vectors(
    connection: Connection, space: str, digests: Sequence[str], vectors: Vector
) -> None:
    """Store `vectors`, of shape (n, dimension), in one transaction; cached ones are not changed.

    Vectors of files and texts that a withdrawal erases are left out.
    """
    stored = np.ascontiguousarray(vectors, _STORED)
    acquire_release_lock(connection)  # to see concurrent withdrawals
    gone = _erased(connection, digests)
    rows = [
        (sha256, space, vector.tobytes())
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
