"""Takes a rewrite out of a raw model answer: no reasoning, no chatter, no half answers."""

import json
import re
from typing import Any

from schemas.records import Rejection

STAGE = "rewrite_description"
FIELD = "rewrite"

_REASONING = ("think", "thinking", "reasoning", "thought", "analysis", "scratchpad")
_OPEN_TAG = re.compile(rf"<\s*({'|'.join(_REASONING)})\b[^>]*>", re.IGNORECASE)
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


def clean_answer(
    raw: str, max_characters: int, truncated: bool = False, field: str = FIELD
) -> str | Rejection:
    """The rewrite that `raw` holds, as one clean paragraph, or why there is none.

    Takes `{"rewrite": …}` and plain text alike, both wrapped in reasoning blocks, fences, quotes
    and chatter. Reasons: `truncated_answer` (the answer, its JSON or its reasoning does not end),
    `unparseable_answer`, `extra_fields`, `empty`, `control_characters`, `too_long`. The raw answer
    is in the context.

    Args:
        raw: what the model said.
        max_characters: the longest rewrite that is taken.
        truncated: whether the server says that the answer ended at the token limit.
        field: what the text is called in an answer that is JSON.
    """
    if truncated:
        return _rejected("truncated_answer", "The answer ended at the token limit.", raw)
    try:
        text = _tidied(_text_in(_without_reasoning(raw), field))
    except _UnusableError as unusable:
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


def clean_answers(
    raw: str, max_characters: int, truncated: bool, field: str
) -> tuple[str, ...] | Rejection:
    """The texts that `raw` holds as `{field: ["…", …]}`, each clean, or why there are none.

    Reasons are those of `clean_answer`; one text that cannot be used spoils the answer. An answer
    that is no JSON is unparseable: nobody could say where one text ends.
    """
    if truncated:
        return _rejected("truncated_answer", "The answer ended at the token limit.", raw)
    try:
        texts = _texts_in(_without_reasoning(raw), field)
    except _UnusableError as unusable:
        return _rejected(unusable.reason, unusable.detail, raw)
    clean = []
    for text in texts:
        one = clean_answer(json.dumps({field: text}), max_characters, field=field)
        if isinstance(one, Rejection):
            return one.model_copy(update={"context": {"answer": raw}})
        clean.append(one)
    return tuple(clean)


def answer_object(raw: str, truncated: bool) -> dict[str, Any] | Rejection:
    """The one JSON object in `raw`, with whatever fields it has, or why there is none.

    Reasons: `truncated_answer`, `unparseable_answer`. What its texts hold is not looked at: see
    `clean_answer`.
    """
    if truncated:
        return _rejected("truncated_answer", "The answer ended at the token limit.", raw)
    try:
        return _only_object(_unfenced(_without_reasoning(raw)))
    except _UnusableError as unusable:
        return _rejected(unusable.reason, unusable.detail, raw)


class _UnusableError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def _rejected(reason: str, detail: str, raw: str) -> Rejection:
    return Rejection(stage=STAGE, reason=reason, detail=detail, context={"answer": raw})


def _without_reasoning(raw: str) -> str:
    """`raw` without reasoning blocks; what stands before a lone closing tag is reasoning too."""
    text = _MARKUP.sub(" ", raw)
    for name in _REASONING:
        text = re.sub(
            rf"<\s*{name}\b[^>]*>.*?<\s*/\s*{name}\s*>", " ", text, flags=re.DOTALL | re.IGNORECASE
        )
        closing = list(re.finditer(rf"<\s*/\s*{name}\s*>", text, flags=re.IGNORECASE))
        if closing:
            text = text[closing[-1].end() :]
    if match := _OPEN_TAG.search(text):
        raise _UnusableError(
            "truncated_answer", f"The answer ends inside its reasoning ({match.group()})."
        )
    return text.strip()


def _text_in(text: str, field: str) -> str:
    """The text in an answer without reasoning: the field of its JSON object, or all of it."""
    text = _unfenced(text)
    start = text.find("{")
    if start < 0:
        return _plain(text)
    return _text_of(field, _object_at(text, start))


def _texts_in(text: str, field: str) -> list[str]:
    """The texts in the list that is the field of the JSON object in an answer."""
    texts = _value_of(field, _only_object(_unfenced(text)))
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise _UnusableError("unparseable_answer", f"{field!r} must be a list of strings.")
    return texts


def _unfenced(text: str) -> str:
    fenced = _FENCE.search(text)
    if fenced is not None:
        return fenced.group(1).strip()
    if text.startswith("```"):
        raise _UnusableError("truncated_answer", "The answer's code fence does not end.")
    return text


def _only_object(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        raise _UnusableError("unparseable_answer", "The answer holds no JSON object.")
    return _object_at(text, start)


def _object_at(text: str, start: int) -> dict[str, Any]:
    """The one JSON object of an answer, which starts at `start`."""
    value, end = _decoded(text, start)
    _require_quiet_rest(text[end:])
    return value


def _decoded(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        # not strict: some servers' schema enforcement lets raw control characters into strings
        decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut_short = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        if cut_short:
            raise _UnusableError("truncated_answer", "The answer's JSON does not end.") from error
        raise _UnusableError(
            "unparseable_answer", f"The answer is not valid JSON: {error.msg} at {error.pos}."
        ) from error
    except RecursionError as error:
        raise _UnusableError("unparseable_answer", "The answer's JSON nests too deeply.") from error
    except ValueError as error:
        detail = "The answer's JSON holds a number with too many digits."
        raise _UnusableError("unparseable_answer", detail) from error
    return value, end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise _UnusableError("unparseable_answer", f"The answer names a field twice: {names!r}.")
    return dict(pairs)


def _require_quiet_rest(rest: str) -> None:
    """After the object there may be chatter, but no second object: which one would be meant?"""
    if "{" in rest:
        raise _UnusableError("unparseable_answer", "The answer holds more than one JSON object.")


def _value_of(field: str, value: dict[str, Any]) -> Any:
    """What the only field of an object holds."""
    extra = sorted(set(value) - {field})
    if field not in value:
        detail = f"The answer's JSON has no field {field!r}; its fields are {extra!r}."
        raise _UnusableError("unparseable_answer", detail)
    if extra:
        raise _UnusableError("extra_fields", f"The answer has unknown fields: {extra!r}.")
    return value[field]


def _text_of(field: str, value: dict[str, Any]) -> str:
    text = _value_of(field, value)
    if not isinstance(text, str):
        kind = type(text).__name__
        raise _UnusableError("unparseable_answer", f"{field!r} must be a string; got {kind}.")
    if text.lstrip().startswith(("{", "[")):
        raise _UnusableError("unparseable_answer", f"{field!r} holds JSON again, wanted text.")
    return _without_reasoning(text)


def _plain(text: str) -> str:
    if "}" in text or text.startswith("["):
        raise _UnusableError("unparseable_answer", "The answer is neither JSON nor plain text.")
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
