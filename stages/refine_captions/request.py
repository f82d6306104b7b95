"""Asks a model for a fine caption of each image of a group, or for them anew."""

from collections.abc import Sequence
from typing import Any

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.records import Rejection
from schemas.refinement_request import (
    CAPTIONS_FIELD,
    MOST_CHARACTERS,
    REFINEMENT_PURPOSE,
    REPAIR_PURPOSE,
    TRANSLATIONS_FIELD,
    RefinementBrief,
)
from schemas.strategy_request import ImageArea
from stages.contrast_strategies.resizing import smart_resized
from stages.quoted_answer import quoted_answer

STAGE = REFINEMENT_PURPOSE
VERSION = "2"

_AREA = ImageArea()


def resized_images(
    images: Sequence[ChatImage], area: ImageArea = _AREA
) -> tuple[ChatImage, ...] | Rejection:
    """All images of a group as a model is shown them, or why one cannot be shown.

    Reasons of a rejection are those of `smart_resized`; its context has the `image`'s position.

    Args:
        images: all of the group, the anchor first; each is scaled once, for every request.
        area: the size at which the model looks at each image.
    """
    resized: list[ChatImage] = []
    for position, image in enumerate(images):
        one = smart_resized(image, area)
        if isinstance(one, Rejection):
            return one.model_copy(update={"stage": STAGE, "context": {"image": position}})
        resized.append(one)
    return tuple(resized)


def request_refinement(
    images: Sequence[ChatImage], brief: RefinementBrief, prompt: Prompt
) -> ChatRequest:
    """The request for a caption of each of `images`.

    The brief may hold anything, instructions to the model included: the prompt sets it apart as
    data.

    Args:
        images: all of the group, as `resized_images` gives them.
        brief: the coarse caption, and how the images were meant to differ.
        prompt: `refine_captions`.

    Raises:
        ValueError: there are not as many images as the brief says.
    """
    if len(images) != brief.images:
        raise ValueError(f"the brief tells of {brief.images} images; got {len(images)}")
    text = brief.text()
    return ChatRequest(
        purpose=REFINEMENT_PURPOSE,
        prompt=prompt.render(**_told(brief)),
        prompt_digest=prompt.digest,
        subject=text,
        images=tuple(images),
        answer_schema=answer_schema(brief),
    )


def request_repair(
    request: ChatRequest, answer: ChatAnswer, rejection: Rejection, prompt: Prompt
) -> ChatRequest:
    """The request for captions anew, after `answer` to `request` was rejected.

    Args:
        request: what was asked, by `request_refinement`.
        answer: what came back; it is quoted as data.
        rejection: why it is no use.
        prompt: `repair_captions`.
    """
    told = _told(RefinementBrief.parse(request.subject))
    return request.model_copy(
        update={
            "purpose": REPAIR_PURPOSE,
            "prompt": prompt.render(
                **told, problem=rejection.detail, answer=quoted_answer(answer.text)
            ),
            "prompt_digest": prompt.digest,
        }
    )


def answer_schema(brief: RefinementBrief) -> dict[str, Any]:
    """The JSON schema of an answer: as many captions as images, and translations where wanted."""
    text = {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS}
    texts = {
        "type": "array",
        "items": text,
        "minItems": brief.images,
        "maxItems": brief.images,
    }
    fields = [CAPTIONS_FIELD, *([TRANSLATIONS_FIELD] if brief.second_language else [])]
    return {
        "type": "object",
        "properties": dict.fromkeys(fields, texts),
        "required": fields,
        "additionalProperties": False,
    }


def _told(brief: RefinementBrief) -> dict[str, str]:
    return {
        "images": str(brief.images),
        "brief": brief.text(),
        "second_language": brief.second_language or "",
    }
