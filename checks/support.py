"""Whether a rewrite is supported by its source: whether each part shares words with it.

A part that shares no word with its source is not shown to be true, whatever it says. It need not be
wrong, as it may be in other words, so a person decides. Nothing here depends on the subject of the
texts: words that tell something are all but the function words of the language.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from loupe.checks.form import clauses_of, sentences_of, words_of
from loupe.checks.language import ENGLISH, is_written_without_spaces

_COMMON_BEGINNING = 5  # letters of words that are forms of one another
_PART_OF_WORD = 4  # letters of a word in a compound


class Part(NamedTuple):
    """A sentence or clause of a text, from `start` to `end` (exclusive), in characters."""

    start: int
    end: int
    text: str
    words: int
    """The number of its content words."""
    is_sentence: bool


_TELLING = 2  # content words from which a clause has to be supported by itself


def unsupported_parts(source: str, text: str, language: str = ENGLISH) -> list[Part]:
    """Return the sentences and clauses of `text` that share no content word with `source`.

    A clause with a single content word is looked at with its sentence. What only says that
    something is seen, or in a picture, frames what is said and needs no support.

    Args:
        source: the text that is right.
        text: its rewrite, in one line.
        language: of both (ISO 639-1).
    """
    known = content_words(source, language)
    found, at = [], 0
    for sentence in sentences_of(text):
        at = text.index(sentence, at)
        if words := _unsupported_words(sentence, known, language):
            found.append(Part(at, at + len(sentence), sentence, words, is_sentence=True))
            continue
        place = at
        for clause in clauses_of(sentence):
            place = text.index(clause, place)
            words = _unsupported_words(clause, known, language)
            if words >= _TELLING:
                end = place + len(clause)
                found.append(Part(place, end, clause, words, is_sentence=False))
    return found


def _unsupported_words(part: str, known: AbstractSet[str], language: str) -> int:
    """Return the number of content words of a part; 0 if one of them is known."""
    words = content_words(part, language) - _framing_words(language)
    if not words or _shared(words, known):
        return 0
    if is_written_without_spaces(language):
        return len(words)
    telling = {word for word in words_of(part) if content_words(word, language) & words}
    return len(telling)


def length_share(source: str, text: str, language: str = ENGLISH) -> float:
    """Return the number of content words of `text` per content word of `source`."""
    wanted = len(content_words(source, language))
    return len(content_words(text, language)) / wanted if wanted else 1.0


@lru_cache(maxsize=1024)
def content_words(text: str, language: str = ENGLISH) -> frozenset[str]:
    """Return the stems of the words of a text that tell something: all but function words.

    In scripts that put no spaces between words these are characters.
    """
    function_words = _function_words(language)
    if is_written_without_spaces(language):
        return frozenset(one for one in text.casefold() if one.isalnum()) - function_words
    parts = (
        part for word in words_of(text.casefold()) for part in word.replace("’", "'").split("-")
    )
    telling = (part.removesuffix("'s") for part in parts if part not in function_words)
    return frozenset(_stem(part, language) for part in telling)


def _shared(words: AbstractSet[str], known: AbstractSet[str]) -> set[str]:
    return {word for word in words if word in known or _is_form_of(word, known)}


def _is_form_of(word: str, known: Iterable[str]) -> bool:
    """Whether a word begins like one of `known`, or one is part of the other."""
    return any(
        word[:_COMMON_BEGINNING] == other[:_COMMON_BEGINNING]
        or (min(len(word), len(other)) >= _PART_OF_WORD and (word in other or other in word))
        for other in known
    )


@lru_cache
def _function_words(language: str) -> frozenset[str]:
    if language == ENGLISH:
        text = files("loupe.checks").joinpath("english_function_words.txt").read_text("utf-8")
        return frozenset(text.split())
    from stop_words import StopWordError, get_stop_words

    try:
        return frozenset(get_stop_words(language))
    except StopWordError:
        return frozenset()


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
