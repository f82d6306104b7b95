"""Asks a model to say a description in another way, and reads its answer."""

from typing import Any

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatRequest
from schemas.records import Rejection
from stages.clean_answer import FIELD, STAGE, clean_answer

VERSION = "1"


def answer_schema(max_characters: int) -> dict[str, Any]:
    """The JSON schema of an answer: one string, `rewrite`, of 1 to `max_characters` characters."""
    return {
        "type": "object",
        "properties": {FIELD: {"type": "string", "minLength": 1, "maxLength": max_characters}},
        "required": [FIELD],
        "additionalProperties": False,
    }


def request_rewrite(description: str, prompt: Prompt, max_characters: int) -> ChatRequest:
    """The request to rewrite `description`.

    The description may hold anything, instructions to the model included: the prompt sets it apart
    as data, and what a model makes of it is checked as any answer is.
    """
    return ChatRequest(
        purpose=STAGE,
        prompt=prompt.render(description=description),
        prompt_digest=prompt.digest,
        subject=description,
        answer_schema=answer_schema(max_characters),
    )


def read_rewrite(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """The rewrite that `answer` holds, clean, or why it cannot be used."""
    return clean_answer(answer.text, max_characters, truncated=answer.truncated)
