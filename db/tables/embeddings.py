"""Embeddings of images and texts, and the spaces of models."""

from typing import Any

from sqlalchemy import ForeignKey, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest


class EmbeddingSpace(Base):
    """A model with its parameters, which determine the embedding of an image or a text.

    `key` is the digest of model, revision and parameters.
    """

    __tablename__ = "embedding_space"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    model: Mapped[str] = mapped_column(Text)
    revision: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]]
    dimension: Mapped[int]


class Embedding(Base):
    """An embedding in a space: float32, little-endian. This is a cache and may be emptied.

    `key` is the digest of the space's key, kind and `sha256`, which is the digest of the image's
    file or of the text in UTF-8. Databases look up many rows faster by one column than by three.
    """

    __tablename__ = "embedding"

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    space_id: Mapped[int] = mapped_column(ForeignKey("embedding_space.id"))
    kind: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    vector: Mapped[bytes] = mapped_column(LargeBinary)
