"""Checks the grammar and the spelling of English captions, offline, with Harper."""

import io
import json
import re
import tomllib
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.grammar import GrammarFinding, GrammarSettings

if TYPE_CHECKING:
    from harper import Lint


# The language of a caption is checked before its grammar.

_LETTERS = re.compile(r"[^\W\d_]+")

SURE = 0.8
"""How probable another language must be before a text is said to be in it."""


class ForeignText(NamedTuple):
    """A part of a text that is not English: its place, and its language or script in words."""

    start: int
    end: int
    language: str


def foreign_script(text: str) -> ForeignText | None:
    """The first word that has letters that are not Latin, if there is one.

    Single Greek letters are signs, as in «the angle α», and no text.
    """
    for match in _LETTERS.finditer(text):
        script = next((name for one in match.group() if (name := _script(one))), None)
        if script is not None and (len(match.group()) > 1 or script != "Greek"):
            return ForeignText(match.start(), match.end(), script)
    return None


def guessed_language(text: str) -> tuple[str, float]:
    """(ISO 639-1 code, probability in [0, 1]) of the language that a text most looks like."""
    guess, probability = _identifier().classify(text)
    return str(guess), float(probability)


def _script(character: str) -> str | None:
    """The script of a letter that is not Latin."""
    if not character.isalpha() or character.isascii():
        return None
    name = unicodedata.name(character, "LATIN").split()[0]
    return None if name in _LATIN else name if name == "CJK" else name.title()


_LATIN = frozenset(
    ("LATIN", "MICRO", "FEMININE", "MASCULINE", "DOUBLE-STRUCK", "MATHEMATICAL", "ANGSTROM")
)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


# Number agreement, as rules in Weir, Harper's own rule language.
#
# Harper has no rule for "a man are riding" or "two dog". These are made for captions: they know the
# subjects that captions begin with, and what captions say of them. A rule holds where its subject
# opens the sentence (see `opens_sentence`): Weir cannot look back, and in "two men in a boat are"
# the verb is right.

PREFIX = "Agreement"
"""What the names of these rules begin with."""

_SENTENCE_END = re.compile(r"[.!?;:]\s+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")
_LONGEST_SUBJECT = 5


def rule_pack() -> bytes:
    """All rules as a Weirpack; Harper runs the tests in them when it takes them in."""
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
    """(name, rule in Weir): a rule for each verb and each noun, in both numbers."""
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
    return tomllib.loads(files("flows").joinpath("grammar.toml").read_text(encoding="utf-8"))


def _subjects(determiner: str, noun: str) -> list[str]:
    """The beginnings of expressions: a subject, with an adjective or without."""
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
    """Whether what ends at `start` is the subject that opens its sentence, and nothing else.

    It is short, has one determiner at most, no preposition, conjunction or comma and no participle:
    what follows is then the verb of its last noun.
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


# The grammar of a caption: Harper's findings, less what is known to be wrong about captions.

STAGE = "check_grammar"
VERSION = "1"
SPELLING = "SpellCheck"
RULE = "RepeatedWord"
LANGUAGE = "Language"

_OF_WORDS = ("Spelling", "Typo")
_UNKNOWN_SHARE = 0.4
_FEWEST_WORDS = 3
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")
_CODE = re.compile(
    r"\b[\w.]+\([^()]*\)|\b\w+\.[a-z]{1,4}\b(?!\s+[A-Z])|\b\w+_\w+\b"
    r"|\b\w+(?:\s?(?:[+*/%<>=×÷]=?|==|(?<=\s)-(?=\s))\s?\w+)+(?=\W|$)"
)
_TWICE = re.compile(r"\b([^\W\d_]{3,})[ \t]+\1\b", re.IGNORECASE)
_RIGHT = frozenset(("had", "that"))
_CHECK_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_DEFAULTS = GrammarSettings()
_AT_ONCE = Lock()  # two threads must not share a linter; a caption takes a millisecond


def check_grammar(
    text: str, settings: GrammarSettings = _DEFAULTS, known_words: frozenset[str] = frozenset()
) -> tuple[GrammarFinding, ...]:
    """What is wrong with an English caption, in the order of the text.

    A text that is not English, or is so in part, has one finding, `Language`, and no other: rules
    of English would only find noise there.

    Args:
        text: a caption.
        settings: what is not reported.
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
    return frozenset(word for text in texts for word in _CHECK_WORD.findall(text))


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
            category="Agreement" if rule.startswith(PREFIX) else lint.lint_kind,
            message=lint.message.replace("“", "‘").replace("”", "’"),
            start=start,
            end=end,
            text=text[start:end],
            suggestions=tuple(_cased(one, text[start:end]) for one in _replacements(lint)),
        )


def _repetitions(
    text: str, plain: str, settings: GrammarSettings, found: list[GrammarFinding]
) -> list[GrammarFinding]:
    """Words that are repeated in a row, but for those that may be, which Harper has not found.

    It looks only for those of grammar («the the»).
    """
    if RULE in settings.ignored_rules:
        return []
    return [
        GrammarFinding(
            rule=RULE,
            category="Repetition",
            message=f"The word {match[1]!r} stands twice.",
            start=match.start(),
            end=match.end(),
            text=text[match.start() : match.end()],
            suggestions=(match[1],),
        )
        for match in _TWICE.finditer(plain)
        if match[1].casefold() not in _RIGHT
        and not any(one.start < match.end() and match.start() < one.end for one in found)
    ]


def _is_sure(rule: str, text: str, start: int) -> bool:
    """Whether a rule holds here: those of verbs that agree only where the subject is known."""
    of_verbs = f"{PREFIX}Singular", f"{PREFIX}Plural"
    return not rule.startswith(of_verbs) or opens_sentence(text, start)


def _is_right(
    text: str, start: int, end: int, settings: GrammarSettings, allowed: frozenset[str]
) -> bool:
    """Whether a word that the American dictionary lacks is right all the same."""
    word = text[start:end]
    if word.removesuffix("'s").removesuffix("’s") in allowed:
        return True
    if settings.names and word[:1].isupper() and _CHECK_WORD.search(text[:start]) is not None:
        return True
    british = {lint.problem_text for rule, lint in _lints(text, "BRITISH") if rule == SPELLING}
    return word not in british


def _other_language(text: str, found: list[GrammarFinding]) -> str | None:
    """The language of a text of which many words are unknown, where it is sure to be no English."""
    words = _CHECK_WORD.findall(text)
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
    if failed := linter.load_weirpack(rule_pack()):
        raise AssertionError(f"rules of agreement fail their own tests: {failed}")
    return linter
