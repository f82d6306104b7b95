"""The built-in captioner: writes captions of drawn stills, and of whatever facts it is told."""

import io
import json
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

from PIL import Image

from models.builtin.captioner.colours import ColourTeller
from models.builtin.captioner.confusing import confused, confused_facts
from models.builtin.captioner.facts import FactTeller
from models.builtin.captioner.revising import revised
from models.builtin.captioner.still import StillTeller
from models.builtin.captioner.telling import Teller, distinct
from models.builtin.stills.saying import Content, content_of_image
from models.builtin.stills.seeing import see_still
from models.plain_pictures import plain_picture
from schemas.caption_request import (
    CAPTION_FIELD,
    CAPTION_PURPOSE,
    CAPTIONS_FIELD,
    REVISION_PURPOSE,
    CaptionBrief,
)
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.confusion_request import CONFUSION_FIELD, CONFUSION_PURPOSE, ConfusionBrief
from schemas.errors import FormatError
from schemas.profile import BuiltinCaptioner
from schemas.retrieval_task import RetrievalTask


class StillsCaptioner:
    """A `ChatModel` that writes captions, writes them anew, and writes confusing ones.

    It reads the brief in a request's `subject` (`schemas.caption_request`,
    `schemas.confusion_request`), not the prompt. Where facts are told it says these; else what is
    seen in a drawing; of any other picture only which colours are where. The same specification
    and request always give the same answer.
    """

    def __init__(self, specification: BuiltinCaptioner) -> None:
        self._specification = specification

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._specification.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The level of detail."""
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
        if answer is None:
            return _refused(f"{self.ref} has nothing new to say of the image")
        text = json.dumps(answer, ensure_ascii=False)
        return ChatAnswer(text=text, tokens_in=0, tokens_out=0, seconds=perf_counter() - started)

    def _said(self, request: ChatRequest) -> dict[str, Any] | None:
        if request.purpose == CONFUSION_PURPOSE:
            caption = _confusion(request, ConfusionBrief.parse(request.subject))
            return {CONFUSION_FIELD: caption} if caption else None
        if request.purpose not in (CAPTION_PURPOSE, REVISION_PURPOSE):
            raise FormatError(f"{self.ref} writes captions; got a request for {request.purpose!r}")
        brief = CaptionBrief.parse(request.subject)
        teller, _ = _teller(request, brief.facts, brief.task)
        if brief.caption is not None:
            caption = revised(teller, brief)
            return {CAPTION_FIELD: caption} if caption else None
        details = self._specification.details
        size = max(2, details - 1) if brief.facts else details
        found = distinct(teller, size, brief.count)
        if len(found) < brief.count and request.images:  # little was seen, or told
            colours = ColourTeller(_picture(request))
            found += distinct(colours, 2, brief.count - len(found), without=found)
        return {CAPTIONS_FIELD: found} if len(found) == brief.count else None


def _teller(
    request: ChatRequest, facts: tuple[str, ...], task: RetrievalTask
) -> tuple[Teller, Content | None]:
    """Who knows most of the image, and what is seen in it where that is anything."""
    if facts:
        return FactTeller(facts), None
    if not request.images:
        raise FormatError("neither facts nor an image in the request")
    image = _picture(request)
    content = content_of_image(see_still(image))
    if content.groups:
        return StillTeller(content, task), content
    return ColourTeller(image), None


def _picture(request: ChatRequest) -> Image.Image:
    with Image.open(io.BytesIO(request.images[0].data)) as picture:
        return plain_picture(picture)


def _confusion(request: ChatRequest, brief: ConfusionBrief) -> str | None:
    """The caption nearest to the given one that is true of the image."""
    teller, content = _teller(request, brief.facts, brief.task)
    if content is not None and (text := confused(brief.caption, content)):
        return text
    return confused_facts(brief.caption, teller)


def _refused(detail: str) -> ChatFailure:
    return ChatFailure(reason="refused_request", detail=detail, retriable=False)
