"""Asks a model for contrastive strategies, or for them anew where an answer was no use."""

from typing import Any

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.records import Rejection
from schemas.strategy_request import (
    CAPTION_FIELD,
    DETAIL_FIELD,
    INSTRUCTION_FIELD,
    MOST_CHARACTERS,
    PLAN_FIELD,
    REPAIR_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    TYPE_FIELD,
    ImageArea,
    StrategyBrief,
)
from schemas.taxonomy import DifferenceType, taxonomy_lines
from stages.contrast_strategies.resizing import smart_resized
from stages.quoted_answer import quoted_answer

STAGE = STRATEGY_PURPOSE
VERSION = "2"

FIELDS = (DETAIL_FIELD, TYPE_FIELD, PLAN_FIELD, CAPTION_FIELD, INSTRUCTION_FIELD)
"""The fields of a strategy, in the order in which a model writes them."""

_AREA = ImageArea()


def request_strategies(
    image: ChatImage, brief: StrategyBrief, prompt: Prompt, area: ImageArea = _AREA
) -> ChatRequest | Rejection:
    """The request for strategies to change `image`, or why the image cannot be shown to a model.

    The brief may hold anything, instructions to the model included: the prompt sets it apart as
    data. Reasons of a rejection are those of `smart_resized`.

    Args:
        image: the anchor; it is scaled as `area` says.
        brief: what is known of it, and how many strategies are wanted.
        prompt: `contrast_strategies`.
        area: the size at which the model looks at it.
    """
    resized = smart_resized(image, area)
    if isinstance(resized, Rejection):
        return resized.model_copy(update={"stage": STAGE})
    text = brief.text()
    return ChatRequest(
        purpose=STRATEGY_PURPOSE,
        prompt=prompt.render(brief=text, count=str(brief.count), taxonomy=taxonomy_lines()),
        prompt_digest=prompt.digest,
        subject=text,
        images=(resized,),
        answer_schema=answer_schema(brief.count),
    )


def request_repair(
    request: ChatRequest, answer: ChatAnswer, rejection: Rejection, prompt: Prompt
) -> ChatRequest:
    """The request for strategies anew, after `answer` to `request` was rejected.

    Args:
        request: what was asked, by `request_strategies`.
        answer: what came back; it is quoted as data.
        rejection: why it is no use.
        prompt: `repair_strategies`.
    """
    brief = StrategyBrief.parse(request.subject)
    return request.model_copy(
        update={
            "purpose": REPAIR_PURPOSE,
            "prompt": prompt.render(
                brief=request.subject,
                count=str(brief.count),
                taxonomy=taxonomy_lines(),
                problem=rejection.detail,
                answer=quoted_answer(answer.text),
            ),
            "prompt_digest": prompt.digest,
        }
    )


def answer_schema(count: int) -> dict[str, Any]:
    """The JSON schema of an answer: 1 to `count` strategies, with nothing beside their fields."""
    properties: dict[str, Any] = {
        field: {"type": "string", "enum": [kind.value for kind in DifferenceType]}
        if field == TYPE_FIELD
        else {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS[field]}
        for field in FIELDS
    }
    strategies = {
        "type": "array",
        "items": _object(properties),
        "minItems": 1,
        "maxItems": count,
    }
    return _object({STRATEGIES_FIELD: strategies})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
