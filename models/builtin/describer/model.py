"""The built-in describer: says which colours a person wears where, offline."""

import io
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

from models.builtin.describer.reading import Colouring, Reading, read_crop
from schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest, ModelRef
from schemas.profile import BuiltinDescriber


class ColourDescriber:
    """A `ChatModel` that describes the person in the first image of each request.

    It reads colours by their place on the body and guesses nothing: neither sex nor age nor what
    kind of garment it is. What it writes is a draft at most. The same specification and image
    always give the same answer.
    """

    def __init__(self, specification: BuiltinDescriber) -> None:
        self._specification = specification

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._specification.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The style."""
        return self._specification.parameters

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, answer) of each request, in order; requests are taken one by one."""
        for position, request in enumerate(requests):
            yield position, self._answer(request)

    def _answer(self, request: ChatRequest) -> ChatOutcome:
        if not request.images:
            detail = f"{self.ref} describes images, and there is none in the request"
            return ChatFailure(reason="refused_request", detail=detail, retriable=False)
        started = perf_counter()
        text = describe(read_crop(_pixels(request.images[0])), self._specification.style)
        return ChatAnswer(text=text, tokens_in=0, tokens_out=0, seconds=perf_counter() - started)


def describe(reading: Reading, style: str) -> str:
    """What was read as sentences; `style` is `plain` or `flowing`."""
    head, upper, lower = (_said(colouring) for colouring in reading)
    if style == "plain":
        return (
            f"A person in {upper} upper clothes and {lower} clothing below the waist. "
            f"The hair or headwear is {head}."
        )
    return (
        f"Seen here is a person with {head} hair or headwear. "
        f"Above the waist the clothing is {upper}; the legs are covered in {lower}."
    )


def _said(colouring: Colouring) -> str:
    names = " and ".join(colouring.names)
    return f"multicolored (mostly {names})" if colouring.many else names


def _pixels(image: ChatImage) -> Any:
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(image.data)) as picture:
        return np.asarray(picture.convert("RGB"))
