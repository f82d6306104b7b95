"""Find, clean and check the texts in a model's answer."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from checks.grammar import LANGUAGE, SPELLING, check_grammar
from checks.language import SURE, foreign_script, guessed_language
from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatRequest
from schemas.phrases import QUOTED
from schemas.records import Rejection

# JSON schemas of answers.


def text_schema(most_characters: int) -> dict[str, Any]:
    """Return the schema of a text of 1 to `most_characters` characters."""
    return {"type": "string", "minLength": 1, "maxLength": most_characters}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of `properties` and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# The text outside quotations: captions quote signs, programs and answers.


def _beside_quotes(text: str) -> str:
    """Return `text` with a space for each quotation; the quoted text if there is no other."""
    text = text.strip()
    if (whole := QUOTED.fullmatch(text)) is not None:
        return whole.group()[1:-1].strip()
    return QUOTED.sub(" ", text)


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


# Find what a model writes instead of an answer: a refusal, or an announcement.
#
# Both are searched as a sentence or clause outside quotation marks, because a caption may well
# state that a card reads “I'm sorry”.

_CANNOT = (
    r"(?:i|we) (?:(?:can(?:no|')t|can not|won't|will not|do not|don't)"
    r"|(?:am|are|'m|'re) (?:not able|unable|not allowed|not permitted))"
)
_TASK = (
    r"help|assist|comply|provide|rewrite|fulfil|do (?:that|this)|create|generate|describe|identify"
    r"|recogni[sz]e|process|continue|share|see|view|write|make|answer|feel comfortable"
)
_CLAUSE = r"(?:^|[.!?;,]\s+|\s[–—-]\s|\b(?:but|so|and|however|unfortunately)\s+)"
_REFUSAL = re.compile(
    rf"{_CLAUSE}(?P<clause>(?:i am|i'm)(?: so| very| really)? sorry\b|sorry, (?:but )?(?:i|we)\b"
    rf"|i apologi[sz]e\b|my apologies\b|{_CANNOT} (?:to )?(?:{_TASK})\b"
    r"|(?:i am |i'm )?unable to (?:assist|help|comply|fulfil)|(?:this|that|it) (?:request )?"
    r"(?:violates|is against) (?:the |our |my )?(?:content polic|guidelines))"
    r"|(?P<own>\bas an ai\b|\bas a (?:large )?language model\b"
    r"|\bagainst (?:my|our) (?:guidelines|policy|programming|content polic))",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely|great)\b[,.!]*\s+)?"
    r"here(?:'s| is| are)\b[^:.]{0,80}\b(?:caption|description|version|rewrite|strateg|answer|json)"
    r"[^:.]{0,60}:|^(?:sure|certainly|of course)[,.!]+\s+(?:here|i)\b",
    re.IGNORECASE,
)


def refusal_in(text: str) -> str | None:
    """Return the words by which a model refuses, or None if `text` is not a refusal."""
    match = _REFUSAL.search(_own_words(text))
    return (match["clause"] or match["own"]) if match else None


def chatter_in(text: str) -> str | None:
    """Return what a model says before it answers («Sure! Here is the caption:»), or None."""
    match = _CHATTER.search(_own_words(text))
    return match.group() if match else None


def _own_words(text: str) -> str:
    return _beside_quotes(text).replace("’", "'")


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


class UnusableAnswerError(Exception):
    """An answer, or a text in it, cannot be used.

    `reason` is a stable snake_case word, `detail` a sentence.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def find_object(raw: str) -> dict[str, Any] | None:
    """Return the JSON object of an answer; None if there is no brace outside its reasoning.

    Everything before a lone closing tag is reasoning, including objects.

    Raises:
        UnusableAnswerError: `truncated_answer` (the object, its fence or the reasoning does not
            end) or `unparseable_answer` (invalid JSON, or several objects).
    """
    at = start = 0
    while start >= 0:
        if start <= at:
            start = _start_of_object(raw, at)
        opened = _OPEN_TAG.search(raw, at, start if start >= 0 else len(raw))
        if opened is not None:
            at = _end_of_reasoning(raw, opened)
        elif start >= 0:
            value, end = _object_or_reasoning(raw, at, start)
            if value is not None:
                return value
            at = end
    return None


