"""What every image editor gives, and which editor a profile names."""

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

# What every image editor gives: one outcome per request.


@runtime_checkable
class ImageEditor(Protocol):
    """A model that changes an image as a sentence asks.

    What is promised:

    - One (position, outcome) pair per request taken, exactly once, in order; positions count the
      requests from 0. Requests are taken lazily, a batch at a time.
    - The edited image has the size of the image that was given, in pixels, and is RGB.
    - Equal requests give equal images on equal hardware; another seed may give another image.
    - It never raises for a single request: what failed comes back as an `EditFailure`. It raises
      (`ModelError`, `ConfigurationError`) only for what concerns all requests.
    """

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


# From a profile's words to a model that edits images.


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
