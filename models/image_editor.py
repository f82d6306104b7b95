"""The protocol of image editors."""

import io
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from PIL import Image

from loupe.schemas.base import Box
from loupe.schemas.chat import ChatImage, ModelRef
from loupe.schemas.image_edit import EditedPicture, EditOutcome, EditRequest


@runtime_checkable
class ImageEditor(Protocol):
    """A model that changes an image as an instruction says."""

    @property
    def ref(self) -> ModelRef:
        """Name and revision: what keys and provenance say of this model."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside model and request, determines an edit; JSON values only."""
        ...

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
        """(position, outcome) of each request, in order."""
        ...


def edited_picture(
    picture: Image.Image, seconds: float, regions: tuple[Box, ...] = ()
) -> EditedPicture:
    """The outcome of an edit, as PNG."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return EditedPicture(
        image=ChatImage(media_type="image/png", data=buffer.getvalue()),
        width_px=picture.width,
        height_px=picture.height,
        regions=regions,
        seconds=seconds,
    )
