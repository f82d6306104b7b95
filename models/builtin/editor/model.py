"""The built-in editor: does to drawn stills, and a little to photographs, what it is told."""

import io
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

from PIL import Image

from models.builtin.editor.canvas import UneditableError
from models.builtin.editor.grammar import read
from models.builtin.editor.making import Workplace
from schemas.chat import ChatImage, ModelRef
from schemas.image_edit import BuiltinEditor, EditedPicture, EditFailure, EditOutcome, EditRequest


class StillsEditor:
    """An `ImageEditor` that understands the sentences of `models.builtin.editor.grammar`.

    In drawn stills it changes colours, words on signs, kinds of things, where they are, what people
    do, the place, the weather and the style, by what it sees in the pixels; of photographs it
    changes the style and the light. What it cannot do so that it sees it done, it refuses. Equal
    specification and request give the same image.
    """

    def __init__(self, specification: BuiltinEditor) -> None:
        self._specification = specification

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._specification.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """Nothing beside the model."""
        return self._specification.parameters

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
        """(position, outcome) of each request, in order; requests are taken one by one."""
        for position, request in enumerate(requests):
            yield position, _edited(request)


def _edited(request: EditRequest) -> EditOutcome:
    started = perf_counter()
    change = read(request.instruction)
    if change is None:
        return EditFailure(
            reason="instruction_not_understood",
            detail=f"the instruction {request.instruction!r} is none that the editor understands",
        )
    try:
        with Image.open(io.BytesIO(request.image.data)) as picture:
            image = picture.convert("RGB")
        result = Workplace(image).changed(change, request.seed)
    except (OSError, Image.DecompressionBombError) as fault:
        return EditFailure(reason="image_unreadable", detail=f"the image cannot be read: {fault}")
    except UneditableError as fault:
        return EditFailure(reason=fault.reason, detail=str(fault))
    buffer = io.BytesIO()
    result.image.save(buffer, "PNG")
    return EditedPicture(
        image=ChatImage(media_type="image/png", data=buffer.getvalue()),
        width_px=result.image.width,
        height_px=result.image.height,
        regions=result.boxes,
        seconds=perf_counter() - started,
    )
