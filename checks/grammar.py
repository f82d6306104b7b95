"""Check the grammar and spelling of English captions offline with Harper."""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from loupe.checks.language import SURE, foreign_script, guessed_language
from loupe.schemas.phrases import QUOTED

SPELLING = "SpellCheck"
LANGUAGE = "Language"

_REPEATED = "RepeatedWord"
_OF_WORDS = ("Spelling", "Typo")
_IGNORED_KINDS = ("Enhancement", "Formatting", "Readability", "Regionalism", "Style")
_IGNORED_RULES = ("CompoundNouns", "LeftRightHand", "MissingPreposition", "SentenceCapitalization")
"""What is no error in a caption: style, one variety of English, and the beginning, because many
captions are no sentences."""
_CORRECT_WORDS = frozenset(("blouson", "decker", "DSLR", "elif", "halfpipe", "jetliner"))
"""Words that Harper does not know; case matters."""
_UNKNOWN_SHARE = 0.4
_FEWEST_WORDS = 3
_CODE = re.compile(
    r"\b[\w.]+\([^()]*\)|\b\w+\.[a-z]{1,4}\b(?!\s+[A-Z])|\b\w+_\w+\b"
    r"|\b\w+(?:\s?(?:[+*/%<>=×÷]=?|==|(?<=\s)-(?=\s))\s?\w+)+(?=\W|$)"
)
_TWICE = re.compile(r"\b([^\W\d_]{3,})[ \t]+\1\b", re.IGNORECASE)
_RIGHT = frozenset(("had", "that"))
_CHECK_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_AT_ONCE = Lock()  # threads must not share a linter; a caption takes a millisecond


class Finding(NamedTuple):
    """An error in a text: its position in characters, the rule, and a sentence for users."""

    start: int
    end: int
    rule: str
    message: str


def check_grammar(
    text: str, known_words: frozenset[str] = frozenset(), *, names: bool = True
) -> tuple[Finding, ...]:
    """Return the errors of an English caption in the order of the text.

    Text in quotation marks, calls, file names and formulas are not checked (`range(9)`, `i * 4`). A
    text that is not English, at least in part, has a single finding, `Language`, because rules of
    English would only report false errors.

    Args:
        text: a caption.
        known_words: words that are correct in this caption, such as names in its facts.
        names: whether capitalized words inside a sentence count as names, not as misspellings.
    """
    plain = _CODE.sub(_hidden, QUOTED.sub(_hidden, text))
    for word in known_words:  # of other scripts, in translated captions
        if not word.isascii():
            plain = plain.replace(word, "X" * len(word))
    if (foreign := foreign_script(plain)) is not None:
        return (_language_finding(foreign.start, foreign.end, f"in {foreign.language}"),)
    found = list(_findings(text, plain, known_words | _CORRECT_WORDS, names=names))
    if (language := _other_language(plain, found)) is not None:
        return (_language_finding(0, len(text), f"in the language {language!r}"),)
    return tuple(sorted([*found, *_repetitions(plain, found)]))


def unknown_share(text: str, known_words: AbstractSet[str] = frozenset()) -> float:
    """Return the share of words of a text, in [0, 1], that are no English words.

    Args:
        text: a sentence.
        known_words: words that count as right, such as those of the text that was rewritten.
    """
    words = _CHECK_WORD.findall(text)
    unknown = unknown_words(text, known_words)
    return sum(word in unknown for word in words) / len(words) if words else 0.0


def unknown_words(text: str, known_words: AbstractSet[str] = frozenset()) -> frozenset[str]:
    """Return the words of a text that are no English words, other than `known_words`."""
    unknown = _misspelled(text, "AMERICAN") - known_words
    return unknown & _misspelled(text, "BRITISH") if unknown else unknown


def words_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the `known_words` of texts that are known to be right, such as an image's facts."""
    return frozenset(word for text in texts for word in _CHECK_WORD.findall(text))


