"""Read images from files or the blob store in threads, slightly ahead of their use."""

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
    """An image at some location, with the expected SHA-256 of its bytes."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the file, in hexadecimal."""
        ...

    @property
    def name(self) -> str:
        """The name shown in messages."""
        ...

    def read(self) -> bytes:
        """Return the bytes after verifying their digest.

        Raises:
            BlobMismatchError: the digest of the content does not match.
            IntegrityError: the file is missing.
        """
        ...


class ImageFile(NamedTuple):
    """An image on disk."""

    sha256: str
    path: Path

    @property
    def name(self) -> str:
        """The name shown in messages."""
        return str(self.path)

    def read(self) -> bytes:
        """Return the bytes; see `ReadableImage`."""
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
        """Return the bytes; see `ReadableImage`."""
        return self.blobs.read(self.sha256, self.media_type)


def stored_image(blobs: BlobStore, image: StoredEntity) -> StoredImage:
    """Return the pixels of an image entity, in the blob store."""
    record = image.record(ImageRecord)
    name = f"{record.source}/{record.file_path}"
    return StoredImage(record.sha256, record.media_type, name, blobs)


def stored_picture(context: RunContext, picture: Picture) -> StoredImage:
    """Return the image that a record refers to, in the blob store."""
    name = f"picture {picture.sha256[:12]}"
    return StoredImage(picture.sha256, picture.media_type, name, context.blobs)


def read_ahead(
    files: Sequence[ReadableImage],
) -> Iterator[tuple[list[ReadableImage], list[Image.Image]]]:
    """Yield `files` with their decoded RGB images, in order, in batches of bounded memory.

    Raises:
        BlobMismatchError: the content of a file does not match its digest.
        IntegrityError: a file is missing, or cannot be decoded as an image.
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
    """Return the image in a file, in RGB; the format is detected from the content.

    Raises:
        BlobMismatchError: the content of the file does not match its digest.
        IntegrityError: the file is missing, or cannot be decoded as an image.
    """
    try:
        return decoded(file.read(), ImageLimits().max_pixels).convert("RGB")
    except ImageRefusedError as refusal:
        raise IntegrityError(f"the image {file.name!r} {refusal.what}") from refusal
