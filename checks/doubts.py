"""What makes a rewrite doubtful whatever its subject: talk, alternatives, gaps, loops, cuts.

Each rule compares a rewrite with its source: what the source does, the rewrite may do as well. The
words and phrases of the rules are those of `phrases.toml`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from loupe.checks.cuts import cut_end
from loupe.checks.language import (
    ENGLISH,
    MARKS,
    function_words,
    has_capitals,
    is_written_without_spaces,
)
from loupe.checks.phrases import begins_with, ends_with, find_phrase
from loupe.checks.support import content_words
from loupe.checks.text import clauses_of, one_line, sentences_of, shown, shown_around, words_of
from loupe.schemas.phrases import QUOTED


class _Pair(NamedTuple):
    """A rewrite and its source, without what they quote."""

    source: str
    text: str
    language: str
    whole_source: str
    whole_text: str

    @property
    def has_spaces(self) -> bool:
        return not is_written_without_spaces(self.language)


def doubtful_forms(source: str, text: str, language: str = ENGLISH) -> Iterator[str]:
    """Yield what a rewrite does that its source does not and no description does.

    Args:
        source: the text that is right.
        text: its rewrite.
        language: of both (ISO 639-1).
    """
    whole_source, whole = one_line(source), one_line(text)
    pair = _Pair(_unquoted(whole_source), _unquoted(whole), language, whole_source, whole)
    for rule in _RULES:
        if (found := rule(pair)) is not None:
            yield f"The rewrite {found}."


def _unquoted(text: str) -> str:
    return " ".join(QUOTED.sub(" ", text).replace("’", "'").split())


# Phrases

_SAID_OF = {
    "talk": "speaks of the text or the task",
    "hedges": "leaves open what is so",
    "placeholders": "has a gap where a word belongs",
}


def _has_phrase(pair: _Pair) -> str | None:
    """Return what a phrase says that belongs to no description."""
    for kind, said in _SAID_OF.items():
        if kind == "hedges" and _ROUGHLY.search(pair.source) is not None:
            continue
        if (found := find_phrase(kind, pair.language, pair.text, pair.source)) is not None:
            return f"{said}: {shown(found)}"
    return None


_ROUGHLY = re.compile(
    r"\b(?:about|around|roughly|approximately|approx|circa|some \w+ty|probably|seem(?:s|ingly)"
    r"|likely|apparently|looks?|looking|as if|as though|appear(?:s|ing)?|suggest(?:s|ing)?"
    r"|perhaps|maybe|possibly|may|might|could)\b|\w+ish\b",
    re.IGNORECASE,
)
"""How an English source itself leaves open what is so."""
_AROUND = " .!?。！？।؟,，:;–—-"
_SET_OFF = re.compile(r"\s*(?:[,，、،.。!！:：;؛–—]|$)")


def _has_edge(pair: _Pair) -> str | None:
    """Return the word of an answer or of a dialogue by which a text begins or ends."""
    found = (
        begins_with("openers", pair.language, pair.text)
        or _set_off(pair.text, pair.language)
        or _set_off(_last_part(pair.text), pair.language)
        or begins_with("roles", pair.language, pair.text)
        or ends_with("roles", pair.language, pair.text.rstrip(_AROUND))
    )
    if found is None or found.casefold() in pair.source.casefold():
        return None
    return f"begins or ends as an answer does: {shown(found)}"


_INSIDE = re.compile(r"(?<=[a-z] )[A-Z][a-z]+\b")


def _begins_again(pair: _Pair) -> str | None:
    """Return a function word that begins a sentence inside of one («Great The woman …»)."""
    if not has_capitals(pair.language) or pair.language == "de":  # «Sie», «Ihr»
        return None
    known = {match.group() for match in _INSIDE.finditer(pair.source)}
    for match in _INSIDE.finditer(pair.text):
        is_small = match.group().casefold() in function_words(pair.language)
        if is_small and match.group() not in known:
            around = shown_around(pair.text, *match.span())
            return f"begins again inside a sentence: {around}"
    return None


def _set_off(text: str, language: str) -> str | None:
    found = begins_with("edges", language, text)
    is_set_off = found is not None and _SET_OFF.match(text, len(found)) is not None
    return found if is_set_off else None


def _last_part(text: str) -> str:
    return re.split(r"[.。!！]\s*", text.rstrip(_AROUND))[-1]


def _asks(pair: _Pair) -> str | None:
    """Return the sentence that asks for something instead of stating it."""
    if any(_is_command(one, pair.language) for one in sentences_of(pair.source)):
        return None
    sentences = sentences_of(pair.text)
    for sentence in sentences[:1] if pair.language in _WITHOUT_PRONOUNS else sentences:
        if _is_command(sentence, pair.language) or _is_like_command(sentence, pair):
            return f"asks for something instead of stating it: {shown(sentence)}"
        if ends_with("questions", pair.language, sentence.rstrip(_AROUND)) is not None:
            return f"asks instead of stating: {shown(sentence)}"
    return None


def _is_command(sentence: str, language: str) -> bool:
    return begins_with("commands", language, sentence) is not None


_WITHOUT_PRONOUNS = ("es", "it")
"""Languages in which a later sentence may state something by its verb («Mira a la cámara.»)."""
_VERB_AND_OBJECT = re.compile(r"([A-Za-z]+) (?:the|a|an|this|that|his|her|their|its)\b")
_NO_VERB = re.compile(
    r"(?:.*(?:ing|ed|ly|en|wn|ld)|meet|round|throughout|underneath|atop|opposite|aboard|alongside|past|astride|amid|midway|half|clad"
    r"|both|today|save|plus|minus|notwithstanding|next|close|barring|set|worn|once|wherever)$"
)


def _is_like_command(sentence: str, pair: _Pair) -> bool:
    """Whether an English sentence begins with a verb in its basic form, and its object."""
    if pair.language != ENGLISH or (match := _VERB_AND_OBJECT.match(sentence)) is None:
        return False
    word = match[1].casefold()
    is_other = word in function_words(ENGLISH) or _NO_VERB.match(word) is not None
    return not is_other and not content_words(word) & content_words(pair.source)


# Repetition

_PART = rf"[\w{MARKS}]+"
_TWICE = re.compile(
    rf"(?<!\w)(?:({_PART}(?:[ -]{_PART}){{1,7}}?)(?:,? (?:\w{{1,3}} )?)\1|({_PART}) \2)"
    rf"(?![\w{MARKS}-])",
    re.IGNORECASE,
)
_TWICE_UNSPACED = re.compile(r"([^\W\d_]{3,20}?)[和与、，及とや]?\1|([^\W\d_]{2})\2\2")
_WORD_TWICE = re.compile(r"\b(?!had|that|very|so|no|now|far)(\w+) \1\b", re.IGNORECASE)
_TELLING = 2  # content words


def _repeats(pair: _Pair) -> str | None:
    """Return what is said twice in a row, or a clause that is there twice."""
    pattern = _TWICE if pair.has_spaces else _TWICE_UNSPACED
    for match in pattern.finditer(pair.text):
        words = content_words(match.group(), pair.language)
        if words and match.group().casefold() not in pair.source.casefold():
            return f"says the same twice in a row: {shown(match.group())}"
    if pair.language == ENGLISH:
        for match in _WORD_TWICE.finditer(pair.text):
            if match.group().casefold() not in pair.source.casefold():
                return f"says the same twice in a row: {shown(match.group())}"
    said, theirs = _counted_clauses(pair.text), _counted_clauses(pair.source)
    for clause, times in said.items():
        is_told = len(content_words(clause, pair.language)) >= _TELLING
        if times > 1 and is_told and theirs[clause] < times:
            return f"says the same again: {shown(clause)}"
    return None


def _counted_clauses(text: str) -> Counter[str]:
    found = Counter[str]()
    for sentence in sentences_of(text):
        for clause in clauses_of(sentence):
            found[" ".join(words_of(clause.casefold()))] += 1
    return found


def _says_nothing(pair: _Pair) -> str | None:
    """Return a sentence without a word that tells something («That is all.»)."""
    if not pair.has_spaces or not function_words(pair.language):
        return None
    for sentence in sentences_of(pair.text):
        if words_of(sentence) and not content_words(sentence, pair.language):
            return f"says nothing about an image: {shown(sentence)}"
    return None


# Two values, two scripts

_SLASH = re.compile(r"\b[^\W\d_]{2,}\s?/\s?[^\W\d_]{2,}")


def _mixes(pair: _Pair) -> str | None:
    """Return two values for one, or characters of another script."""
    match = _SLASH.search(pair.text)
    if match is not None and not {*words_of(match.group())} <= {*words_of(pair.source)}:
        return f"has two words for one thing: {shown(match.group())}"
    if (other := _other_characters(pair)) and not frozenset(other) <= frozenset(pair.source):
        return f"has characters of another script: {other}"
    return None


def _other_characters(pair: _Pair) -> str:
    """Return traditional characters beside a simplified source, or what Japanese does not use."""
    if pair.language == "ja":
        letters = filter(str.isalpha, pair.text)
        return "".join(sorted(one for one in letters if not _fits(one, "euc_jp")))
    if pair.language != "zh":
        return ""
    for encoding, other in (("gb2312", "big5"), ("big5", "gb2312")):
        only_here = _only_in(pair.source, encoding, other)
        strange = _only_in(pair.text, other, encoding) - frozenset(pair.source)
        if only_here and strange and not _only_in(pair.source, other, encoding):
            return "".join(sorted(strange))
    return ""


def _only_in(text: str, encoding: str, other: str) -> frozenset[str]:
    return frozenset(
        one for one in text if one.isalpha() and _fits(one, encoding) and not _fits(one, other)
    )


@lru_cache(maxsize=65536)
def _fits(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


# Quotations and asides

_OR_ASIDE = re.compile(r"[(（]\s*(?:or|oder|ou|o|of|или|或|または|หรือ)\b", re.IGNORECASE)


def _quotes_what_is_not_there(pair: _Pair) -> str | None:
    """Return a quotation without a word of the source."""
    known = content_words(pair.whole_source, pair.language)
    for match in QUOTED.finditer(pair.whole_text):
        words = content_words(match.group()[1:-1], pair.language)
        if match.group()[1:-1] in pair.whole_source and match.group()[1:-1]:
            continue
        if not words & known:
            return f"quotes what the source does not: {shown(match.group())}"
    return None


def _is_cut(pair: _Pair) -> str | None:
    found = cut_end(pair.source, pair.text, pair.language)
    return f"seems to break off: {shown(found)}" if found is not None else None


def _has_aside(pair: _Pair) -> str | None:
    """Return a bracket with another word for the same."""
    match = _OR_ASIDE.search(pair.text)
    if match is None or _OR_ASIDE.search(pair.source) is not None:
        return None
    return f"has two words for one thing: {shown(pair.text[match.start() :])}"


_RULES: tuple[Callable[[_Pair], str | None], ...] = (
    _has_phrase,
    _has_edge,
    _begins_again,
    _asks,
    _repeats,
    _says_nothing,
    _mixes,
    _has_aside,
    _quotes_what_is_not_there,
    _is_cut,
)
