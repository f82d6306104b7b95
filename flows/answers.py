"""Find, clean and check the texts in a model's answer."""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from loupe.checks.defects import outside_quotes, refusal_in, text_defect
from loupe.checks.grammar import LANGUAGE, SPELLING, check_grammar
from loupe.checks.language import (
    ENGLISH,
    LETTERS,
    SURE,
    foreign_script,
    guessed_language,
    scripts_of,
    writes,
)
from loupe.checks.prose import repetition_in
from loupe.checks.text import PROSE, Form, one_line, shown
from loupe.prompts.loader import Prompt
from loupe.schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from loupe.schemas.json_stream import RepeatedFieldError, unique_fields
from loupe.schemas.records import Rejection

# JSON schemas of answers.


def text_schema() -> dict[str, Any]:
    """Return the schema of a text.

    It has no maximum length: a decoder that keeps to one ends in the middle of a word. `read_text`
    checks the length afterwards.
    """
    return {"type": "string", "minLength": 1}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of `properties` and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# A model's own answer, quoted as data in a repeated request.

_MOST_CHARACTERS = 6000


def quoted_answer(raw: str) -> str:
    """Return `raw` as one JSON string without `<`, so that it cannot close a tag around it.

    The middle of an answer longer than 6,000 characters is left out.
    """
    if len(raw) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        raw = f"{raw[:half]} […] {raw[-half:]}"
    return json.dumps(raw, ensure_ascii=False).replace("<", "\\u003c")


def repair_request(
    request: ChatRequest,
    answer: ChatAnswer,
    rejection: Rejection,
    prompt: Prompt,
    purpose: str,
    **values: str,
) -> ChatRequest:
    """Return a request with `prompt`, which states why `answer` to `request` was rejected."""
    problem, quoted = rejection.detail, quoted_answer(answer.text)
    return request.model_copy(
        update={
            "purpose": purpose,
            "prompt": prompt.render(**values, problem=problem, answer=quoted),
            "prompt_digest": prompt.digest,
        }
    )


# The words of a caption, which decide whether two captions say the same.

_WORD = re.compile(r"[^\W_]+(?:['.,/-][^\W_]+)*|!=|[^\w\s]|_")
_PUNCTUATION = frozenset(".,;:!?\"'“”‘’«»()…–—-。，、；：！？「」『』（）《》")
_MINUS = "-"


Words = tuple[str, ...]
"""The folded words of a text."""


def words_of(text: str) -> Words:
    """Return the words of a text in their order, folded: equal words mean the same text.

    Case, white space and punctuation are ignored. Signs with a meaning (`+`, `=`, `_`, `[` …) and
    numbers (`3.5`, `3/4`) are words, and so is the minus before a number, because they distinguish
    captions of sums and programs.
    """
    text = text.replace("’", "'").replace("−", _MINUS)
    found = []
    for match in _WORD.finditer(text):
        word = match.group()
        if word not in _PUNCTUATION or (word == _MINUS and text[match.end() :][:1].isdigit()):
            found.append(word.casefold())
    return tuple(found)


# Find the one JSON object of an answer among reasoning, chatter, fences and template marks.
#
# Only the text around the object is searched. The texts in it are the answer, whatever they look
# like: a caption may quote `<think>`, three backticks, or a template's `</s>`.

REASONING = ("think", "thinking", "reasoning", "thought", "analysis", "scratchpad")
"""Tags that enclose a model's reasoning."""

_NAMES = "|".join(REASONING)
_OPEN_TAG = re.compile(rf"<\s*({_NAMES})\b[^>]*>", re.IGNORECASE)
_CLOSE_TAG = re.compile(rf"<\s*/\s*({_NAMES})\s*>", re.IGNORECASE)
_BLOCK = re.compile(rf"<\s*({_NAMES})\b[^>]*>.*?<\s*/\s*\1\s*>", re.DOTALL | re.IGNORECASE)
_FENCE = "```"
_OBJECT = re.compile(r"\{\s*[\"}]")  # other braces may be part of the surrounding text
_ARGUMENTS = ("arguments", "parameters", "input")
"""Fields of a tool call that hold the answer."""


