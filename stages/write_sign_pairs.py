"""Asks a model for further pairs of texts for signs, and reads its answer pair by pair.

Nobody can check by code whether a translation is right: what is checked is whether it can be drawn,
is in its language, and is new. It stays the model's word.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatRequest
from schemas.records import Rejection
from schemas.sign_pairs import (
    CHINESE_FIELD,
    ENGLISH_FIELD,
    KIND_FIELD,
    MOST_CHINESE,
    MOST_ENGLISH,
    PAIRS_FIELD,
    SIGN_PAIRS_PURPOSE,
    SignCategory,
    SignPair,
    SignPairsBrief,
)
from stages.answer_texts import (
    Fault,
    answer_object,
    only_field,
    read_line,
    refused_answer,
    shown,
)

STAGE = SIGN_PAIRS_PURPOSE
VERSION = "1"

Undrawable = Callable[[SignPair], str | None]
"""Gives the first character of a pair that no typeface can draw, or None."""

_FIELDS = (KIND_FIELD, CHINESE_FIELD, ENGLISH_FIELD)
_LATIN_WORD = re.compile(r"[A-Za-z]{2}")


def answer_schema(count: int) -> dict[str, Any]:
    """The JSON schema of an answer: 1 to `count` pairs, with nothing beside their fields."""
    properties = {
        KIND_FIELD: {"type": "string", "enum": [kind.value for kind in SignCategory]},
        CHINESE_FIELD: {"type": "string", "minLength": 1, "maxLength": MOST_CHINESE},
        ENGLISH_FIELD: {"type": "string", "minLength": 1, "maxLength": MOST_ENGLISH},
    }
    pairs = {"type": "array", "items": _object(properties), "minItems": 1, "maxItems": count}
    return _object({PAIRS_FIELD: pairs})


def request_sign_pairs(count: int, taken: Iterable[SignPair], prompt: Prompt) -> ChatRequest:
    """The request for `count` pairs, other than those that are `taken`."""
    told = tuple(f"{pair.chinese} = {pair.english}" for pair in taken)
    brief = SignPairsBrief(count=count, taken=told)
    text = brief.text()
    return ChatRequest(
        purpose=SIGN_PAIRS_PURPOSE,
        prompt=prompt.render(
            brief=text,
            count=str(count),
            kinds=", ".join(SignCategory),
            most_chinese=str(MOST_CHINESE),
            most_english=str(MOST_ENGLISH),
        ),
        prompt_digest=prompt.digest,
        subject=text,
        answer_schema=answer_schema(count),
    )


def read_sign_pairs(
    answer: ChatAnswer,
    count: int,
    taken: Iterable[SignPair],
    model_call: str,
    undrawable: Undrawable,
) -> list[SignPair | Rejection]:
    """The pairs of an answer in their order, each as it is or why it cannot be used.

    An answer that is no use as a whole is one rejection. Reasons are those of `answer_object`,
    `only_field` and `read_line` (`stages.answer_texts`), and `wrong_type`, `wrong_count` (more than
    were wanted), `wrong_kind`, `wrong_language` (not in Chinese characters, or without a word in
    Latin letters), `no_glyph`, and `duplicate_text` (one of the texts is taken, or stands in an
    earlier pair of the answer).
    """
    found = answer_object(answer, STAGE)
    if isinstance(found, Rejection):
        return [found]
    values = only_field(found, PAIRS_FIELD)
    if not isinstance(values, Fault):
        values = _count_fault(values, count) or values
    if isinstance(values, Fault):
        return [refused_answer(answer, STAGE, values)]
    known = {text for pair in taken for text in _folded(pair)}
    read: list[SignPair | Rejection] = []
    for value in values:
        pair = _read_pair(value, model_call, known, undrawable)
        if isinstance(pair, SignPair):
            known |= _folded(pair)
            read.append(pair)
        else:
            read.append(_refused(value, pair))
    return read


def _count_fault(values: object, count: int) -> Fault | None:
    if not isinstance(values, list):
        kind = type(values).__name__
        return Fault("wrong_type", f"{PAIRS_FIELD!r} must be a list; got {kind}.")
    if not 1 <= len(values) <= count:
        return Fault("wrong_count", f"There are {len(values):,} pairs; wanted 1 to {count}.")
    return None


def _read_pair(
    value: object, model_call: str, known: set[str], undrawable: Undrawable
) -> SignPair | Fault:
    if not isinstance(value, dict) or value.keys() != set(_FIELDS):
        detail = f"A pair must have {', '.join(_FIELDS)}; got {shown(str(value))}."
        return Fault("wrong_type", detail)
    chinese = read_line(value[CHINESE_FIELD], "The Chinese text", MOST_CHINESE)
    english = read_line(value[ENGLISH_FIELD], "The English text", MOST_ENGLISH)
    if isinstance(chinese, Fault):
        return chinese
    if isinstance(english, Fault):
        return english
    if value[KIND_FIELD] not in list(SignCategory):
        kinds = ", ".join(SignCategory)
        got = shown(str(value[KIND_FIELD]))
        return Fault("wrong_kind", f"The kind must be one of {kinds}; got {got}.")
    try:
        pair = SignPair(
            category=value[KIND_FIELD], chinese=chinese, english=english, model_call=model_call
        )
    except ValidationError as error:
        return Fault("wrong_language", f"{error.errors()[0]['msg']}.")
    return _pair_fault(pair, known, undrawable) or pair


def _pair_fault(pair: SignPair, known: set[str], undrawable: Undrawable) -> Fault | None:
    if _LATIN_WORD.search(pair.english) is None:
        detail = f"The English text has no word in Latin letters: {shown(pair.english)}."
        return Fault("wrong_language", detail)
    for text in (pair.chinese, pair.english):
        if text.casefold() in known:
            return Fault("duplicate_text", f"The text {shown(text)} stands in another pair.")
    if (letter := undrawable(pair)) is not None:
        return Fault("no_glyph", f"A typeface has no glyph for {letter!r}.")
    return None


def _folded(pair: SignPair) -> set[str]:
    return {pair.chinese.casefold(), pair.english.casefold()}


def _refused(value: object, fault: Fault) -> Rejection:
    context = {"pair": json.dumps(value)}  # which may hold what databases do not
    return Rejection(stage=STAGE, reason=fault.reason, detail=fault.detail, context=context)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
