"""The built-in editor: edits drawn stills, and photographs a little, by instruction."""

import io
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, NamedTuple, assert_never

import numpy as np
from PIL import Image

from models.builtin.editor.arranging import acted, added, moved, removed, replaced
from models.builtin.editor.canvas import (
    Canvas,
    Edited,
    UneditableError,
    canvas_of,
    departures,
    intended_boxes,
)
from models.builtin.editor.changes import (
    Act,
    Add,
    Change,
    Darken,
    Move,
    Rain,
    Recolour,
    Remove,
    Replace,
    Resettle,
    Respell,
    Restyle,
    read,
)
from models.builtin.editor.painting import (
    darkened,
    in_another_colour,
    is_coloured,
    photograph_as,
    rained_on,
    redrawn,
    resettled,
    with_another_word,
)
from models.builtin.stills.reading import Content
from models.builtin.stills.seeing import Pixels, see_still
from schemas.chat import ChatImage, ModelRef
from schemas.image_edit import BuiltinEditor, EditedPicture, EditFailure, EditOutcome, EditRequest
from schemas.proposals import Box

# Makes a change to a picture, and checks that it came out as asked.

_CHANGED = 1.5  # of 255


class ChangedImage(NamedTuple):
    """An image after a change, and boxes around where it was to change, in its pixels.

    There is no box where the whole image was.
    """

    image: Image.Image
    boxes: tuple[Box, ...] = ()


class Workplace:
    """An RGB image that is looked at once, to be changed in one way or another."""

    def __init__(self, image: Image.Image) -> None:
        self._image = image
        self._canvas = canvas_of(image)

    @property
    def content(self) -> Content | None:
        """What is seen in a drawing; None of a photograph."""
        return self._canvas.content if self._canvas else None

    def changed(self, change: Change, seed: int) -> ChangedImage:
        """The image with one thing changed in it; of the same size.

        Raises:
            UneditableError: that cannot be done, or did not come out as asked.
        """
        image, canvas = self._image, self._canvas
        if canvas is None:
            return ChangedImage(_as_image(_photograph(np.asarray(image, np.float32), change)))
        edited = _made(canvas, change, seed)
        result = _as_image(edited.pixels)
        wrong = departures(edited.expected, see_still(result))
        if wrong:
            parts = " and ".join(wrong)
            raise UneditableError("did_not_come_out", f"{parts} came out differently")
        boxes = intended_boxes(canvas.seen, edited.expected)
        if image.size == result.size:
            return ChangedImage(result, boxes)
        across, down = image.width / result.width, image.height / result.height
        return ChangedImage(
            _at_size(image, canvas.pixels, edited.pixels),
            tuple((x0 * across, y0 * down, x1 * across, y1 * down) for x0, y0, x1, y1 in boxes),
        )


def _made(canvas: Canvas, change: Change, seed: int) -> Edited:
    match change:
        case Recolour():
            return in_another_colour(canvas, change, seed)
        case Respell():
            return with_another_word(canvas, change, seed)
        case Replace():
            return replaced(canvas, change, seed)
        case Remove():
            return removed(canvas, change)
        case Add():
            return added(canvas, change, seed)
        case Move():
            return moved(canvas, change, seed)
        case Resettle():
            return resettled(canvas, change, seed)
        case Act():
            return acted(canvas, change, seed)
        case Rain():
            return rained_on(canvas, seed)
        case Restyle(manner):
            return redrawn(canvas, manner, seed)
        case Darken():
            raise UneditableError("not_drawable", "the light of a drawing is not changed")
        case _:
            assert_never(change)


def _photograph(pixels: Pixels, change: Change) -> Pixels:
    match change:
        case Restyle("black-and-white picture") if not is_coloured(pixels):
            raise UneditableError("nothing_to_change", "the picture has no colours")
        case Restyle(manner):
            return photograph_as(pixels, manner)
        case Darken():
            return darkened(pixels)
        case _:
            raise UneditableError(
                "nothing_seen", "of photographs only the style and the light can be changed"
            )


def _at_size(image: Image.Image, before: Pixels, after: Pixels) -> Image.Image:
    """The image with what changed in its copy of another size."""
    changed = np.abs(after - before).max(axis=2) > _CHANGED
    grown = np.asarray(Image.fromarray(changed).convert("L").resize(image.size), np.float32) / 255
    new = np.asarray(_as_image(after).resize(image.size, Image.Resampling.BICUBIC), np.float32)
    old = np.asarray(image, np.float32)
    return _as_image(old + (grown > 0)[..., None] * (new - old))


def _as_image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))


# The built-in editor: edits drawn stills, and photographs a little, by instruction.


class StillsEditor:
    """An `ImageEditor` that understands the sentences of `models.builtin.editor.changes`.

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