def _start_of_object(raw: str, at: int) -> int:
    """Return the start of an object, or else of a brace, from `at` on; -1 if there is none."""
    match = _OBJECT.search(raw, at)
    return match.start() if match else raw.find("{", at)


def _object_or_reasoning(raw: str, at: int, start: int) -> tuple[dict[str, Any] | None, int]:
    """Return the object at `start` (None if it is reasoning) and the end of either.

    Reasoning without an opening tag begins at `at`.
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


def _unended_reasoning(tag: str) -> UnusableAnswerError:
    """Return the error of an answer that ends inside the reasoning that `tag` began."""
    return UnusableAnswerError("truncated_answer", f"The answer ends inside its reasoning ({tag}).")


def _end_of_reasoning(raw: str, opened: re.Match[str]) -> int:
    closing = re.compile(rf"<\s*/\s*{opened[1]}\s*>", re.IGNORECASE).search(raw, opened.end())
    if closing is None:
        raise _unended_reasoning(opened.group())
    return closing.end()


def _require_quiet(before: str, rest: str) -> None:
    """Raise if a second object or an unclosed block surrounds the object."""
    if (opened := _OPEN_TAG.search(rest)) is not None:
        raise _unended_reasoning(opened.group())
    if _OBJECT.search(rest) is not None:
        raise UnusableAnswerError(
            "unparseable_answer", "The answer holds more than one JSON object."
        )
    if before.count(_FENCE) % 2 and _FENCE not in rest:
        raise UnusableAnswerError("truncated_answer", "The answer's code fence does not end.")


def _decoded(text: str, start: int) -> tuple[dict[str, Any], int]:
    """Return the object that starts at `start`, and where it ends."""
    try:
        # not strict: some servers' schema enforcement allows raw control characters in strings
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


# Check texts in the fields of a model's answer, including their language.
#
# Only white space is changed in a text: a caption may quote asterisks, tags and notes, and without
# them it is not what the model wrote. Unusable texts are rejected.

_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
"""Zero-width marks that do not change a text: soft hyphen, byte order mark …"""
_SPACES = "\n\r\t "
_UNPRINTABLE = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # joins letters in some scripts
_AROUND = re.compile(
    rf"^<\s*(?:{'|'.join(REASONING)})\b[^>]*>|^(\*\*|__|\*)(?=\S)(?:(?!\1).)+\1$", re.IGNORECASE
)
"""Reasoning before a text, or emphasis around all of it."""
_MARKUP = re.compile(
    r"</?[a-z][^<>]*>|&(?:#\d+|#x[0-9a-f]+|[a-z]{2,8});|```|\]\(|^#{1,6}\s|[{}]", re.IGNORECASE
)
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}|\\[nrt\"]", re.IGNORECASE)
_ANSWER_TEXTS_WORD = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENGLISH = "en"
_LETTERS = re.compile(r"[^\W\d_]+")
_UNKNOWN_SHARE = 0.45
_FEWEST_WORDS = 3
_SCRIPTS = {
    script: frozenset(languages.split())
    for script, languages in {
        "Arabic": "ar fa ur",
        "Armenian": "hy",
        "Bengali": "bn",
        "CJK": "ja zh",
        "Cyrillic": "be bg kk ky mk ru uk",
        "Devanagari": "hi mr ne",
        "Georgian": "ka",
        "Greek": "el",
        "Hangul": "ko",
        "Hebrew": "he",
        "Hiragana": "ja",
        "Katakana": "ja",
        "Tamil": "ta",
        "Thai": "th",
    }.items()
}
_NOT_LATIN = frozenset[str]().union(*_SCRIPTS.values())
"""Languages (ISO 639-1) in non-Latin scripts."""
_MOST_SHOWN = 60


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
    if answer.truncated:
        raise UnusableAnswerError("truncated_answer", "The answer ended at the token limit.")
    if (found := find_object(answer.text)) is not None:
        return found
    if (refusal := refusal_in(answer.text)) is not None:
        raise _refused(refusal)
    raise UnusableAnswerError("unparseable_answer", "The answer holds no JSON object.")


def only_field(found: dict[str, Any], field: str) -> Any:
    """Return the value of the only field of an object.

    Raises:
        UnusableAnswerError: `missing_field`, `extra_fields`.
    """
    check_fields(found, (field,), "The answer")
    return found[field]


def check_fields(found: dict[str, Any], fields: Sequence[str], name: str) -> None:
    """Raise unless an object has these fields and no others.

    Raises:
        UnusableAnswerError: `missing_field`, `extra_fields`.
    """
    if missing := [field for field in fields if field not in found]:
        raise UnusableAnswerError("missing_field", f"{name} lacks the fields {missing}.")
    if extra := sorted(set(found) - set(fields)):
        detail = f"{name} has unknown fields: {shown(', '.join(extra))}."
        raise UnusableAnswerError("extra_fields", detail)


def refused_answer(answer: ChatAnswer, stage: str, unusable: UnusableAnswerError) -> Rejection:
    """Return the rejection of an answer, with the answer in its context."""
    return Rejection.of(stage, unusable.reason, unusable.detail, answer=answer.text)


def read_text(value: object, name: str, most_characters: int) -> str:
    """Return `value` as one line of plain text in words.

    Args:
        value: a field of the answer.
        name: what messages call the text.
        most_characters: the maximum length.

    Raises:
        UnusableAnswerError: as `read_line`; `no_words` (only signs and numbers) and `markup`
            outside quotation marks.
    """
    line = read_line(value, name, most_characters)
    markup = _MARKUP.search(_beside_quotes(line)) or _ESCAPE.search(line)
    if markup is not None:
        raise UnusableAnswerError("markup", f"{name} holds markup: {shown(markup.group())}.")
    if _ANSWER_TEXTS_WORD.search(line) is None:
        raise UnusableAnswerError("no_words", f"{name} holds no words: {shown(line)}.")
    return line


def read_line(value: object, name: str, most_characters: int) -> str:
    """Return `value` as one line, with only its white space changed.

    A line may contain whatever an image shows: signs of programs and sums, tags, braces.

    Args:
        value: a field of the answer.
        name: what messages call the text.
        most_characters: the maximum length.

    Raises:
        UnusableAnswerError: `wrong_type`, `too_long`, `control_characters`, `empty`, `no_words`
            (neither letters nor signs with a meaning), `markup` (reasoning before it, emphasis
            around all of it, or nested JSON), `refusal` and `chatter`.
    """
    if not isinstance(value, str):
        kind = type(value).__name__
        raise UnusableAnswerError("wrong_type", f"{name} must be a text; got {kind}.")
    if len(value) > 2 * most_characters:  # before any pattern is searched in it
        raise _too_long(name, len(value), most_characters)
    text = value.translate(_UNSEEN)
    if (control := control_character(text)) is not None:
        detail = f"{name} holds the character U+{ord(control):04X}."
        raise UnusableAnswerError("control_characters", detail)
    line = " ".join(text.split())
    if len(line) > most_characters:
        raise _too_long(name, len(line), most_characters)
    if not line:
        raise UnusableAnswerError("empty", f"{name} holds no text.")
    if not words_of(line):
        raise UnusableAnswerError("no_words", f"{name} holds no words: {shown(line)}.")
    if (around := _AROUND.search(line)) is not None:
        detail = f"{name} is wrapped in markup: {shown(around.group())}."
        raise UnusableAnswerError("markup", detail)
    if _is_json(line):
        raise UnusableAnswerError("markup", f"{name} holds JSON again: {shown(line)}.")
    if (refusal := refusal_in(line)) is not None:
        raise _refused(refusal)
    if (chatter := chatter_in(line)) is not None:
        detail = f"{name} begins with what is no part of it: {shown(chatter)}."
        raise UnusableAnswerError("chatter", detail)
    return line


def check_language(text: str, name: str, like: str) -> None:
    """Raise unless `text` has the script and language of the caption `like`.

    Text in quotation marks is ignored because captions quote signs. The language of fewer than
    three words is unknown.

    Raises:
        UnusableAnswerError: `wrong_language`.
    """
    plain = _beside_quotes(text)
    if (foreign := foreign_script(plain)) is not None and foreign_script(like) is None:
        raise _wrong_language(name, f"in {foreign.language} script", text)
    if len(_LETTERS.findall(plain)) < _FEWEST_WORDS:
        return
    wanted, (guess, probability) = _language_of(like), guessed_language(plain)
    is_other = not _is_english(plain) if wanted == _ENGLISH else probability >= SURE
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
    plain = _beside_quotes(text)
    foreign = foreign_script(plain)
    if foreign is None and language in _NOT_LATIN:
        raise _wrong_language(name, f"in Latin letters, wanted {language!r}", text)
    if foreign is not None and language not in _SCRIPTS.get(foreign.language, {language}):
        raise _wrong_language(name, f"in {foreign.language} script, wanted {language!r}", text)
    guess, probability = guessed_language(plain)
    is_sure = probability >= SURE and len(_LETTERS.findall(plain)) >= _FEWEST_WORDS
    if guess != language and is_sure:
        raise _wrong_language(name, f"in the language {guess!r}, wanted {language!r}", text)


def shown(text: str) -> str:
    """Quote the beginning of a text for messages."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


