"""Reads the captions of a group in a model's answer."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.chat import ChatAnswer
from schemas.records import Rejection
from schemas.refinement_request import (
    CAPTIONS_FIELD,
    MOST_CHARACTERS,
    TRANSLATIONS_FIELD,
    RefinementBrief,
)
from stages.answer_texts import (
    Fault,
    answer_object,
    language_fault,
    read_text,
    refused_answer,
    shown,
    translation_fault,
)
from stages.refine_captions.request import STAGE
from stages.refine_captions.wording import refused_phrase, same_captions

_NUMBER = re.compile(
    r"^\s*(?:(?:the )?(?:image|picture|photo|caption)\s*)?#?\(?(\d{1,2})\s?[.):]\)?\s+",
    re.IGNORECASE,
)


class RefinedCaptions(NamedTuple):
    """A caption of each image in their order, and as many translations or none."""

    captions: tuple[str, ...]
    translations: tuple[str, ...] = ()


def read_refinement(answer: ChatAnswer, brief: RefinementBrief) -> RefinedCaptions | Rejection:
    """The captions that `answer` holds, one of each image, or why they cannot be used.

    One that is no use spoils the answer: a caption left out would make the others those of other
    images. Reasons: `wrong_count`, `same_captions` (of two images), `speaks_of_other_image`,
    `wrong_order` (captions have numbers, and not 1, 2, 3 …; right ones are taken out),
    `missing_field`, `extra_fields`, `untranslated` (a translation is its caption), and those of
    `stages.answer_texts`. The raw answer is in the context.
    """
    found = answer_object(answer, STAGE)
    if isinstance(found, Rejection):
        return found
    read = _read(found, brief)
    if isinstance(read, Fault):
        return refused_answer(answer, STAGE, read)
    return read


def _read(found: dict[str, Any], brief: RefinementBrief) -> RefinedCaptions | Fault:
    fields = [CAPTIONS_FIELD, *([TRANSLATIONS_FIELD] if brief.second_language else [])]
    if missing := [field for field in fields if field not in found]:
        return Fault("missing_field", f"The answer lacks the fields {missing}.")
    if extra := sorted(set(found) - set(fields)):
        return Fault("extra_fields", f"The answer has unknown fields: {shown(', '.join(extra))}.")
    captions = _texts(found[CAPTIONS_FIELD], "Caption", brief.images)
    if isinstance(captions, Fault):
        return captions
    if fault := _caption_fault(captions, brief):
        return fault
    if brief.second_language is None:
        return RefinedCaptions(captions)
    translations = _texts(found[TRANSLATIONS_FIELD], "Translation", brief.images)
    if isinstance(translations, Fault):
        return translations
    for number, (text, caption) in enumerate(zip(translations, captions, strict=True), start=1):
        name = f"Translation {number}"
        if fault := translation_fault(text, name, caption, brief.second_language):
            return fault
    return RefinedCaptions(captions, translations)


def _texts(value: object, name: str, count: int) -> tuple[str, ...] | Fault:
    if not isinstance(value, list):
        return Fault("wrong_type", f"{name}s must be a list; got {type(value).__name__}.")
    if len(value) != count:
        detail = (
            f"The answer holds {len(value)} {name.lower()}s; wanted {count}, one of each image."
        )
        return Fault("wrong_count", detail)
    texts: list[str] = []
    for number, one in enumerate(value, start=1):
        text = read_text(one, f"{name} {number}", MOST_CHARACTERS)
        if isinstance(text, Fault):
            return text
        texts.append(text)
    return _without_numbers(texts, name)


def _without_numbers(texts: Sequence[str], name: str) -> tuple[str, ...] | Fault:
    """The texts without the numbers before them, which must be those of the images."""
    matches = [_NUMBER.match(text) for text in texts]
    if not any(matches):
        return tuple(texts)
    numbers = [int(match[1]) if match else None for match in matches]
    if numbers != list(range(1, len(texts) + 1)):
        return Fault("wrong_order", f"The {name.lower()}s have the numbers {numbers}.")
    return tuple(text[match.end() :] for text, match in zip(texts, matches, strict=True) if match)


def _caption_fault(captions: Sequence[str], brief: RefinementBrief) -> Fault | None:
    for number, caption in enumerate(captions, start=1):
        name = f"Caption {number}"
        if fault := language_fault(caption, name, brief.caption):
            return fault
        if (phrase := refused_phrase(caption, brief.caption)) is not None:
            detail = f"{name} speaks of what is not in its own picture: {shown(phrase.text)}."
            return Fault("speaks_of_other_image", detail)
    if same := same_captions(captions):
        one, other = same[0]
        detail = f"Captions {one + 1} and {other + 1} say the same; wanted different ones."
        return Fault("same_captions", detail)
    return None
