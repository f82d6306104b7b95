"""Texts in the fields of a model's answer: as they are, in the language of a caption, or refused.

Nothing but white space is changed in a text: a caption may quote asterisks, tags and notes, and
whoever takes something out of it says what no model said. What cannot be used is refused.
"""

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any, NamedTuple

from schemas.chat import ChatAnswer
from schemas.grammar import GrammarSettings
from schemas.records import Rejection
from stages.answer_object import REASONING, UnusableAnswerError, find_object
from stages.caption_words import words_of
from stages.check_grammar.check import LANGUAGE, SPELLING, check_grammar
from stages.check_grammar.language import SURE, foreign_script, guessed_language
from stages.quotations import beside_quotes
from stages.refusals import chatter_in, refusal_in

_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
"""Marks without width that change nothing of a text: soft hyphen, byte order mark …"""
_SPACES = "\n\r\t "
_UNPRINTABLE = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # of letters, in some scripts
_AROUND = re.compile(
    rf"^<\s*(?:{'|'.join(REASONING)})\b[^>]*>|^(\*\*|__|\*)(?=\S)(?:(?!\1).)+\1$", re.IGNORECASE
)
"""Reasoning before a text, or emphasis around the whole of it."""
_MARKUP = re.compile(
    r"</?[a-z][^<>]*>|&(?:#\d+|#x[0-9a-f]+|[a-z]{2,8});|```|\]\(|^#{1,6}\s|[{}]", re.IGNORECASE
)
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}|\\[nrt\"]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENGLISH = "en"
_LETTERS = re.compile(r"[^\W\d_]+")
_NAMES_COUNT = GrammarSettings(names=False)
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
"""Languages (ISO 639-1) that are written in other letters than Latin ones."""
_MOST_SHOWN = 60


class Fault(NamedTuple):
    """Why a text is no use: `reason` is a stable word, `detail` a sentence."""

    reason: str
    detail: str


def answer_object(answer: ChatAnswer, stage: str) -> dict[str, Any] | Rejection:
    """The one JSON object of an answer, with whatever fields it has, or why there is none.

    It may stand among reasoning, chatter and code fences; plain text is no answer where an object
    was asked for. Reasons: `truncated_answer`, `unparseable_answer`, `refusal` (it is a text by
    which the model refuses). The raw answer is in the context.
    """
    try:
        found = None if answer.truncated else find_object(answer.text)
    except UnusableAnswerError as unusable:
        return refused_answer(answer, stage, Fault(unusable.reason, unusable.detail))
    if found is not None:
        return found
    fault = Fault("unparseable_answer", "The answer holds no JSON object.")
    if answer.truncated:
        fault = Fault("truncated_answer", "The answer ended at the token limit.")
    elif (refusal := refusal_in(answer.text)) is not None:
        fault = _refused(refusal)
    return refused_answer(answer, stage, fault)


def only_field(found: dict[str, Any], field: str) -> Any:
    """What the only field of an object holds, or a `Fault`: `missing_field`, `extra_fields`."""
    extra = sorted(set(found) - {field})
    if field not in found:
        return Fault("missing_field", f"The answer has no field {field!r}; its fields are {extra}.")
    if extra:
        return Fault("extra_fields", f"The answer has unknown fields: {shown(', '.join(extra))}.")
    return found[field]


def refused_answer(answer: ChatAnswer, stage: str, fault: Fault) -> Rejection:
    """The rejection of an answer, with the answer in its context."""
    return Rejection(
        stage=stage, reason=fault.reason, detail=fault.detail, context={"answer": answer.text}
    )


def read_text(value: object, name: str, most_characters: int) -> str | Fault:
    """`value` as one line of plain text in words, or what is wrong with it.

    Reasons: those of `read_line`, `no_words` (there are signs and numbers alone) and `markup`,
    which is fine between quotation marks.

    Args:
        value: what the answer holds.
        name: what the text is called in messages.
        most_characters: the longest that is taken.
    """
    line = read_line(value, name, most_characters)
    if isinstance(line, Fault):
        return line
    markup = _MARKUP.search(beside_quotes(line)) or _ESCAPE.search(line)
    if markup is not None:
        return Fault("markup", f"{name} holds markup: {shown(markup.group())}.")
    if _WORD.search(line) is None:
        return Fault("no_words", f"{name} holds no words: {shown(line)}.")
    return line


def read_line(value: object, name: str, most_characters: int) -> str | Fault:
    """`value` as one line, nothing changed but its white space, or what is wrong with it.

    A line may hold whatever an image shows: signs of programs and sums, tags, braces. Reasons:
    `wrong_type`, `too_long`, `control_characters`, `empty`, `no_words` (it has neither letters nor
    signs with a meaning), `markup` (reasoning before it, emphasis around all of it, or JSON again),
    `refusal` and `chatter` (see `stages.refusals`).

    Args:
        value: what the answer holds.
        name: what the text is called in messages.
        most_characters: the longest that is taken.
    """
    if not isinstance(value, str):
        kind = type(value).__name__
        return Fault("wrong_type", f"{name} must be a text; got {kind}.")
    if len(value) > 2 * most_characters:  # before anything looks for patterns in it
        return _too_long(name, len(value), most_characters)
    text = value.translate(_UNSEEN)
    if (control := _control_character(text)) is not None:
        return Fault("control_characters", f"{name} holds the character U+{ord(control):04X}.")
    line = " ".join(text.split())
    if len(line) > most_characters:
        return _too_long(name, len(line), most_characters)
    return _line_fault(line, name) or line


def language_fault(text: str, name: str, like: str) -> Fault | None:
    """Whether `text` is in another script or language than the caption `like`, and which.

    What stands between quotation marks is left alone: captions quote signs. Of fewer than three
    words nobody can say; the reason is `wrong_language`.
    """
    plain = beside_quotes(text)
    if (foreign := foreign_script(plain)) is not None and foreign_script(like) is None:
        return _wrong_language(name, f"in {foreign.language} script", text)
    if len(_LETTERS.findall(plain)) < _FEWEST_WORDS:
        return None
    wanted, (guess, probability) = _language_of(like), guessed_language(plain)
    if guess == wanted or (wanted != _ENGLISH and probability < SURE):
        return None
    if wanted == _ENGLISH and _is_english(plain):
        return None
    return _wrong_language(name, f"in the language {guess!r}, wanted {wanted!r}", text)


def translation_fault(text: str, name: str, caption: str, language: str) -> Fault | None:
    """Why `text` is no translation of `caption` into `language` (ISO 639-1).

    Reasons: `untranslated` (it is the caption), `wrong_language` (it is surely in another).
    """
    if text.casefold() == caption.casefold():
        return Fault("untranslated", f"{name} is its caption, wanted it in {language!r}.")
    plain = beside_quotes(text)
    foreign = foreign_script(plain)
    if foreign is None and language in _NOT_LATIN:
        return _wrong_language(name, f"in Latin letters, wanted {language!r}", text)
    if foreign is not None and language not in _SCRIPTS.get(foreign.language, {language}):
        return _wrong_language(name, f"in {foreign.language} script, wanted {language!r}", text)
    guess, probability = guessed_language(plain)
    if guess == language or probability < SURE or len(_LETTERS.findall(plain)) < _FEWEST_WORDS:
        return None
    return _wrong_language(name, f"in the language {guess!r}, wanted {language!r}", text)


def shown(text: str) -> str:
    """The beginning of a text, quoted, as it stands in messages."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


@lru_cache(maxsize=256)
def _language_of(caption: str) -> str:
    """The language of a caption: English, unless it is surely another."""
    guess, probability = guessed_language(caption)
    return guess if probability >= SURE and not _is_english(caption) else _ENGLISH


def _is_english(text: str) -> bool:
    """Whether a text that looks like another language is English: most of its words are."""
    found = [finding.rule for finding in check_grammar(text, _NAMES_COUNT)]
    if LANGUAGE in found:
        return False
    return found.count(SPELLING) < _UNKNOWN_SHARE * len(_LETTERS.findall(text))


def _control_character(text: str) -> str | None:
    """The first character that is no part of a text: control, format, private use, unassigned."""
    if text.isprintable() and "\ufffd" not in text:
        return None
    for character in text:
        if character in _SPACES or character in _JOINERS:
            continue
        if character == "\ufffd" or unicodedata.category(character) in _UNPRINTABLE:
            return character
    return None


def _line_fault(line: str, name: str) -> Fault | None:
    """What is wrong with a line, as far as its words tell."""
    if not line:
        return Fault("empty", f"{name} holds no text.")
    if not words_of(line):
        return Fault("no_words", f"{name} holds no words: {shown(line)}.")
    if (around := _AROUND.search(line)) is not None:
        return Fault("markup", f"{name} stands in markup: {shown(around.group())}.")
    if _is_json(line):
        return Fault("markup", f"{name} holds JSON again: {shown(line)}.")
    if (refusal := refusal_in(line)) is not None:
        return _refused(refusal)
    if (chatter := chatter_in(line)) is not None:
        return Fault("chatter", f"{name} begins with what is no part of it: {shown(chatter)}.")
    return None


def _is_json(line: str) -> bool:
    if not line.startswith(("{", "[")):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(words: str) -> Fault:
    return Fault("refusal", f"The model refused: {shown(words)}.")


def _too_long(name: str, characters: int, most: int) -> Fault:
    return Fault("too_long", f"{name} has {characters:,} characters; wanted {most:,} at most.")


def _wrong_language(name: str, what: str, text: str) -> Fault:
    return Fault("wrong_language", f"{name} is {what}: {shown(text)}.")
