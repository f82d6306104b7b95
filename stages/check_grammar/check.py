"""The grammar of a caption: Harper's findings, less what is known to be wrong about captions."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from schemas.grammar import GrammarFinding, GrammarSettings
from stages.check_grammar import agreement, repetition
from stages.check_grammar.language import SURE, foreign_script, guessed_language

if TYPE_CHECKING:
    from harper import Lint

STAGE = "check_grammar"
VERSION = "1"
SPELLING = "SpellCheck"
LANGUAGE = "Language"

_OF_WORDS = ("Spelling", "Typo")
_UNKNOWN_SHARE = 0.4
_FEWEST_WORDS = 3
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")
_CODE = re.compile(
    r"\b[\w.]+\([^()]*\)|\b\w+\.[a-z]{1,4}\b(?!\s+[A-Z])|\b\w+_\w+\b"
    r"|\b\w+(?:\s?(?:[+*/%<>=×÷]=?|==|(?<=\s)-(?=\s))\s?\w+)+(?=\W|$)"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_DEFAULTS = GrammarSettings()
_AT_ONCE = Lock()  # a linter is no use to two threads at a time; a caption takes a millisecond


def check_grammar(
    text: str, settings: GrammarSettings = _DEFAULTS, known_words: frozenset[str] = frozenset()
) -> tuple[GrammarFinding, ...]:
    """What is wrong with an English caption, in the order of the text.

    A text that is not English, or is so in part, has one finding, `Language`, and no other: rules
    of English would only find noise there.

    Args:
        text: a caption.
        settings: what is not held against it.
        known_words: words that are right in this caption, as names among what is known of it.
    """
    plain = _without(_QUOTED, text) if settings.quotes else text
    plain = _without(_CODE, plain) if settings.code else plain
    plain = _without_known(plain, known_words)
    if (foreign := foreign_script(plain)) is not None:
        return (_language_finding(text, foreign.start, foreign.end, f"in {foreign.language}"),)
    allowed = known_words | frozenset(settings.words)
    found = list(_findings(text, plain, settings, allowed))
    if (language := _other_language(plain, found)) is not None:
        return (_language_finding(text, 0, len(text), f"in the language {language!r}"),)
    found += _repetitions(text, plain, settings, found)
    return tuple(sorted(found, key=lambda one: (one.start, one.end, one.rule)))


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """The words of texts that are known to be right, as the facts of an image: `known_words`."""
    return frozenset(word for text in texts for word in _WORD.findall(text))


def _findings(
    text: str, plain: str, settings: GrammarSettings, allowed: frozenset[str]
) -> Iterator[GrammarFinding]:
    for rule, lint in _lints(plain, "AMERICAN"):
        if rule in settings.ignored_rules or lint.lint_kind in settings.ignored_categories:
            continue
        start, end = lint.span.start, lint.span.end
        if plain[start : end + 2] != text[start : end + 2] or not _is_sure(rule, plain, start):
            continue
        if lint.lint_kind in _OF_WORDS and text[start:end] in allowed:
            continue
        if rule == SPELLING and _is_right(plain, start, end, settings, allowed):
            continue
        yield GrammarFinding(
            rule=rule,
            category="Agreement" if rule.startswith(agreement.PREFIX) else lint.lint_kind,
            message=lint.message.replace("“", "‘").replace("”", "’"),
            start=start,
            end=end,
            text=text[start:end],
            suggestions=tuple(_cased(one, text[start:end]) for one in _replacements(lint)),
        )


def _repetitions(
    text: str, plain: str, settings: GrammarSettings, found: list[GrammarFinding]
) -> list[GrammarFinding]:
    """Words that stand twice, where Harper has not found them."""
    if repetition.RULE in settings.ignored_rules:
        return []
    return [
        GrammarFinding(
            rule=repetition.RULE,
            category="Repetition",
            message=f"The word {one.word!r} stands twice.",
            start=one.start,
            end=one.end,
            text=text[one.start : one.end],
            suggestions=(one.word,),
        )
        for one in repetition.repetitions(plain)
        if not any(other.start < one.end and one.start < other.end for other in found)
    ]


def _is_sure(rule: str, text: str, start: int) -> bool:
    """Whether a rule holds here: those of verbs that agree only where the subject is known."""
    of_verbs = f"{agreement.PREFIX}Singular", f"{agreement.PREFIX}Plural"
    return not rule.startswith(of_verbs) or agreement.opens_sentence(text, start)


def _is_right(
    text: str, start: int, end: int, settings: GrammarSettings, allowed: frozenset[str]
) -> bool:
    """Whether a word that the American dictionary lacks is right all the same."""
    word = text[start:end]
    if word.removesuffix("'s").removesuffix("’s") in allowed:
        return True
    if settings.names and word[:1].isupper() and _WORD.search(text[:start]) is not None:
        return True
    british = {lint.problem_text for rule, lint in _lints(text, "BRITISH") if rule == SPELLING}
    return word not in british


def _other_language(text: str, found: list[GrammarFinding]) -> str | None:
    """The language of a text of which many words are unknown, where it is sure to be no English."""
    words = _WORD.findall(text)
    unknown = sum(one.rule == SPELLING for one in found)
    if len(words) < _FEWEST_WORDS or unknown < _UNKNOWN_SHARE * len(words):
        return None
    language, probability = guessed_language(text)
    return language if language != "en" and probability >= SURE else None


def _language_finding(text: str, start: int, end: int, what: str) -> GrammarFinding:
    return GrammarFinding(
        rule=LANGUAGE,
        category="Language",
        message=f"The caption must be in English; this is {what}.",
        start=start,
        end=end,
        text=text[start:end],
    )


def _without(pattern: re.Pattern[str], text: str) -> str:
    """`text` with `X` for all that a pattern finds, so that places stay the same."""
    return pattern.sub(lambda match: "X" * len(match.group()), text)


def _without_known(text: str, words: frozenset[str]) -> str:
    """`text` with `X` for known words of other scripts, that a caption of a translation has."""
    for word in words:
        if not word.isascii():
            text = text.replace(word, "X" * len(word))
    return text


def _replacements(lint: "Lint") -> Iterator[str]:
    from harper import SuggestionKind

    for one in lint.suggestions:
        if one.kind == SuggestionKind.INSERT_AFTER:
            yield lint.problem_text + one.replacement_text
        else:
            yield one.replacement_text


def _cased(suggestion: str, problem: str) -> str:
    """A suggestion for «A» is «An», not «AN»."""
    return suggestion.capitalize() if len(problem) == 1 and suggestion.isupper() else suggestion


def _lints(text: str, dialect: str) -> "list[tuple[str, Lint]]":
    from harper import Language

    with _AT_ONCE:
        found = _linter(dialect).organized_lints(text, language=Language.PLAINTEXT)
    return [(rule, lint) for rule, lints in found.items() for lint in lints]


@lru_cache(maxsize=2)
def _linter(dialect: str) -> Any:
    """Harper for a dialect of English, with our rules of agreement."""
    from harper import Dialect, Linter

    linter = Linter(Dialect[dialect])
    if failed := linter.load_weirpack(agreement.rule_pack()):
        raise AssertionError(f"rules of agreement fail their own tests: {failed}")
    return linter
