"""Asks a model for captions of an image, or for one caption anew."""

from collections.abc import Sequence
from typing import Any

from prompts.loader import Prompt
from schemas.caption_request import (
    CAPTION_FIELD,
    CAPTION_PURPOSE,
    CAPTIONS_FIELD,
    CAPTIONS_OF_AN_IMAGE,
    REVISION_PURPOSE,
    CaptionBrief,
    Direction,
)
from schemas.chat import ChatImage, ChatRequest
from schemas.recos import CaptionVerdict
from schemas.retrieval_task import RetrievalTask

VERSION = "2"
MAX_CHARACTERS = 400
"""The longest caption that is taken; 40 words are about 240."""


def request_captions(
    image: ChatImage,
    task: RetrievalTask,
    facts: Sequence[str],
    prompt: Prompt,
    count: int = CAPTIONS_OF_AN_IMAGE,
) -> ChatRequest:
    """The request for `count` captions of `image`.

    Args:
        image: what is to be described.
        task: what the captions are for.
        facts: what is known to be true of the image, the most important first; they may hold
            anything, instructions to the model included: the prompt sets them apart as data.
        prompt: `caption_image`.
        count: how many captions are wanted.
    """
    brief = CaptionBrief(task=task, count=count, facts=tuple(facts)).text()
    return ChatRequest(
        purpose=CAPTION_PURPOSE,
        prompt=prompt.render(task=str(task), count=str(count), brief=brief),
        prompt_digest=prompt.digest,
        subject=brief,
        images=(image,),
        answer_schema=captions_schema(count),
    )


def request_revision(
    image: ChatImage,
    task: RetrievalTask,
    facts: Sequence[str],
    caption: str,
    verdict: CaptionVerdict,
    prompt: Prompt,
    *,
    too_detailed: Sequence[str] = (),
    too_general: Sequence[str] = (),
    taken: Sequence[str] = (),
) -> ChatRequest:
    """The request for a caption in the place of `caption`, which failed as `verdict` says.

    Args:
        image: what is to be described.
        task: what the caption is for.
        facts: what is known to be true of the image, the most important first.
        caption: the caption to replace.
        verdict: how it failed.
        prompt: `caption_revision`.
        too_detailed: captions of earlier rounds that were over-detailed, the oldest first.
        too_general: those that were under-detailed.
        taken: what other captions of the image say.

    Raises:
        ValueError: the caption passed.
    """
    direction = Direction.after(verdict)
    brief = CaptionBrief(
        task=task,
        count=1,
        facts=tuple(facts),
        caption=caption,
        direction=direction,
        too_detailed=tuple(too_detailed),
        too_general=tuple(too_general),
        taken=tuple(taken),
    ).text()
    return ChatRequest(
        purpose=REVISION_PURPOSE,
        prompt=prompt.render(direction=str(direction), brief=brief),
        prompt_digest=prompt.digest,
        subject=brief,
        images=(image,),
        answer_schema=revision_schema(),
    )


def captions_schema(count: int) -> dict[str, Any]:
    """The JSON schema of an answer: `captions`, a list of exactly `count` texts."""
    texts = {"type": "array", "items": _text(), "minItems": count, "maxItems": count}
    return _object(CAPTIONS_FIELD, texts)


def revision_schema() -> dict[str, Any]:
    """The JSON schema of an answer: `caption`, one text."""
    return _object(CAPTION_FIELD, _text())


def _text() -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS}


def _object(field: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field: value},
        "required": [field],
        "additionalProperties": False,
    }
