"""Takes a description of a person, or its rewrite, out of a raw model answer.

Descriptions of people hardly quote anything, so what looks like reasoning, chatter or emphasis in
them is taken out. Captions of images may quote all of these: see `stages.answer_texts`.
"""

import re
from typing import Any

from schemas.records import Rejection
from stages.answer_object import (
    REASONING,
    UnusableAnswerError,
    end_of_reasoning_missing,
    find_object,
)

STAGE = "rewrite_description"
FIELD = "rewrite"

_OPEN_TAG = re.compile(rf"<\s*({'|'.join(REASONING)})\b[^>]*>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w+-]*\s*\n?(.*?)```", re.DOTALL)
_MARKUP = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|\[/?INST\]", re.IGNORECASE)
_QUOTES = {'"': '"', "“": "”", "«": "»", "'": "'", "‘": "’"}
_LEAD = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely|great|no problem|here you go)\b[^\n:.!]*"
    r"[.!,:]+\s*)?"
    r"(?:(?:here(?:['’]s| is| are)|this is|below is|the following is)\b[^\n:]{0,120}"
    r"\b(?:rewrit\w+|re-?organi[sz]\w+|version|description|text|paraphrase\w*|rephras\w+)"
    r"\b[^\n:]{0,80}:\s*"
    r"|(?:\*\*)?(?:rewritten|re-?organi[sz]ed|revised|rephrased|new|final)?\s*"
    r"(?:rewrite|description|version|text|answer|output)\s*:\s*(?:\*\*)?\s*)?",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"\s*(?:\n|(?<=[.!?\"”»]))\s*(?:\(?note\b|let me know\b|i hope\b|hope this\b|feel free\b"
    r"|please let me know\b|if you(?:['’]d| would)? (?:like|need|want|have)\b|would you like\b"
    r"|is there anything\b|do you want me\b|i(?:['’]ve| have) (?:rewritten|reorgani[sz]ed|kept)\b"
    r"|this (?:version|rewrite|description) (?:keeps|retains|preserves)\b).*\Z",
    re.IGNORECASE | re.DOTALL,
)
# Controls, lone surrogates (which cannot be stored), overrides of the writing direction.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_EMPHASIS = re.compile(r"(\*\*|__|\*)(?=\S)(.+?)(?<=\S)\1", re.DOTALL)


def clean_answer(raw: str, max_characters: int, truncated: bool = False) -> str | Rejection:
    """The rewrite that `raw` holds, as one clean paragraph, or why there is none.

    Takes `{"rewrite": …}` and plain text alike, both wrapped in reasoning blocks, fences, quotes
    and chatter. Reasons: `truncated_answer` (the answer, its JSON or its reasoning does not end),
    `unparseable_answer`, `extra_fields`, `empty`, `control_characters`, `too_long`. The raw answer
    is in the context.

    Args:
        raw: what the model said.
        max_characters: the longest rewrite that is taken.
        truncated: whether the server says that the answer ended at the token limit.
    """
    if truncated:
        return _rejected("truncated_answer", "The answer ended at the token limit.", raw)
    try:
        text = _tidied(_text_in(raw))
    except UnusableAnswerError as unusable:
        return _rejected(unusable.reason, unusable.detail, raw)
    if not text:
        return _rejected("empty", "The answer holds no text.", raw)
    if control := _CONTROL.search(text):
        detail = f"The rewrite holds the control character U+{ord(control.group()):04X}."
        return _rejected("control_characters", detail, raw)
    if len(text) > max_characters:
        detail = f"The rewrite has {len(text)} characters, wanted {max_characters} at most."
        return _rejected("too_long", detail, raw)
    return text


def _rejected(reason: str, detail: str, raw: str) -> Rejection:
    return Rejection(stage=STAGE, reason=reason, detail=detail, context={"answer": raw})


def _without_reasoning(raw: str) -> str:
    """`raw` without reasoning blocks; what stands before a lone closing tag is reasoning too."""
    text = _MARKUP.sub(" ", raw)
    for name in REASONING:
        text = re.sub(
            rf"<\s*{name}\b[^>]*>.*?<\s*/\s*{name}\s*>", " ", text, flags=re.DOTALL | re.IGNORECASE
        )
        closing = list(re.finditer(rf"<\s*/\s*{name}\s*>", text, flags=re.IGNORECASE))
        if closing:
            text = text[closing[-1].end() :]
    if match := _OPEN_TAG.search(text):
        raise end_of_reasoning_missing(match.group())
    return text.strip()


def _text_in(raw: str) -> str:
    """The text in an answer, without reasoning: the field of its JSON object, or all of it."""
    found = find_object(raw)
    if found is None:
        return _plain(_unfenced(_without_reasoning(raw)))
    return _text_of(FIELD, found)


def _unfenced(text: str) -> str:
    fenced = _FENCE.search(text)
    if fenced is not None:
        return fenced.group(1).strip()
    if text.startswith("```"):
        raise UnusableAnswerError("truncated_answer", "The answer's code fence does not end.")
    return text


def _value_of(field: str, value: dict[str, Any]) -> Any:
    """What the only field of an object holds."""
    extra = sorted(set(value) - {field})
    if field not in value:
        detail = f"The answer's JSON has no field {field!r}; its fields are {extra!r}."
        raise UnusableAnswerError("unparseable_answer", detail)
    if extra:
        raise UnusableAnswerError("extra_fields", f"The answer has unknown fields: {extra!r}.")
    return value[field]


def _text_of(field: str, value: dict[str, Any]) -> str:
    text = _value_of(field, value)
    if not isinstance(text, str):
        kind = type(text).__name__
        raise UnusableAnswerError("unparseable_answer", f"{field!r} must be a string; got {kind}.")
    if text.lstrip().startswith(("{", "[")):
        raise UnusableAnswerError("unparseable_answer", f"{field!r} holds JSON again, wanted text.")
    return _without_reasoning(text)


def _plain(text: str) -> str:
    if "}" in text or text.startswith("["):
        raise UnusableAnswerError(
            "unparseable_answer", "The answer is neither JSON nor plain text."
        )
    return text


def _tidied(text: str) -> str:
    """`text` without chatter, quotes and emphasis, white space single."""
    text = _LEAD.sub("", text.strip(), count=1)
    text = _TAIL.sub("", text)
    text = _EMPHASIS.sub(r"\2", text)
    return _unquoted(" ".join(text.split()))


def _unquoted(text: str) -> str:
    """`text` without the quotation marks around the whole of it."""
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text
