"""Where images and texts lie in the spaces of models."""

from typing import Any

from sqlalchemy import ForeignKey, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest


class EmbeddingSpace(Base):
    """A model with its parameters, which decide where an image or a text lies.

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
    """Where an image or a text lies in a space: float32, little-endian. A cache: it may be emptied.

    `key` is the digest of the space's key, kind and `sha256`, which is that of the image's file, or
    of the text in UTF-8: databases find many rows by one column sooner than by three.
    """

    __tablename__ = "embedding"

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    space_id: Mapped[int] = mapped_column(ForeignKey("embedding_space.id"))
    kind: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    vector: Mapped[bytes] = mapped_column(LargeBinary)
