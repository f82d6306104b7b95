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
from stages.answer_texts import Fault, answer_object, only_field, read_line, refused_answer
from stages.caption_images.request import MAX_CHARACTERS
from stages.caption_words import words_of


def read_captions(
    answer: ChatAnswer, count: int = CAPTIONS_OF_AN_IMAGE
) -> tuple[str, ...] | Rejection:
    """The `count` captions that `answer` holds, as they are, or why they cannot be used.

    One that cannot be used spoils the answer. Reasons are those of `answer_object`, `only_field`
    and `read_line` (`stages.answer_texts`), and `wrong_count` and `same_captions` (two have the
    same words).
    """
    found = answer_object(answer, CAPTION_PURPOSE)
    if isinstance(found, Rejection):
        return found
    captions = _captions(only_field(found, CAPTIONS_FIELD), count)
    if isinstance(captions, Fault):
        return refused_answer(answer, CAPTION_PURPOSE, captions)
    return captions


def read_revision(answer: ChatAnswer) -> str | Rejection:
    """The caption that `answer` holds, as it is, or why it cannot be used."""
    found = answer_object(answer, REVISION_PURPOSE)
    if isinstance(found, Rejection):
        return found
    text = only_field(found, CAPTION_FIELD)
    if not isinstance(text, Fault):
        text = read_line(text, "The caption", MAX_CHARACTERS)
    return refused_answer(answer, REVISION_PURPOSE, text) if isinstance(text, Fault) else text


def _captions(value: object, count: int) -> tuple[str, ...] | Fault:
    if isinstance(value, Fault):
        return value
    if not isinstance(value, list):
        return Fault("wrong_type", f"The captions must be a list; got {type(value).__name__}.")
    if len(value) != count:
        return Fault("wrong_count", f"The answer holds {len(value)} captions; wanted {count}.")
    captions: list[str] = []
    for number, one in enumerate(value, start=1):
        caption = read_line(one, f"Caption {number}", MAX_CHARACTERS)
        if isinstance(caption, Fault):
            return caption
        captions.append(caption)
    if len(set(map(words_of, captions))) < count:
        return Fault("same_captions", "Two of the captions say the same; wanted different ones.")
    return tuple(captions)
