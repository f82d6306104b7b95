"""The protocol of image editors."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from schemas.chat import ModelRef
from schemas.image_edit import EditOutcome, EditRequest


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
