"""The values that steps take and return: images, captions, crops, and reasons to refuse."""

import io
import json
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from loupe.db.blobs import BlobStore
from loupe.db.entities import StoredEntity
from loupe.schemas import records
from loupe.schemas.decoders import as_rgb
from loupe.schemas.wording import storable
from loupe.sources.decoding import decoded
from loupe.sources.images import ImageLimits

_NO_WORD = re.compile(r"[^a-z0-9]+")
_PNG = "image/png"
_store_of = lru_cache(BlobStore)  # a process reads thousands of images of one


@dataclass(frozen=True)
class Rejection:
    """Why a step refuses its input: a short reason to count by, a sentence for people, and data."""

    reason: str
    detail: str
    context: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(isinstance(one, str) for one in (self.reason, self.detail)):
            got = f"{self.reason!r:.40}, {self.detail!r:.40}"
            raise TypeError(f"a Rejection needs a reason and a detail, both texts; got {got}")

    @classmethod
    def of(cls, reason: str, detail: str, **context: Any) -> Self:
        """Return a rejection with this context."""
        return cls(reason, detail, context)

    def by(self, stage: str) -> records.Rejection:
        """Return the rejection as that of a stage."""
        word = _NO_WORD.sub("_", self.reason.lower()).strip("_") or "refused"
        context = json.dumps(self.context, ensure_ascii=False, default=_plain)
        return records.Rejection(
            stage=stage,
            reason=word,
            detail=storable(self.detail),
            context=json.loads(context.encode("utf-8", "replace")),
        )


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks: a number of NumPy as one of Python, others as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


class Box(NamedTuple):
    """A box in pixels of its image, with the score of its detector from 0 to 1."""

    left: float
    top: float
    right: float
    bottom: float
    score: float = 1.0

    @property
    def width(self) -> float:
        """The width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """The height in pixels."""
        return self.bottom - self.top


@dataclass(frozen=True)
class Image:
    """An image of the dataset; its pixels are read when they are first used.

    `identity` is what its source calls the thing or person that it shows, `captions` are the texts
    of the source about it.
    """

    id: str
    source: str
    identity: str
    split: str | None
    file_path: str
    width_px: int
    height_px: int
    sha256: str = field(repr=False)
    media_type: str = field(repr=False)
    blobs_url: str = field(repr=False)
    captions: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: StoredEntity, blobs_url: str, captions: tuple[str, ...] = ()) -> Self:
        """Return the image in the store."""
        record = stored.record(records.Image)
        return cls(
            id=stored.id,
            source=record.source,
            identity=record.identity,
            split=record.split,
            file_path=record.file_path,
            width_px=record.width_px,
            height_px=record.height_px,
            sha256=record.sha256,
            media_type=record.media_type,
            blobs_url=blobs_url,
            captions=captions,
        )

    @cached_property
    def data(self) -> bytes:
        """The encoded bytes, compared with their digest."""
        return _store_of(self.blobs_url).read(self.sha256, self.media_type)

    def open(self) -> Pillow.Image:
        """Return the picture in RGB."""
        return as_rgb(decoded(self.data, ImageLimits().max_pixels))

    @cached_property
    def pixels(self) -> NDArray[np.uint8]:
        """The pixels, of shape (height, width, 3), RGB."""
        return np.asarray(self.open(), np.uint8)

    def crop(self, box: Box) -> Pillow.Image:
        """Return what is inside a box, clipped to the image."""
        left, top = max(0, round(box.left)), max(0, round(box.top))
        right, bottom = min(self.width_px, round(box.right)), min(self.height_px, round(box.bottom))
        return self.open().crop((left, top, max(left + 1, right), max(top + 1, bottom)))


@dataclass(frozen=True)
class Crop:
    """A new image that a step makes: a part of another image, or any picture.

    `identity` is what it shows; by default, the crop has an identity of its own.
    """

    data: bytes = field(repr=False)
    width_px: int
    height_px: int
    media_type: str = _PNG
    identity: str | None = None
    name: str = ""

    @classmethod
    def of(cls, image: Image, box: Box, identity: str | None = None) -> Self:
        """Return a part of an image; it is named after its box."""
        name = "-".join(str(round(side)) for side in box[:4])
        return cls.of_picture(image.crop(box), identity, name)

    @classmethod
    def of_picture(cls, picture: Pillow.Image, identity: str | None = None, name: str = "") -> Self:
        """Return a picture as a new image, stored without loss."""
        file = io.BytesIO()
        picture.convert("RGB").save(file, "PNG")
        width, height = picture.size
        return cls(file.getvalue(), width, height, _PNG, identity, name)


@dataclass(frozen=True)
class Caption:
    """A text about an image. A step that writes one only states the text: `Caption("A mug.")`.

    `author` is who wrote it; None for a caption of a source.
    """

    text: str
    language: str | None = None
    position: int = 0
    author: str | None = None
    id: str = field(default="", repr=False)
    image: Image | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a Caption needs a text; got {self.text!r:.40}")

    @classmethod
    def of(cls, stored: StoredEntity, image: Image | None) -> Self:
        """Return the caption in the store, with its image."""
        record = stored.record(records.Caption)
        return cls(record.text, record.language, record.position, record.author, stored.id, image)


class UnansweredError(Exception):
    """A model gave no usable answer; the input is rejected, or waits for a later run."""

    def __init__(
        self, reason: str, detail: str, *, is_temporary: bool = False, answer: str = ""
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.is_temporary = is_temporary
        self.answer = answer


Value = Image | Caption | Crop
VALUES: dict[type, str] = {
    Image: records.Image.kind,
    Crop: records.Image.kind,
    Caption: records.Caption.kind,
}
"""The kind of entity that each type of values is stored as."""