class UnusableAnswerError(Exception):
    """An answer, or a text in it, cannot be used.

    `reason` is a stable snake_case word, `detail` a sentence.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class FoundObject(NamedTuple):
    """The JSON object of an answer, and what was repaired to read it, in words."""

    value: dict[str, Any]
    repairs: tuple[str, ...] = ()


def find_object(raw: str) -> FoundObject | None:
    """Return the JSON object of an answer; None if there is no brace outside its reasoning.

    Everything before a lone closing tag is reasoning, including objects. Of a tool call the
    arguments are returned. JSON that ends but is not valid is repaired; what was cut off is not.

    Raises:
        UnusableAnswerError: `truncated_answer` (the object or the reasoning does not end) or
            `unparseable_answer` (not JSON, or several different objects).
    """
    at = start = 0
    while start >= 0:
        if start <= at:
            start = _start_of_object(raw, at)
        opened = _OPEN_TAG.search(raw, at, start if start >= 0 else len(raw))
        if opened is not None:
            at = _end_of_reasoning(raw, opened)
        elif start >= 0:
            found, end = _object_or_reasoning(raw, start)
            if found is not None:
                return _arguments_of(found)
            at = end
    return None


def _start_of_object(raw: str, at: int) -> int:
    """Return the start of an object, or else of a brace, from `at` on; -1 if there is none."""
    match = _OBJECT.search(raw, at)
    return match.start() if match else raw.find("{", at)


def _object_or_reasoning(raw: str, start: int) -> tuple[FoundObject | None, int]:
    """Return the object at `start` (None if it is reasoning) and the end of either."""
    try:
        found, end = _decoded(raw, start)
    except UnusableAnswerError:
        if (closing := _CLOSE_TAG.search(raw, start)) is None:
            raise
        return None, closing.end()
    rest = _BLOCK.sub(" ", raw[end:])
    if _CLOSE_TAG.search(rest) is None:
        if raw[:start].count(_FENCE) % 2 and _FENCE not in rest:
            found = FoundObject(found.value, (*found.repairs, "its fence did not end"))
        return _alone(found, rest), end
    closing = _CLOSE_TAG.search(raw, end)
    return None, closing.end() if closing else len(raw)


def _unended_reasoning(tag: str) -> UnusableAnswerError:
    """Return the error of an answer that ends inside the reasoning that `tag` began."""
    return UnusableAnswerError("truncated_answer", f"The answer ends inside its reasoning ({tag}).")


def _end_of_reasoning(raw: str, opened: re.Match[str]) -> int:
    closing = re.compile(rf"<\s*/\s*{opened[1]}\s*>", re.IGNORECASE).search(raw, opened.end())
    if closing is None:
        raise _unended_reasoning(opened.group())
    return closing.end()


def _alone(found: FoundObject, rest: str) -> FoundObject:
    """Return the object, after which `rest` may only have the same object again.

    Raises:
        UnusableAnswerError: an unclosed block or another object follows.
    """
    if (opened := _OPEN_TAG.search(rest)) is not None:
        raise _unended_reasoning(opened.group())
    at, repairs = 0, found.repairs
    while (match := _OBJECT.search(rest, at)) is not None:
        other, at = _decoded(rest, match.start())
        if other.value != found.value:
            raise UnusableAnswerError(
                "unparseable_answer", "The answer holds more than one JSON object."
            )
        repairs = (*found.repairs, "the object came twice")
    return FoundObject(found.value, repairs)


def _decoded(text: str, start: int) -> tuple[FoundObject, int]:
    """Return the object that starts at `start`, and where it ends."""
    try:
        # not strict: some servers' schema enforcement allows raw control characters in strings
        decoder = json.JSONDecoder(object_pairs_hook=unique_fields, strict=False)
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut_short = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        if cut_short:
            detail = "The answer's JSON does not end."
            raise UnusableAnswerError("truncated_answer", detail) from error
        if (repaired := _repaired(text, start)) is not None:
            return repaired
        detail = f"The answer is not valid JSON: {error.msg} at {error.pos}."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    except RecursionError as error:
        detail = "The answer's JSON nests too deeply."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    except RepeatedFieldError as error:
        detail = f"The answer names a field twice: {error.field!r}."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    except ValueError as error:
        detail = "The answer's JSON holds a number with too many digits."
        raise UnusableAnswerError("unparseable_answer", detail) from error
    return FoundObject(value), end


_ENDED = re.compile(r"(?:[\"'\]}\d]|\b(?:true|false|null))\s*,?\s*\}\Z", re.IGNORECASE)
_FIELD = re.compile(r"\{\s*[\"']?\w+[\"']?\s*:")
_MOST_REPAIRED = 50_000  # characters; a repair takes seconds for more


def _repaired(text: str, start: int) -> tuple[FoundObject, int] | None:
    """Return the invalid object at `start`, repaired, if its last value and itself end."""
    end = text.rfind("}") + 1
    piece = text[start:end]
    is_whole = _ENDED.search(piece[-100:]) is not None and _FIELD.match(piece) is not None
    if not is_whole or len(piece) > _MOST_REPAIRED:
        return None
    import json_repair

    try:
        value, log = json_repair.repair_json(
            piece, return_objects=True, logging=True, skip_json_loads=True
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not any(value.values()):
        return None
    done = dict.fromkeys(one["text"].split(",")[0] for one in log)
    return FoundObject(value, ("JSON repaired", *done)), end


def _arguments_of(found: FoundObject) -> FoundObject:
    """Return the arguments of a tool call; other objects are returned as they are."""
    call: Any = found.value
    if isinstance(calls := call.get("tool_calls"), list) and len(calls) == 1:
        call = calls[0]
    if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
        call = function
    if not isinstance(call, dict) or "name" not in call:
        return found
    for name in _ARGUMENTS:
        arguments = call.get(name)
        inner = find_object(arguments) if isinstance(arguments, str) else None
        if isinstance(arguments, dict):
            inner = FoundObject(arguments)
        if inner is not None:
            return FoundObject(inner.value, (*found.repairs, "a tool call", *inner.repairs))
    return found


# Check texts in the fields of a model's answer, including their language.
#
# Only white space is changed in a text: without its marks it is not what the model wrote. What is
# not the text of a caption is rejected.

_FEWEST_WORDS = 3
_UNKNOWN_SHARE = 0.45


T = TypeVar("T")


def read_answer(
    answer: ChatAnswer, stage: str, read: Callable[[dict[str, Any]], T]
) -> T | Rejection:
    """Return the result of `read` for the one JSON object of an answer, or why it is unusable.

    The object may be surrounded by reasoning, chatter and code fences; plain text is rejected.
    Reasons: `truncated_answer`, `unparseable_answer`, `refusal` (the model refuses in plain text),
    and those that `read` raises as `UnusableAnswerError`. The context has the raw answer.
    """
    try:
        return read(_object_of(answer))
    except UnusableAnswerError as unusable:
        return refused_answer(answer, stage, unusable)


def _object_of(answer: ChatAnswer) -> dict[str, Any]:
    _require_whole(answer)
    if (found := find_object(answer.text)) is not None:
        return found.value
    if (refusal := refusal_in(answer.text)) is not None:
        raise UnusableAnswerError("refusal", f"The model refused: {shown(refusal)}.")
    raise UnusableAnswerError("unparseable_answer", "The answer holds no JSON object.")


def _require_whole(answer: ChatAnswer) -> None:
    if answer.truncated:
        raise UnusableAnswerError("truncated_answer", "The answer ended at the token limit.")


def repairs_of(outcome: ChatOutcome, schema: dict[str, Any] | None) -> tuple[str, ...]:
    """Return what is repaired or ignored to use an answer, in words; nothing if it is unusable.

    Args:
        outcome: the outcome of a request.
        schema: the schema of the object that was asked for; None if it is plain text.
    """
    if schema is None or not isinstance(outcome, ChatAnswer) or outcome.truncated:
        return ()
    try:
        found = find_object(outcome.text)
    except UnusableAnswerError:
        return ()
    if found is None:
        return ()
    further = sorted(set(found.value) - set(schema["properties"]))
    ignored = (f"ignored the fields {shown(', '.join(further))}",) if further else ()
    return (*found.repairs, *ignored)


def only_field(found: dict[str, Any], field: str) -> Any:
    """Return the value of the field of an object that is wanted; others are ignored.

    Raises:
        UnusableAnswerError: `missing_field`.
    """
    check_fields(found, (field,), "The answer")
    return found[field]


def check_fields(found: dict[str, Any], fields: Sequence[str], name: str) -> None:
    """Raise unless an object has these fields; others are ignored.

    Raises:
        UnusableAnswerError: `missing_field`.
    """
    if missing := [field for field in fields if field not in found]:
        raise UnusableAnswerError("missing_field", f"{name} lacks the fields {missing}.")


def refused_answer(answer: ChatAnswer, stage: str, unusable: UnusableAnswerError) -> Rejection:
    """Return the rejection of an answer, with the answer in its context."""
    return Rejection.of(stage, unusable.reason, unusable.detail, answer=answer.text)


def read_text(
    value: object, name: str, most_characters: int, form: Form = PROSE, like: str = ""
) -> str:
    """Return `value` as one line of text, with only its white space changed.

    Every text that a model writes is read here.

    Args:
        value: a field of the answer, or all of it.
        name: what messages call the text.
        most_characters: the maximum length; a text that reaches it may have been cut.
        form: what is asked of the text.
        like: the source of a rewrite, which counts as right; what is doubtful passes, because the
            rewrite is compared with it later.

    Raises:
        UnusableAnswerError: `wrong_type`, `too_long`, `truncated_answer`, and the reasons of
            `loupe.checks.defects.text_defect`.
    """
    if not isinstance(value, str):
        kind = type(value).__name__
        raise UnusableAnswerError("wrong_type", f"{name} must be a text; got {kind}.")
    if len(value) > 2 * most_characters:  # before any pattern is searched in it
        raise _too_long(name, len(value), most_characters)
    line = one_line(value)
    if len(line) > most_characters:
        raise _too_long(name, len(line), most_characters)
    defect = text_defect(value, form, like)
    if defect is not None and not (like and defect.is_doubtful):
        raise UnusableAnswerError(defect.reason, f"{name} {defect.detail}.")
    if form.sentences and len(line) == most_characters:
        detail = f"{name} ends at the limit of {most_characters:,} characters."
        raise UnusableAnswerError("truncated_answer", detail)
    return line


def read_only_text(
    answer: ChatAnswer,
    stage: str,
    field: str | None,
    most_characters: int,
    form: Form = PROSE,
    like: str = "",
) -> str | Rejection:
    """Return the one text of an answer, or why it cannot be used.

    Args:
        answer: the answer: an object, or the text and nothing else, after any reasoning.
        stage: the stage that asked.
        field: the field of the object; None if the answer must be plain text.
        most_characters: see `read_text`, also for `form` and `like`.
        form: what is asked of the text.
        like: a text that counts as right.
    """
    try:
        _require_whole(answer)
        found = find_object(answer.text) if field is not None else None
        if found is not None and field is not None:
            value = only_field(found.value, field)
        else:
            value = _without_reasoning(answer.text)
        name = f"The {field or 'text'}"
        return read_text(value, name, most_characters, form, like)
    except UnusableAnswerError as unusable:
        return refused_answer(answer, stage, unusable)


def _without_reasoning(raw: str) -> str:
    """Return `raw` without reasoning blocks, and without text before a lone closing tag."""
    text = _BLOCK.sub(" ", raw)
    for closing in list(_CLOSE_TAG.finditer(text))[-1:]:
        text = text[closing.end() :]
    if match := _OPEN_TAG.search(text):
        raise _unended_reasoning(match.group())
    return text.strip()


def check_language(text: str, name: str, like: str) -> None:
    """Raise unless `text` has the script and language of the caption `like`.

    Text in quotation marks is ignored because captions quote signs. The language of fewer than
    three words is unknown.

    Raises:
        UnusableAnswerError: `wrong_language`.
    """
    plain = outside_quotes(text)
    if (foreign := foreign_script(plain)) is not None and foreign_script(like) is None:
        raise _wrong_language(name, f"in {foreign.language} script", text)
    if len(LETTERS.findall(plain)) < _FEWEST_WORDS:
        return
    wanted, (guess, probability) = language_of(like), guessed_language(plain)
    is_other = not _is_english(plain) if wanted == ENGLISH else probability >= SURE
    if guess != wanted and is_other:
        raise _wrong_language(name, f"in the language {guess!r}, wanted {wanted!r}", text)


def check_translation(text: str, name: str, caption: str, language: str) -> None:
    """Raise unless `text` may be a translation of `caption` into `language` (ISO 639-1).

    Raises:
        UnusableAnswerError: `untranslated` (it is the caption), `wrong_language` (it surely is in
            another language).
    """
    if text.casefold() == caption.casefold():
        detail = f"{name} is its caption, wanted it in {language!r}."
        raise UnusableAnswerError("untranslated", detail)
    plain = outside_quotes(text)
    foreign = foreign_script(plain)
    if foreign is None and scripts_of(language):
        raise _wrong_language(name, f"in Latin letters, wanted {language!r}", text)
    if foreign is not None and not writes(language, foreign.language):
        raise _wrong_language(name, f"in {foreign.language} script, wanted {language!r}", text)
    guess, probability = guessed_language(plain)
    is_sure = probability >= SURE and len(LETTERS.findall(plain)) >= _FEWEST_WORDS
    if guess != language and is_sure:
        raise _wrong_language(name, f"in the language {guess!r}, wanted {language!r}", text)


@lru_cache(maxsize=256)
def language_of(caption: str) -> str:
    """Return the language of a caption: English, unless it surely is another.

    A script that English does not use leaves no doubt, however short the caption is.
    """
    guess, probability = guessed_language(caption)
    if foreign_script(caption) is not None:
        return guess
    return guess if probability >= SURE and not _is_english(caption) else ENGLISH


def _is_english(text: str) -> bool:
    """Return whether most words of a text that looks like another language are English."""
    found = [finding.rule for finding in check_grammar(text, names=False)]
    if LANGUAGE in found:
        return False
    return found.count(SPELLING) < _UNKNOWN_SHARE * len(LETTERS.findall(text))


def _too_long(name: str, characters: int, most: int) -> UnusableAnswerError:
    detail = f"{name} has {characters:,} characters; wanted {most:,} at most."
    return UnusableAnswerError("too_long", detail)


def _wrong_language(name: str, what: str, text: str) -> UnusableAnswerError:
    return UnusableAnswerError("wrong_language", f"{name} is {what}: {shown(text)}.")


# What a model says instead of its own words: its prompt, or the same words again.

_DATA = re.compile(r"<(\w+)>.*?</\1>", re.DOTALL)  # the data of a prompt is between tags
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_ECHOED_WORDS = 6  # the shortest sentence that does not match by chance


def _echo_in(text: str, prompt: str) -> str | None:
    """Return the sentence of `text` that is an instruction of `prompt`, all of it, or None.

    Repeating the data of the prompt, between tags, is permitted.
    """
    instructions = _instructions(_DATA.sub(" ", prompt))
    words = words_of(text)
    if len(words) >= _FEWEST_WORDS and f" {' '.join(words)} " in instructions:
        return text
    for sentence in _SENTENCE_END.split(text):
        words = words_of(sentence)
        if len(words) >= _ECHOED_WORDS and f" {' '.join(words)} " in instructions:
            return sentence
    return None


@lru_cache(maxsize=16)
def _instructions(prompt: str) -> str:
    return f" {' '.join(words_of(prompt))} "


def check_own_words(text: str, prompt: str) -> None:
    """Raise unless `text` is in its own words.

    Raises:
        UnusableAnswerError: `instruction_echo`, `repetition`.
    """
    if (echo := _echo_in(text, prompt)) is not None:
        detail = f"The answer repeats its prompt: {shown(echo)}."
        raise UnusableAnswerError("instruction_echo", detail)
    if (loop := repetition_in(text)) is not None:
        detail = f"The answer says the same again and again: {shown(loop)}."
        raise UnusableAnswerError("repetition", detail)
