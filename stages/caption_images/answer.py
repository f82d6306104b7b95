"""Reads the captions in a model's answer."""

from schemas.caption_request import (
    CAPTION_FIELD,
    CAPTION_PURPOSE,
    CAPTIONS_FIELD,
    CAPTIONS_OF_AN_IMAGE,
    REVISION_PURPOSE,
)
from schemas.chat import ChatAnswer
from schemas.records import Rejection
from stages.caption_images.request import MAX_CHARACTERS
from stages.clean_answer import clean_answer, clean_answers


def read_captions(
    answer: ChatAnswer, count: int = CAPTIONS_OF_AN_IMAGE
) -> tuple[str, ...] | Rejection:
    """The `count` captions that `answer` holds, clean, or why they cannot be used.

    Reasons are those of `clean_answer`, and `wrong_count` and `same_captions` (two say the same,
    case and final stop aside).
    """
    captions = clean_answers(answer.text, MAX_CHARACTERS, answer.truncated, CAPTIONS_FIELD)
    if isinstance(captions, Rejection):
        return captions.model_copy(update={"stage": CAPTION_PURPOSE})
    if len(captions) != count:
        detail = f"The answer holds {len(captions)} captions; wanted {count}."
        return _rejected(CAPTION_PURPOSE, "wrong_count", detail, answer)
    if len(set(map(folded, captions))) < count:
        detail = "Two of the captions say the same; wanted different ones."
        return _rejected(CAPTION_PURPOSE, "same_captions", detail, answer)
    return captions


def read_revision(answer: ChatAnswer) -> str | Rejection:
    """The caption that `answer` holds, clean, or why it cannot be used (see `clean_answer`)."""
    text = clean_answer(answer.text, MAX_CHARACTERS, answer.truncated, CAPTION_FIELD)
    if isinstance(text, Rejection):
        return text.model_copy(update={"stage": REVISION_PURPOSE})
    return text


def folded(caption: str) -> str:
    """What two captions that say the same have in common: no case, no final stop."""
    return " ".join(caption.casefold().split()).rstrip(" .!")


def _rejected(stage: str, reason: str, detail: str, answer: ChatAnswer) -> Rejection:
    return Rejection(stage=stage, reason=reason, detail=detail, context={"answer": answer.text})
