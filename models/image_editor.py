"""The protocol of image editors, and the editor that a profile names."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, assert_never, runtime_checkable

from schemas.chat import ModelRef
from schemas.image_edit import (
    BuiltinEditor,
    EditOutcome,
    EditRequest,
    ImageEditorSpec,
    QwenImageEdit,
)

# The protocol of image editors: one outcome per request.


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


# Build the editor that a profile names.


def build_image_editor(spec: ImageEditorSpec) -> ImageEditor:
    """The editor that `spec` describes, loaded and ready; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinEditor():
            from models.builtin.stills.editor import StillsEditor

            return StillsEditor(spec)
        case QwenImageEdit():
            from models.qwen_image_edit import QwenImageEditor

            return QwenImageEditor(spec)
        case _:
            assert_never(spec)
