"""What a chat model is asked about a text beside its source, and how its answer is read."""

from typing import Any

from loupe.checks.text import SIGNS
from loupe.flows.answers import (
    UnusableAnswerError,
    check_fields,
    object_schema,
    read_answer,
    read_text,
    text_schema,
)
from loupe.prompts.loader import Prompt
from loupe.schemas.chat import ChatAnswer, ChatRequest
from loupe.schemas.records import Rejection

PURPOSE = "judge_rewrite"
SENTENCES = {
    "added": "The judge finds no source for: {}",
    "contradicted": "The judge finds a contradiction: {}",
}
"""The fields of an answer, and what annotators read about each of their facts."""
Judgement = dict[str, tuple[str, ...]]
"""The facts that a judge objects to, by the field of its answer."""
_MOST_FACTS = 20
_MOST_CHARACTERS = 200


def request_judgement(description: str, rewrite: str, prompt: Prompt) -> ChatRequest:
    """Return the request to compare `rewrite` with the `description` that it was made from."""
    values = {"description": description, "rewrite": rewrite}
    facts = {"type": "array", "items": text_schema(), "maxItems": _MOST_FACTS}
    schema = object_schema(dict.fromkeys(SENTENCES, facts))
    return prompt.request(PURPOSE, values, answer_schema=schema)


def read_judgement(answer: ChatAnswer) -> Judgement | Rejection:
    """Return the facts that the judge objects to, or why the answer cannot be used."""

    def read(found: dict[str, Any]) -> Judgement:
        check_fields(found, tuple(SENTENCES), "The answer")
        objections = {field: found[field] for field in SENTENCES}
        for field, facts in objections.items():
            if not isinstance(facts, list) or len(facts) > _MOST_FACTS:
                detail = f"{field!r} must be a list of at most {_MOST_FACTS} facts."
                raise UnusableAnswerError("wrong_type", detail)
        return {
            field: tuple(read_text(one, f"{field!r}", _MOST_CHARACTERS, SIGNS) for one in facts)
            for field, facts in objections.items()
        }

    return read_answer(answer, PURPOSE, read)
