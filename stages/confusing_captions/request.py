"""Asks a model for the confusing caption of a similar image, and reads its answer."""

from typing import Any

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.confusion_request import CONFUSION_FIELD, CONFUSION_PURPOSE, ConfusionBrief
from schemas.records import Rejection
from stages.clean_answer import clean_answer
from stages.confusing_captions.wording import word_change

STAGE = CONFUSION_PURPOSE
VERSION = "1"


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
    """The confusing caption that `answer` holds, clean, or why it cannot be used.

    Reasons are those of `clean_answer`, and `same_words`: the answer says what `caption` says, so
    that it would be right for both images or wrong for the one that was shown.
    """
    text = clean_answer(answer.text, max_characters, answer.truncated, CONFUSION_FIELD)
    if isinstance(text, Rejection):
        return text.model_copy(update={"stage": STAGE})
    if word_change(caption, text).edits == 0:
        detail = f"The confusing caption has the same words as the caption: {text!r}."
        return Rejection(
            stage=STAGE, reason="same_words", detail=detail, context={"answer": answer.text}
        )
    return text
