"""Reads images, from files or the blob store, in threads, a little ahead of their use."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from PIL import Image

from db.blobs import BlobStore
from db.entities import StoredEntity
from flows.engine.context import RunContext
from release.threads import ordered_map
from schemas.base import sha256_of
from schemas.errors import BlobMismatchError, IntegrityError
from schemas.proposals import Picture
from schemas.records import Image as ImageRecord
from sources.decoding import ImageRefusedError, decoded
from sources.images import ImageLimits

_IMAGES_AT_ONCE = 256
_PIXELS_AT_ONCE = 50_000_000  # 150 MB decoded: many crops of people, or four photographs
_THREADS = 4


class ReadableImage(Protocol):
    """An image somewhere, and the SHA-256 that its bytes must have."""

    @property
    def sha256(self) -> str:
        """The digest of its bytes."""
        ...

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def read(self) -> bytes:
        """Its bytes, checked against the digest.

        Raises:
            BlobMismatchError: they have another digest.
            IntegrityError: they are missing.
        """
        ...


class ImageFile(NamedTuple):
    """An image on disk."""

    sha256: str
    path: Path

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path)

    def read(self) -> bytes:
        """Its bytes, as `ReadableImage` says."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise IntegrityError(
                f"the image {self.name!r} cannot be read: {error.strerror or error}"
            ) from error
        if (found := sha256_of(data)) != self.sha256:
            raise BlobMismatchError(
                f"the image {self.name!r} must have the SHA-256 {self.sha256}; got {found}"
            )
        return data


class StoredImage(NamedTuple):
    """An image in the blob store."""

    sha256: str
    media_type: str
    name: str
    blobs: BlobStore

    def read(self) -> bytes:
        """Its bytes, as `ReadableImage` says."""
        return self.blobs.read(self.sha256, self.media_type)


def stored_image(blobs: BlobStore, image: StoredEntity) -> StoredImage:
    """The picture of an image, in the blob store."""
    record = image.record(ImageRecord)
    name = f"{record.source}/{record.file_path}"
    return StoredImage(record.sha256, record.media_type, name, blobs)


def stored_picture(context: RunContext, picture: Picture) -> StoredImage:
    """A picture that a record holds, in the blob store."""
    name = f"picture {picture.sha256[:12]}"
    return StoredImage(picture.sha256, picture.media_type, name, context.blobs)


def read_ahead(
    files: Sequence[ReadableImage],
) -> Iterator[tuple[list[ReadableImage], list[Image.Image]]]:
    """`files` with their pictures in RGB, in order, in batches of bounded memory.

    Raises:
        BlobMismatchError: a file has other bytes than its digest says.
        IntegrityError: a file is missing, or is no image that decodes.
    """
    batch: list[ReadableImage] = []
    pictures: list[Image.Image] = []
    pixels = 0
    for file, picture in zip(files, ordered_map(read_image, files, _THREADS), strict=True):
        batch.append(file)
        pictures.append(picture)
        pixels += picture.width * picture.height
        if len(batch) == _IMAGES_AT_ONCE or pixels >= _PIXELS_AT_ONCE:
            yield batch, pictures
            batch, pictures, pixels = [], [], 0
    if batch:
        yield batch, pictures


def read_image(file: ReadableImage) -> Image.Image:
    """The picture in a file, in RGB; its format is known from its content.

    Raises:
        BlobMismatchError: the file has other bytes than its digest says.
        IntegrityError: the file is missing, or is no image that decodes.
    """
    try:
        return decoded(file.read(), ImageLimits().max_pixels).convert("RGB")
    except ImageRefusedError as refusal:
        raise IntegrityError(f"the image {file.name!r} {refusal.what}") from refusal
