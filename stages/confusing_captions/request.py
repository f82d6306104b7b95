"""Asks a model for the confusing caption of a similar image, and reads its answer."""

from typing import Any

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.confusion_request import CONFUSION_FIELD, CONFUSION_PURPOSE, ConfusionBrief
from schemas.records import Rejection
from stages.answer_texts import Fault, answer_object, only_field, read_line, refused_answer
from stages.caption_words import words_of

STAGE = CONFUSION_PURPOSE
VERSION = "2"


def answer_schema(max_characters: int) -> dict[str, Any]:
    """The JSON schema of an answer: one string, `caption`, of 1 to `max_characters` characters."""
    text = {"type": "string", "minLength": 1, "maxLength": max_characters}
    return {
        "type": "object",
        "properties": {CONFUSION_FIELD: text},
        "required": [CONFUSION_FIELD],
        "additionalProperties": False,
    }


def request_confusion(
    image: ChatImage, brief: ConfusionBrief, prompt: Prompt, max_characters: int
) -> ChatRequest:
    """The request for t′, the caption of `image` (x′) in the words of `brief.caption` (t).

    The model is not shown x. The brief may hold anything, instructions to the model included: the
    prompt sets it apart as data.
    """
    text = brief.text()
    return ChatRequest(
        purpose=STAGE,
        prompt=prompt.render(brief=text),
        prompt_digest=prompt.digest,
        subject=text,
        images=(image,),
        answer_schema=answer_schema(max_characters),
    )


def read_confusion(answer: ChatAnswer, caption: str, max_characters: int) -> str | Rejection:
    """The confusing caption that `answer` holds, as it is, or why it cannot be used.

    Reasons are those of `answer_object`, `only_field` and `read_line` (`stages.answer_texts`), and
    `same_words`: the answer says what `caption` says, so that it would be right for both images or
    wrong for the one that was shown.
    """
    found = answer_object(answer, STAGE)
    if isinstance(found, Rejection):
        return found
    text = only_field(found, CONFUSION_FIELD)
    if not isinstance(text, Fault):
        text = read_line(text, "The caption", max_characters)
    if not isinstance(text, Fault) and words_of(text) == words_of(caption):
        detail = f"The confusing caption has the same words as the caption: {text!r}."
        text = Fault("same_words", detail)
    return refused_answer(answer, STAGE, text) if isinstance(text, Fault) else text