@lru_cache(maxsize=256)
def _language_of(caption: str) -> str:
    """Return the language of a caption: English, unless it surely is another."""
    guess, probability = guessed_language(caption)
    return guess if probability >= SURE and not _is_english(caption) else _ENGLISH


def _is_english(text: str) -> bool:
    """Return whether most words of a text that looks like another language are English."""
    found = [finding.rule for finding in check_grammar(text, names=False)]
    if LANGUAGE in found:
        return False
    return found.count(SPELLING) < _UNKNOWN_SHARE * len(_LETTERS.findall(text))


def control_character(text: str) -> str | None:
    """Return the first invalid character: control, format, private use or unassigned."""
    if text.isprintable() and "\ufffd" not in text:
        return None
    for character in text:
        if character in _SPACES or character in _JOINERS:
            continue
        if character == "\ufffd" or unicodedata.category(character) in _UNPRINTABLE:
            return character
    return None


def _is_json(line: str) -> bool:
    if not line.startswith(("{", "[")):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(words: str) -> UnusableAnswerError:
    return UnusableAnswerError("refusal", f"The model refused: {shown(words)}.")


def _too_long(name: str, characters: int, most: int) -> UnusableAnswerError:
    detail = f"{name} has {characters:,} characters; wanted {most:,} at most."
    return UnusableAnswerError("too_long", detail)


