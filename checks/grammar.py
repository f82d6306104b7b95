"""Check the grammar and spelling of English captions offline with Harper."""

import io
import json
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from importlib.resources import files
from threading import Lock
from typing import Any, NamedTuple

from loupe.checks.language import SURE, foreign_script, guessed_language
from loupe.schemas.phrases import QUOTED

# Number agreement, as rules in Weir, Harper's own rule language.
#
# Harper has no rule for "a man are riding" or "two dog". These rules are made for captions: they
# know the subjects that captions begin with, and the verbs of captions. A rule applies if its
# subject opens the sentence (see `opens_sentence`), because Weir cannot look back, and in "two men
# in a boat are" the verb is right.

PREFIX = "Agreement"
"""Prefix of the names of these rules."""

_SENTENCE_END = re.compile(r"[.!?;:]\s+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")
_LONGEST_SUBJECT = 5


def rule_pack() -> bytes:
    """Return all rules as a Weirpack; Harper runs its tests when it loads it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as pack:
        manifest = {
            "author": "Loupe",
            "version": "1.0.0",
            "description": "Number agreement in captions",
            "license": "Apache-2.0",
        }
        pack.writestr("manifest.json", json.dumps(manifest))
        for name, rule in rules():
            pack.writestr(f"{PREFIX}{name}.weir", rule)
    return file.getvalue()


def rules() -> Iterator[tuple[str, str]]:
    """Yield (name, rule in Weir) for each verb and each noun, in both numbers."""
    nouns = [*_pairs("irregular_nouns"), *((noun, f"{noun}s") for noun in _words("regular_nouns"))]
    ones, manies = (", ".join(forms) for forms in zip(*nouns, strict=True))
    of_many_words = ", ".join(_words("of_many"))
    single, counted = f"<NOUN, ![{of_many_words}]>", f"<NOUN, ![{', '.join(_words('amounts'))}]>"
    any_word = f"![{of_many_words}, {', '.join(_words('pronouns'))}]"
    singular_words, somebody = (f"[{', '.join(_words(one))}]" for one in ("singular", "somebody"))
    plural_words = ", ".join(_words("plural"))
    of_one = [
        *_subjects(singular_words, single),
        *_subjects("the", f"[{ones}]"),
        f"({somebody} ",
    ]
    of_many = _subjects(f"[the, {plural_words}]", f"[{manies}]")
    for plural, singular in _pairs("verbs"):
        test = f'test "A man {plural} here." "A man {singular} here."'
        is_auxiliary = plural in _words("auxiliaries")
        subjects = [*of_one, f"({singular_words} {any_word} "] if is_auxiliary else of_one
        yield f"Singular{plural.title()}", _rule(subjects, plural, singular, test)
        test = f'test "Two men {singular} here." "Two men {plural} here."'
        subjects = [*_subjects(f"[{plural_words}]", counted), *of_many]
        yield f"Plural{singular.title()}", _rule(subjects, singular, plural, test)
    for plural, singular in _pairs("verbs_also_nouns"):
        test = f'test "Two men {singular} here." "Two men {plural} here."'
        yield f"Plural{singular.title()}", _rule(of_many, singular, plural, test)
    for one, many in nouns:
        after = "[( [VERB, AUX, ADP, CCONJ]), (.), (,)]"
        counting = f"expr main <([{plural_words}] {one}{after}), {one}>\n"
        yield f"Counted{one.title()}", counting + _facts(many)
        yield (
            f"One{many.title()}",
            f"expr main <([a, an, one, each] {many}), {many}>\n" + _facts(one),
        )
    yield "ThereIs", f"expr main <(there is [{plural_words}]), is>\n" + _facts("are")
    there = f"expr main <(there are [a, an, one] {single}), are>\n"
    yield "ThereAre", there + _facts("is")


def _words(name: str) -> list[str]:
    return _data()[name].split()


def _pairs(name: str) -> list[tuple[str, str]]:
    return [(one, other) for one, other in map(str.split, _data()[name].split(","))]


@cache
def _data() -> dict[str, str]:
    return tomllib.loads(files("loupe.checks").joinpath("grammar.toml").read_text(encoding="utf-8"))


def _subjects(determiner: str, noun: str) -> list[str]:
    """Yield the beginnings of expressions: a subject with and without an adjective."""
    return [f"({determiner} {more}{noun} " for more in ("", "ADJ ")]


def _rule(subjects: list[str], wrong: str, right: str, test: str) -> str:
    found = ", ".join(f"{subject}{wrong})" for subject in subjects)
    return f"expr main <[{found}], {wrong}>\n{_facts(right)}{test}\n"


def _facts(right: str) -> str:
    return (
        f'let message "Subject and verb, or number and noun, do not agree: `{right}`."\n'
        f'let description "Number agreement in captions."\n'
        f'let kind "Agreement"\nlet becomes "{right}"\nlet strategy "MatchCase"\n'
    )


def opens_sentence(text: str, start: int) -> bool:
    """Return whether the text up to `start` is only the subject that opens its sentence.

    Such a subject is short, has at most one determiner, and no preposition, conjunction, comma or
    participle. What follows is then the verb of its last noun.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, start)]
    subject = text[ends[-1] if ends else 0 : start].casefold()
    words = _WORD.findall(subject)
    if len(words) > _LONGEST_SUBJECT or "," in subject or "(" in subject:
        return False
    links = _words("links")
    if any(word in links or word.endswith("ing") for word in words):
        return False
    return not set(words[1:]).intersection(_words("openers"))


# The grammar of a caption: Harper's findings, without known false positives for captions.

SPELLING = "SpellCheck"
LANGUAGE = "Language"

_REPEATED = "RepeatedWord"
_OF_WORDS = ("Spelling", "Typo")
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
    found = list(_findings(text, plain, known_words.union(_words("correct_words")), names=names))
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
    ignored_rules, ignored_kinds = _words("ignored_rules"), _words("ignored_kinds")
    for rule, kind, start, end, message, _ in _lints(plain, "AMERICAN"):
        if rule in ignored_rules or kind in ignored_kinds:
            continue
        if plain[start : end + 2] != text[start : end + 2] or not _is_sure(rule, plain, start):
            continue
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


def _is_sure(rule: str, text: str, start: int) -> bool:
    """Return whether a rule applies: rules of verbs only apply if the subject is known."""
    of_verbs = f"{PREFIX}Singular", f"{PREFIX}Plural"
    return not rule.startswith(of_verbs) or opens_sentence(text, start)


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
    """Return a Harper linter for a dialect of English, with our rules of agreement."""
    from harper import Dialect, Linter

    linter = Linter(Dialect[dialect])
    if failed := linter.load_weirpack(rule_pack()):
        raise AssertionError(f"rules of agreement fail their own tests: {failed}")
    return linter