def _hidden(match: re.Match[str]) -> str:
    """Return `X` for each character of a match, which keeps positions."""
    return "X" * len(match.group())


def _findings(text: str, plain: str, allowed: frozenset[str], *, names: bool) -> Iterator[Finding]:
    for rule, kind, start, end, message, _ in _lints(plain, "AMERICAN"):
        if rule in _IGNORED_RULES or kind in _IGNORED_KINDS:
            continue
        if plain[start : end + 2] != text[start : end + 2]:
            continue  # hidden
        if kind in _OF_WORDS and text[start:end] in allowed:
            continue
        if rule == SPELLING and _is_right(plain, start, end, allowed, names=names):
            continue
        yield Finding(start, end, rule, message.replace("“", "‘").replace("”", "’"))


def _repetitions(plain: str, found: list[Finding]) -> Iterator[Finding]:
    """Yield repeated words that Harper has not found, except those that may be repeated.

    Harper only finds repeated function words («the the»).
    """
    for match in _TWICE.finditer(plain):
        start, end = match.span()
        is_known = any(one.start < end and start < one.end for one in found)
        if match[1].casefold() not in _RIGHT and not is_known:
            yield Finding(start, end, _REPEATED, f"The word {match[1]!r} stands twice.")


def _is_right(text: str, start: int, end: int, allowed: frozenset[str], *, names: bool) -> bool:
    """Return whether a word that is not in the American dictionary is correct."""
    word = text[start:end]
    if word.removesuffix("'s").removesuffix("’s") in allowed:
        return True
    if names and word[:1].isupper() and _CHECK_WORD.search(text[:start]) is not None:
        return True
    british = {one.problem for one in _lints(text, "BRITISH") if one.rule == SPELLING}
    return word not in british


def _other_language(text: str, found: list[Finding]) -> str | None:
    """Return the language of a text with many unknown words, if it surely is not English."""
    words = _CHECK_WORD.findall(text)
    unknown = sum(one.rule == SPELLING for one in found)
    if len(words) < _FEWEST_WORDS or unknown < _UNKNOWN_SHARE * len(words):
        return None
    language, probability = guessed_language(text)
    return language if language != "en" and probability >= SURE else None


def _language_finding(start: int, end: int, what: str) -> Finding:
    return Finding(start, end, LANGUAGE, f"The caption must be in English; this is {what}.")


class _Lint(NamedTuple):
    """A finding of Harper: its rule and kind, its position, its message and the text in it."""

    rule: str
    kind: str
    start: int
    end: int
    message: str
    problem: str


@lru_cache(maxsize=4096)
def _lints(text: str, dialect: str) -> tuple[_Lint, ...]:
    """Return Harper's findings; a build checks many texts again in its later steps and rounds."""
    from harper import Language

    with _AT_ONCE:
        found = _linter(dialect).organized_lints(text, language=Language.PLAINTEXT)
    return tuple(
        _Lint(rule, one.lint_kind, one.span.start, one.span.end, one.message, one.problem_text)
        for rule, lints in found.items()
        for one in lints
    )


@lru_cache(maxsize=4096)
def _misspelled(text: str, dialect: str) -> frozenset[str]:
    """Return the words that are not in the dictionary; ten times as fast as all rules."""
    from harper import Language

    with _AT_ONCE:
        found = _speller(dialect).lint(text, language=Language.PLAINTEXT)
    return frozenset(one.problem_text for one in found)


@lru_cache(maxsize=2)
def _speller(dialect: str) -> Any:
    """Return a Harper linter that only looks words up."""
    from harper import Dialect, Linter

    linter = Linter(Dialect[dialect])
    linter.set_lint_config({rule: rule == SPELLING for rule in linter.get_lint_config()})
    return linter


@lru_cache(maxsize=2)
def _linter(dialect: str) -> Any:
    """Return a Harper linter for a dialect of English."""
    from harper import Dialect, Linter

    return Linter(Dialect[dialect])