def _wrong_language(name: str, what: str, text: str) -> UnusableAnswerError:
    return UnusableAnswerError("wrong_language", f"{name} is {what}: {shown(text)}.")


# What a model says instead of its own words: its prompt, or the same words again.

_DATA = re.compile(r"<(\w+)>.*?</\1>", re.DOTALL)  # the data of a prompt is between tags
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_CLAUSE_END = re.compile(r"[.!?;:,]\s+|\n")
_ECHOED_WORDS = 6  # the shortest sentence that does not match by chance
_LOOPED_WORDS = 4
_LOOPED_TIMES = 3


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


def loop_in(text: str) -> str | None:
    """Return the clause of at least four words that `text` has at least three times, or None."""
    said = Counter(words_of(clause) for clause in _CLAUSE_END.split(text))
    for words, times in said.items():
        if times >= _LOOPED_TIMES and len(words) >= _LOOPED_WORDS:
            return " ".join(words)
    return None


def check_own_words(text: str, prompt: str) -> None:
    """Raise unless `text` is in its own words.

    Raises:
        UnusableAnswerError: `instruction_echo`, `repetition`.
    """
    if (echo := _echo_in(text, prompt)) is not None:
        detail = f"The answer repeats its prompt: {shown(echo)}."
        raise UnusableAnswerError("instruction_echo", detail)
    if (loop := loop_in(text)) is not None:
        detail = f"The answer says the same again and again: {shown(loop)}."
        raise UnusableAnswerError("repetition", detail)


