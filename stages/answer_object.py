"""Finds the one JSON object of an answer, among reasoning, chatter, fences and template marks.

Only what is around the object is looked through: what stands in its texts is the answer, whatever
it looks like. A caption may quote `<think>`, three backticks, or a template's `</s>`.
"""

import json
import re
from typing import Any

REASONING = ("think", "thinking", "reasoning", "thought", "analysis", "scratchpad")
"""The tags between which models think before they answer."""

_NAMES = "|".join(REASONING)
_OPEN_TAG = re.compile(rf"<\s*({_NAMES})\b[^>]*>", re.IGNORECASE)
_CLOSE_TAG = re.compile(rf"<\s*/\s*({_NAMES})\s*>", re.IGNORECASE)
_BLOCK = re.compile(rf"<\s*({_NAMES})\b[^>]*>.*?<\s*/\s*\1\s*>", re.DOTALL | re.IGNORECASE)
_FENCE = "```"


class UnusableAnswerError(Exception):
    """Why an answer is no use: `reason` is a stable word, `detail` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def find_object(raw: str) -> dict[str, Any] | None:
    """The JSON object of an answer; None where no brace stands outside its reasoning.

    What stands before a lone closing tag is reasoning, too, objects included.

    Raises:
        UnusableAnswerError: `truncated_answer` (the object, its fence or the reasoning does not
            end) or `unparseable_answer` (it is no JSON, or there are several).
    """
    at = start = 0
    while start >= 0:
        if start <= at:
            start = raw.find("{", at)
        opened = _OPEN_TAG.search(raw, at, start if start >= 0 else len(raw))
        if opened is not None:
            at = _end_of_reasoning(raw, opened)
        elif start >= 0:
            value, end = _object_or_reasoning(raw, at, start)
            if value is not None:
                return value
            at = end
    return None


def _object_or_reasoning(raw: str, at: int, start: int) -> tuple[dict[str, Any] | None, int]:
    """The object at `start`, or None where it is reasoning; and where that or this ends.

    Reasoning that no tag opened begins at `at`.
    """
    try:
        value, end = _decoded(raw, start)
    except UnusableAnswerError:
        if (closing := _CLOSE_TAG.search(raw, start)) is None:
            raise
        return None, closing.end()
    rest = _BLOCK.sub(" ", raw[end:])
    if _CLOSE_TAG.search(rest) is None:
        _require_quiet(raw[at:start], rest)
        return value, end
    closing = _CLOSE_TAG.search(raw, end)
    return None, closing.end() if closing else len(raw)


def end_of_reasoning_missing(tag: str) -> UnusableAnswerError:
    """The error of an answer that ends inside the reasoning that `tag` began."""
    return UnusableAnswerError("truncated_answer", f"The answer ends inside its reasoning ({tag}).")


def _end_of_reasoning(raw: str, opened: re.Match[str]) -> int:
    closing = re.compile(rf"<\s*/\s*{opened[1]}\s*>", re.IGNORECASE).search(raw, opened.end())
    if closing is None:
        raise end_of_reasoning_missing(opened.group())
    return closing.end()


def _require_quiet(before: str, rest: str) -> None:
    """Around the object there may be chatter, but no second object: which one would be meant?"""
    if (opened := _OPEN_TAG.search(rest)) is not None:
        raise end_of_reasoning_missing(opened.group())
    if "{" in rest:
        raise UnusableAnswerError(
            "unparseable_answer", "The answer holds more than one JSON object."
        )
    if before.count(_FENCE) % 2 and _FENCE not in rest:
        raise UnusableAnswerError("truncated_answer", "The answer's code fence does not end.")


def _decoded(text: str, start: int) -> tuple[dict[str, Any], int]:
    """The object that starts at `start`, and where it ends."""
    try:
        # not strict: some servers' schema enforcement lets raw control characters into strings
        decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut_short = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        if cut_short:
            detail = "The answer's JSON does not end."
            raise UnusableAnswerError("truncated_answer", detail) from error
        detail = f"The answer is not valid JSON: {error.msg} at {error.pos}."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    except RecursionError as error:
        detail = "The answer's JSON nests too deeply."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    except ValueError as error:
        detail = "The answer's JSON holds a number with too many digits."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    return value, end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        detail = f"The answer names a field twice: {names!r}."
        raise UnusableAnswerError("unparseable_answer", detail)
    return dict(pairs)
