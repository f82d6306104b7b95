"""Checks the grammar and the spelling of English captions, offline, with Harper."""

import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
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


# Words that are repeated in a row. Harper looks only for those of grammar («the the»).

RULE = "RepeatedWord"

_TWICE = re.compile(r"\b([^\W\d_]{3,})[ \t]+\1\b", re.IGNORECASE)
_RIGHT = frozenset(("had", "that"))


class Repetition(NamedTuple):
    """The place of a word and its repetition, and the word."""

    start: int
    end: int
    word: str


def repetitions(text: str) -> Iterator[Repetition]:
    """The repeated words of a text, but for those that may be repeated."""
    for match in _TWICE.finditer(text):
        if match.group(1).casefold() not in _RIGHT:
            yield Repetition(match.start(), match.end(), match.group(1))


# Number agreement, as rules in Weir, Harper's own rule language.
#
# Harper has no rule for "a man are riding" or "two dog". These are made for captions: they know the
# subjects that captions begin with, and what captions say of them. A rule holds where its subject
# opens the sentence (see `opens_sentence`): Weir cannot look back, and in "two men in a boat are"
# the verb is right.

PREFIX = "Agreement"
"""What the names of these rules begin with."""

_NOUNS = (
    "man men,woman women,child children,person people,tooth teeth,mouse mice,goose geese,"
    "knife knives,shelf shelves,baby babies,lady ladies,box boxes,bus buses,bench benches,"
    "sandwich sandwiches"
)
_REGULAR = (
    "airplane animal apple bag ball banana bear bed bicycle bike bird boat book bottle bowl boy "
    "building cake candle car carrot cat chair circle clock cow cup dog donut door elephant figure "
    "flag flower fork giraffe girl hat horse house image kid kite lamp laptop letter motorcycle "
    "orange phone picture pizza plane plant plate player program shirt shoe sign skateboarder "
    "skier slice soldier sofa spoon square suitcase surfboard surfer table toy train tree triangle "
    "truck umbrella vase wall window word worker zebra"
)
_VERBS = (
    "are is,were was,have has,sit sits,wear wears,hold holds,lie lies,eat eats,say says,"
    "sleep sleeps,carry carries,graze grazes,contain contains,appear appears,kneel kneels"
)
"""Verbs that are no nouns: "a fruit stand with apples" and "two bus rides" are right."""
_ALSO_NOUNS = (
    "stand stands,ride rides,walk walks,run runs,jump jumps,look looks,play plays,fly flies,"
    "show shows,drive drives,pass passes,cut cuts,drink drinks,swim swims,watch watches,wait waits"
)
"""Verbs that are nouns, too, but not after a plural: nouns that go before nouns are singular."""
_SINGULAR = "[a, an, one, each, every, another, this]"
_PLURAL = (
    "[two, three, four, five, six, seven, eight, nine, ten, many, several, these, those, both]"
)
_OF_MANY = (
    "couple,pair,group,number,few,lot,variety,bunch,crowd,set,dozen,majority,range,team,family,"
    "hundred,thousand,million,series,herd,flock,crew,band,handful,row,line,stack,pile,collection"
)
_AMOUNTS = "thirds,quarters,dollars,euros,yuan,minutes,hours,years,miles,metres,meters,percent"

_PRONOUNS = "they,we,you,i,these,those,many,other,others,two,three,time,is,was,has"
_AUXILIARIES = ("are", "were", "have")
"""Before these, a single word after "a" is a noun, whatever Harper takes it for."""
_SOMEBODY = "[someone, somebody, everyone, everybody, nobody]"

_PAIRS = [
    *(tuple(pair.split()) for pair in _NOUNS.split(",")),
    *((noun, f"{noun}s") for noun in _REGULAR.split()),
]
_SENTENCE_END = re.compile(r"[.!?;:]\s+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")
_LINKS = (
    "about above across after against along among and around as at before behind below beneath "
    "beside between but by down during for from in inside into like near next nor of off on onto "
    "or out outside over past that through to toward towards under up upon where which while who "
    "whose with within without"
)
_OPENERS = "a an the one each every another this these those"
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
    ones = ", ".join(one for one, _ in _PAIRS)
    manies = ", ".join(many for _, many in _PAIRS)
    single = f"<NOUN, ![{_OF_MANY.replace(',', ', ')}]>"
    counted = f"<NOUN, ![{_AMOUNTS.replace(',', ', ')}]>"
    any_word = f"![{_OF_MANY}, {_PRONOUNS}]".replace(",", ", ").replace("  ", " ")
    of_one = [*_subjects(_SINGULAR, single), *_subjects("the", f"[{ones}]"), f"({_SOMEBODY} "]
    of_many = _subjects(f"[the, {_PLURAL[1:-1]}]", f"[{manies}]")
    for plural, singular in map(str.split, _VERBS.split(",")):
        test = f'test "A man {plural} here." "A man {singular} here."'
        subjects = [*of_one, f"({_SINGULAR} {any_word} "] if plural in _AUXILIARIES else of_one
        yield f"Singular{plural.title()}", _rule(subjects, plural, singular, test)
        test = f'test "Two men {singular} here." "Two men {plural} here."'
        subjects = [*_subjects(_PLURAL, counted), *of_many]
        yield f"Plural{singular.title()}", _rule(subjects, singular, plural, test)
    for plural, singular in map(str.split, _ALSO_NOUNS.split(",")):
        test = f'test "Two men {singular} here." "Two men {plural} here."'
        yield f"Plural{singular.title()}", _rule(of_many, singular, plural, test)
    for one, many in _PAIRS:
        after = "[( [VERB, AUX, ADP, CCONJ]), (.), (,)]"
        yield (
            f"Counted{one.title()}",
            f"expr main <({_PLURAL} {one}{after}), {one}>\n" + _facts(many),
        )
        yield (
            f"One{many.title()}",
            f"expr main <([a, an, one, each] {many}), {many}>\n" + _facts(one),
        )
    yield ("ThereIs", f"expr main <(there is {_PLURAL}), is>\n" + _facts("are"))
    there = f"expr main <(there are [a, an, one] {single}), are>\n"
    yield ("ThereAre", there + _facts("is"))


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
    if any(word in _links() or word.endswith("ing") for word in words):
        return False
    return not set(words[1:]).intersection(_OPENERS.split())


@cache
def _links() -> frozenset[str]:
    return frozenset(_LINKS.split())


# The grammar of a caption: Harper's findings, less what is known to be wrong about captions.

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
    """Repeated words that Harper has not found."""
    if RULE in settings.ignored_rules:
        return []
    return [
        GrammarFinding(
            rule=RULE,
            category="Repetition",
            message=f"The word {one.word!r} stands twice.",
            start=one.start,
            end=one.end,
            text=text[one.start : one.end],
            suggestions=(one.word,),
        )
        for one in repetitions(plain)
        if not any(other.start < one.end and one.start < other.end for other in found)
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