# Extract a description of a person, or its rewrite, from a raw model answer.
#
# Descriptions of people rarely quote anything, so apparent reasoning, chatter and emphasis are
# removed. Captions of images may quote all of these: see `read_line`.

STAGE = "rewrite_description"
FIELD = "rewrite"

_CLEAN_ANSWER_FENCE = re.compile(r"```[\w+-]*\s*\n?(.*?)```", re.DOTALL)
_CLEAN_ANSWER_MARKUP = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|\[/?INST\]", re.IGNORECASE)
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
# Control characters, lone surrogates (which cannot be stored), bidirectional overrides.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_EMPHASIS = re.compile(r"(\*\*|__|\*)(?=\S)(.+?)(?<=\S)\1", re.DOTALL)


def clean_answer(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """Return the rewrite in `answer` as one clean paragraph, or why there is none.

    Accepts `{"rewrite": …}` and plain text, both possibly wrapped in reasoning blocks, fences,
    quotes and chatter. Reasons: `truncated_answer` (the answer, its JSON or its reasoning does not
    end), `unparseable_answer`, `extra_fields`, `empty`, `control_characters`, `too_long`. The
    context has the raw answer.

    Args:
        answer: the model's answer.
        max_characters: the maximum length of a rewrite.
    """
    reason, detail = "truncated_answer", "The answer ended at the token limit."
    if not answer.truncated:
        try:
            text = _tidied(_text_in(answer.text))
        except UnusableAnswerError as unusable:
            reason, detail = unusable.reason, unusable.detail
        else:
            if not text:
                reason, detail = "empty", "The answer holds no text."
            elif control := _CONTROL.search(text):
                reason = "control_characters"
                detail = f"The rewrite holds the control character U+{ord(control.group()):04X}."
            elif len(text) > max_characters:
                reason = "too_long"
                detail = f"The rewrite has {len(text)} characters, wanted {max_characters} at most."
            else:
                return text
    return Rejection.of(STAGE, reason, detail, answer=answer.text)


def _text_in(raw: str) -> str:
    """Return the text of an answer without reasoning: its JSON object's field, or all of it."""
    found = find_object(raw)
    if found is None:
        text = _without_reasoning(raw)
        if (fenced := _CLEAN_ANSWER_FENCE.search(text)) is not None:
            text = fenced.group(1).strip()
        elif text.startswith(_FENCE):
            raise UnusableAnswerError("truncated_answer", "The answer's code fence does not end.")
        if "}" in text or text.startswith("["):
            detail = "The answer is neither JSON nor plain text."
            raise UnusableAnswerError("unparseable_answer", detail)
        return text
    value: Any = found.get(FIELD)
    if not isinstance(value, str) or value.lstrip().startswith(("{", "[")):
        detail = f"{FIELD!r} of the answer must be a text; got {shown(repr(value))}."
        raise UnusableAnswerError("unparseable_answer", detail)
    if extra := sorted(set(found) - {FIELD}):
        raise UnusableAnswerError("extra_fields", f"The answer has unknown fields: {extra!r}.")
    return _without_reasoning(value)


def _without_reasoning(raw: str) -> str:
    """Return `raw` without reasoning blocks, and without text before a lone closing tag."""
    text = _BLOCK.sub(" ", _CLEAN_ANSWER_MARKUP.sub(" ", raw))
    for closing in list(_CLOSE_TAG.finditer(text))[-1:]:
        text = text[closing.end() :]
    if match := _OPEN_TAG.search(text):
        raise _unended_reasoning(match.group())
    return text.strip()


def _tidied(text: str) -> str:
    """Return `text` without chatter, quotes and emphasis, with single spaces."""
    text = _LEAD.sub("", text.strip(), count=1)
    text = _TAIL.sub("", text)
    text = _EMPHASIS.sub(r"\2", text)
    return _unquoted(" ".join(text.split()))


def _unquoted(text: str) -> str:
    """Return `text` without quotation marks around all of it."""
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text
