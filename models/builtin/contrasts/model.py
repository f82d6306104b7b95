"""The built-in strategist and refiner: proposes contrasts of images, and writes fine captions."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

from PIL import Image

from models.builtin.contrasts.refiner import fine_captions
from models.builtin.contrasts.strategist import strategies
from models.plain_pictures import plain_picture
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.errors import FormatError
from schemas.profile import BuiltinContraster
from schemas.refinement_request import (
    CAPTIONS_FIELD,
    REFINEMENT_PURPOSE,
    RefinementBrief,
)
from schemas.refinement_request import REPAIR_PURPOSE as REPAIR_CAPTIONS
from schemas.strategy_request import REPAIR_PURPOSE as REPAIR_STRATEGIES
from schemas.strategy_request import STRATEGIES_FIELD, STRATEGY_PURPOSE, StrategyBrief


class StillsContraster:
    """A `ChatModel` that proposes contrastive strategies, and refines the captions of a group.

    It reads the brief in a request's `subject` (`schemas.strategy_request`,
    `schemas.refinement_request`), not the prompt. In drawn stills it proposes what it has seen the
    built-in editor do; of photographs only another style, or dim light. It writes English alone.
    The same request always gives the same answer, a repair that of the first request.
    """

    def __init__(self, specification: BuiltinContraster) -> None:
        self._specification = specification

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._specification.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """Nothing beside the model."""
        return self._specification.parameters

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, answer) of each request, in order; requests are taken one by one."""
        for position, request in enumerate(requests):
            yield position, self._answer(request)

    def _answer(self, request: ChatRequest) -> ChatOutcome:
        started = perf_counter()
        try:
            answer = self._said(request)
        except FormatError as fault:
            return _refused(str(fault))
        except (OSError, Image.DecompressionBombError) as fault:
            return _refused(f"the image cannot be read: {fault}")
        text = json.dumps(answer, ensure_ascii=False)
        return ChatAnswer(text=text, tokens_in=0, tokens_out=0, seconds=perf_counter() - started)

    def _said(self, request: ChatRequest) -> dict[str, Any]:
        if request.purpose in (STRATEGY_PURPOSE, REPAIR_STRATEGIES):
            return {STRATEGIES_FIELD: self._strategies(request)}
        if request.purpose in (REFINEMENT_PURPOSE, REPAIR_CAPTIONS):
            return {CAPTIONS_FIELD: _captions(request)}
        raise FormatError(
            f"{self.ref} proposes strategies and refines captions; got a request for "
            f"{request.purpose!r}"
        )

    def _strategies(self, request: ChatRequest) -> list[dict[str, str]]:
        brief = StrategyBrief.parse(request.subject)
        if len(request.images) != 1:
            raise FormatError(f"strategies are made of one image; got {len(request.images)}")
        image = request.images[0].data
        digest = hashlib.blake2b(image, digest_size=16).hexdigest()
        found = strategies(_picture(image), brief, digest)
        if not found:
            raise FormatError("nothing is seen in the image that could be changed")
        return found


def _captions(request: ChatRequest) -> list[str]:
    brief = RefinementBrief.parse(request.subject)
    if brief.second_language is not None:
        raise FormatError(
            f"captions are written in English only; got a request for {brief.second_language!r}"
        )
    found = fine_captions([_picture(image.data) for image in request.images], brief)
    if found is None:
        raise FormatError("the images cannot be told apart by what is seen in them")
    return found


def _picture(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as picture:
        return plain_picture(picture)


def _refused(detail: str) -> ChatFailure:
    return ChatFailure(reason="refused_request", detail=detail, retriable=False)
