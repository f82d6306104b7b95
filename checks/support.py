"""Whether a rewrite is supported by its source: whether each part shares words with it.

A part that shares no word with its source is not shown to be true, whatever it says. It need not be
wrong, as it may be in other words, so a person decides. Nothing here depends on the subject of the
texts: words that tell something are all but the function words of the language.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import NamedTuple

from loupe.checks.grammar import unknown_words
from loupe.checks.language import (
    ENGLISH,
    function_words,
    is_written_without_spaces,
    scripts_of,
)
from loupe.checks.phrases import words_of_kind
from loupe.checks.text import clauses_of, sentences_of, words_of
from loupe.schemas.phrases import QUOTED

_COMMON_BEGINNING = 5  # letters of words that are forms of one another
_PART_OF_WORD = 4  # letters of a word in a compound


class Part(NamedTuple):
    """A sentence or clause of a text, from `start` to `end` (exclusive), in characters."""

    start: int
    end: int
    text: str
    words: int
    """The number of its content words."""
    known: int
    """The number of those that the source has as well."""
    is_sentence: bool = False
    is_remark: bool = False
    """Whether it is set off as what is no part of a description is: a label, a row of tags."""
    opens: bool = False
    """Whether it is a few words before the first comma of a sentence."""


_TELLING = 2  # content words from which a clause has to be supported by itself
_DASH = re.compile(r"\s[-–—]")
_LONGEST_OPENER = 3  # words («Sure thing, a man …»)
_TELLS_OF_ONE = 3  # content words from which a single shared one does not support a sentence
_FEWEST_TO_SHARE = 4  # content words from which one that is shared does not support a sentence
_LEAST_SHARE = 1 / 3
_FEWEST_IN_LIST = 5  # clauses
_MOST_BARE = 0.8
_WITH_ARTICLES = (ENGLISH, "de", "es", "fr", "it", "nl", "pt")
_MOST_WITHOUT = 7  # words of a clause without any article or preposition
_FEWEST_REPEATED = 5  # content words


def unsupported_parts(source: str, text: str, language: str = ENGLISH) -> list[Part]:
    """Return the sentences and clauses of `text` that share no content word with `source`.

    A sentence of three or more must share two of them, a longer one a third. A clause with a single
    content word is looked at with its sentence, unless it opens the sentence («Sure, a man …») or
    follows another clause without support («…, highly detailed, photorealistic»). What only says
    that something is seen, or in a picture, frames what is said and needs no support.

    Args:
        source: the text that is right.
        text: its rewrite, in one line.
        language: of both (ISO 639-1).
    """
    known = content_words(source, language)
    found, at = [], 0
    for sentence in sentences_of(text):
        at = text.index(sentence, at)
        words, shared = _support_of(sentence, known, language)
        if words and (not shared or _is_weak(words, shared)):
            end = at + len(sentence)
            found.append(Part(at, end, sentence, words, shared, is_sentence=True))
        else:
            found += _unsupported_clauses(sentence, at, known, language)
    return found


def _is_weak(words: int, shared: int) -> bool:
    """Whether a sentence names a thing of the source, and says of it what the source does not."""
    if words >= _FEWEST_TO_SHARE and shared < _LEAST_SHARE * words:
        return True
    return words >= _TELLS_OF_ONE and shared == 1


def _unsupported_clauses(
    sentence: str, at: int, known: AbstractSet[str], language: str
) -> Iterator[Part]:
    """Yield the clauses without support of a sentence that begins at `at`; neighbours as one."""
    run: list[Part] = []
    place = at
    for number, clause in enumerate(clauses_of(sentence)):
        place = at + sentence.index(clause, place - at)
        end = place + len(clause)
        words, shared = _support_of(clause, known, language)
        if words and not shared:
            rest = sentence[end - at :]
            opens = number == 0 and bool(rest) and _is_opener(clause, language, at)
            is_label = opens and _DASH.match(rest) is not None
            run.append(Part(place, end, clause, words, 0, is_remark=is_label, opens=opens))
        else:
            yield from _joined(run)
            run = []
        place = end
    yield from _joined(run)


def _is_opener(clause: str, language: str, at: int) -> bool:
    if is_written_without_spaces(language):
        return False
    if at > 0 and _has_function_word(clause, language):
        return False
    return len(words_of(clause)) <= _LONGEST_OPENER


def _joined(run: Sequence[Part]) -> Iterator[Part]:
    """Yield neighbouring clauses without support as one part, if they tell enough."""
    if not run:
        return
    words = sum(part.words for part in run)
    is_remark = len(run) > 1 or run[0].is_remark
    if words >= _TELLING or is_remark or run[0].opens:
        text = ", ".join(part.text for part in run)
        yield Part(run[0].start, run[-1].end, text, words, 0, is_remark=is_remark)


def _support_of(part: str, known: AbstractSet[str], language: str) -> tuple[int, int]:
    """Return the number of content words of a part, and of those that are known."""
    words = content_words(part, language) - _framing_words(language)
    shared = _shared(words, known)
    if is_written_without_spaces(language):
        return len(words), len(shared)
    told = [content_words(word, language) for word in set(words_of(part))]
    return sum(bool(one & words) for one in told), sum(bool(one & shared) for one in told)


def is_list_of_words(text: str, language: str = ENGLISH) -> bool:
    """Whether a sentence of a text strings words together («man, grey suit, black umbrella»)."""
    if is_written_without_spaces(language) or not function_words(language):
        return False
    for sentence in sentences_of(text):
        clauses = clauses_of(sentence)
        bare = [one for one in clauses if not _has_function_word(one, language)]
        if language in _WITH_ARTICLES and any(len(words_of(one)) >= _MOST_WITHOUT for one in bare):
            return True
        is_long = len(clauses) >= _FEWEST_IN_LIST and len(bare) >= _MOST_BARE * len(clauses)
        if is_long and bare[0] == clauses[0] and ":" not in sentence:
            return True
    return False


def _has_function_word(clause: str, language: str) -> bool:
    return any(word in function_words(language) for word in words_of(clause.casefold()))


def repeated_sentence(text: str, language: str = ENGLISH) -> str | None:
    """Return a longer sentence that says nothing but what the other sentences say together."""
    sentences = sentences_of(text)
    said = [content_words(sentence, language) for sentence in sentences]
    for number, (sentence, words) in enumerate(zip(sentences, said, strict=True)):
        others = frozenset().union(*said[:number], *said[number + 1 :])
        if len(words) >= _FEWEST_REPEATED and words <= others:
            return sentence
    return None


def length_share(source: str, text: str, language: str = ENGLISH) -> float:
    """Return the number of content words of `text` per content word of `source`."""
    wanted = len(content_words(source, language))
    return len(content_words(text, language)) / wanted if wanted else 1.0


@lru_cache(maxsize=1024)
def content_words(text: str, language: str = ENGLISH) -> frozenset[str]:
    """Return the stems of the words of a text that tell something: all but function words.

    In scripts that put no spaces between words these are characters, and in alphabets runs of
    three, because a text has nearly all letters of an alphabet.
    """
    if is_written_without_spaces(language):
        letters = _NO_SIGNS_OF_WORDS.sub("", text.casefold())
        signs = frozenset(one for one in letters if one.isalnum()) - function_words(language)
        return signs.union(*map(_pieces, _ALPHABETIC.findall(text)))
    told = set[str]()
    for word in words_of(text.casefold()):
        for part in word.replace("’", "'").split("-"):
            if part not in function_words(language):
                told.add(_stem(part.removesuffix("'s"), language))
    return frozenset(told)


_ALPHABETIC = re.compile(r"[\u0e01-\u0e4e]+|[\u30a1-\u30ff]+")
"""Runs of Thai letters with their marks, and of katakana."""
_NO_SIGNS_OF_WORDS = re.compile(r"[\u0e01-\u0e4e\u3041-\u30ff]+")
"""Letters of alphabets; those of hiragana are mostly of function words and endings."""
_PIECE = 3  # characters


def _pieces(run: str) -> frozenset[str]:
    return frozenset(run[at : at + _PIECE] for at in range(max(1, len(run) - _PIECE + 1)))


def _shared(words: AbstractSet[str], known: AbstractSet[str]) -> set[str]:
    return {word for word in words if word in known or _is_form_of(word, known)}


def _is_form_of(word: str, known: Iterable[str]) -> bool:
    """Whether a word begins like one of `known`, or one is part of the other."""
    return any(
        word[:_COMMON_BEGINNING] == other[:_COMMON_BEGINNING]
        or (min(len(word), len(other)) >= _PART_OF_WORD and (word in other or other in word))
        for other in known
    )


_OTHERS = ("de", "fr", "es", "it", "pt", "nl")
_LATIN = re.compile(r"(?<![A-Za-z])[a-z]{3,}(?![A-Za-z])")
_FEWEST_LETTERS = 3  # shorter function words are words of several languages


def foreign_words(source: str, text: str, language: str = ENGLISH) -> list[str]:
    """Return the words of other languages in a rewrite that its source does not have.

    In a language with a script of its own these are words in small Latin letters. In others they
    are function words and common words of descriptions: of other languages in English («und»,
    «schwarze»), and English ones in others.
    """
    plain = QUOTED.sub(" ", text)
    known = {word.casefold() for word in words_of(source)}
    words = {word for word in words_of(plain) if word.casefold() not in known}
    small = {word for word in words if word.islower()}
    if language == ENGLISH:
        unknown = unknown_words(plain, frozenset(words_of(source))) & words
        common = {word for word in unknown if word.casefold() in _common_words_of_others()}
        accented = {word for word in unknown if not word.isascii()}
        functions = frozenset().union(*map(function_words, _OTHERS)) & unknown & small
        return sorted(functions | common | accented | (words & _NO_ENGLISH))
    if scripts_of(language):
        return sorted(word for word in _LATIN.findall(plain) if word not in source)
    if not (own := function_words(language)):
        return []
    longer = {word for word in function_words(ENGLISH) if len(word) >= _FEWEST_LETTERS}
    return sorted(small & (longer | words_of_kind("visual", ENGLISH)) - own)


_NO_ENGLISH = frozenset(
    ("rot", "rote", "Kind", "Hund", "Frau", "femme", "homme", "blanc", "rouge", "vert", "grande")
)
"""Words of other languages that English dictionaries have, which descriptions do not use."""
_ENDINGS = ("", "e", "n", "r", "s")


@cache
def _common_words_of_others() -> frozenset[str]:
    """Return the words that descriptions in other languages share, in their usual forms."""
    words = frozenset[str]().union(*(words_of_kind("visual", one) for one in _OTHERS))
    return frozenset(word.casefold() + ending for word in words for ending in _ENDINGS)


@lru_cache
def _framing_words(language: str) -> frozenset[str]:
    return frozenset(_stem(word, language) for word in _FRAMING.get(language, "").split())


_FRAMING = {
    "en": "photo photograph picture image frame scene shot view camera see seen show shown visible "
    "depict depicted appear captured person individual figure",
    "de": "foto bild aufnahme szene kamera sieht gesehen zeigt gezeigt sichtbar abgebildet person",
}
"""How a caption speaks of its picture and of who is in it, whatever that shows."""


@lru_cache(maxsize=65536)
def _stem(word: str, language: str) -> str:
    """Return what the forms of a word have in common; a stemmer must not be shared by threads."""
    import snowballstemmer

    name = _SNOWBALL.get(language)
    return str(snowballstemmer.stemmer(name).stemWord(word)) if name else word


def has_stems(language: str) -> bool:
    """Whether the forms of a word are known in a language."""
    return language in _SNOWBALL


_SNOWBALL = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
