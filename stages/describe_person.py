"""Asks a model to describe the person in a picture, and reads its answer."""

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.records import Rejection
from stages.clean_answer import clean_answer
from stages.refusals import refusal_in

STAGE = "describe_person"
VERSION = "1"


def request_description(image: ChatImage, prompt: Prompt) -> ChatRequest:
    """The request to describe the person in `image`."""
    return ChatRequest(
        purpose=STAGE, prompt=prompt.render(), prompt_digest=prompt.digest, images=(image,)
    )


def read_description(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """The description that `answer` holds, clean, or why it cannot be used.

    Reasons are those of `clean_answer`, and `refusal`.
    """
    text = clean_answer(answer.text, max_characters, truncated=answer.truncated)
    if isinstance(text, Rejection):
        return text.model_copy(update={"stage": STAGE})
    if (refusal := refusal_in(text)) is None:
        return text
    detail = f"The model refused: {refusal!r}."
    return Rejection(stage=STAGE, reason="refusal", detail=detail, context={"answer": answer.text})
