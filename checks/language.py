"""The script and the language of a text."""

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

LETTERS = re.compile(r"[^\W\d_]+")

_BLOCKS = map(chr, range(0x300, 0x1B00))
MARKS = "".join(one for one in _BLOCKS if unicodedata.category(one) in ("Mn", "Mc"))
"""Accents and vowel signs, which belong to words but are no letters; for sets in patterns."""

SURE = 0.8
"""The least probability at which a text counts as another language."""

ENGLISH = "en"

_SCRIPTS = {
    "Arabic": "ar fa ur",
    "Armenian": "hy",
    "Bengali": "bn",
    "CJK": "ja zh",
    "Cyrillic": "be bg kk ky mk ru sr uk",
    "Devanagari": "hi mr ne",
    "Georgian": "ka",
    "Greek": "el",
    "Gujarati": "gu",
    "Hangul": "ko",
    "Hebrew": "he",
    "Hiragana": "ja",
    "Katakana": "ja",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
}
"""The languages (ISO 639-1) that are written in each script other than Latin."""

_CASELESS = frozenset(
    ("Arabic", "Bengali", "CJK", "Devanagari", "Gujarati", "Hangul", "Hebrew", "Hiragana")
) | frozenset(("Katakana", "Tamil", "Telugu", "Thai"))
_ALWAYS_LATIN = frozenset(
    ("LATIN", "MICRO", "FEMININE", "MASCULINE", "DOUBLE-STRUCK", "MATHEMATICAL", "ANGSTROM")
)
_LAST_LATIN = ((0x00C0, 0x024F), (0x1E00, 0x1EFF))
"""Ranges of the letters of languages in Latin script; the other blocks are phonetic or styled."""


class ForeignText(NamedTuple):
    """A part of a text that is not English: its position, and its language or script in words."""

    start: int
    end: int
    language: str


def scripts_of(language: str) -> frozenset[str]:
    """Return the scripts of a language (ISO 639-1) besides Latin, which all may use for names."""
    return frozenset(script for script, users in _SCRIPTS.items() if language in users.split())


def is_written_without_spaces(language: str) -> bool:
    """Whether a language puts no spaces between words."""
    return bool(scripts_of(language) & {"CJK", "Hiragana", "Katakana", "Thai"})


def has_capitals(language: str) -> bool:
    """Whether a language distinguishes capital letters."""
    return scripts_of(language) <= frozenset(_SCRIPTS) - _CASELESS


def is_letter_of(character: str, language: str) -> bool:
    """Whether a letter, or a mark that belongs to one, may occur in a text in `language`."""
    if character.isascii():
        return character.isalpha()
    code = ord(character)
    if any(first <= code <= last for first, last in _LAST_LATIN):
        return True
    name = unicodedata.name(character, "").split()
    if not name or unicodedata.normalize("NFKC", character) != character:
        return False
    scripts = {one.upper() for one in scripts_of(language)}
    if name[0] in scripts or (name[0] == "KATAKANA-HIRAGANA" and "KATAKANA" in scripts):
        return True
    return name[0] == "IDEOGRAPHIC" and "CJK" in scripts


def foreign_script(text: str) -> ForeignText | None:
    """Return the first word with letters that are not Latin, if any.

    Single Greek letters are symbols, as in «the angle α», and are ignored.
    """
    for match in LETTERS.finditer(text):
        script = next((name for one in match.group() if (name := _script(one))), None)
        if script is not None and (len(match.group()) > 1 or script != "Greek"):
            return ForeignText(match.start(), match.end(), script)
    return None


def writes(language: str, script: str) -> bool:
    """Whether a language is written in a script other than Latin; unknown scripts fit any."""
    return language in _SCRIPTS.get(script, language).split()


@lru_cache
def function_words(language: str) -> frozenset[str]:
    """Return the words of a language that tell nothing by themselves; empty if none are known."""
    if language == ENGLISH:
        text = files("loupe.checks").joinpath("english_function_words.txt").read_text("utf-8")
        return frozenset(text.split())
    from stop_words import StopWordError, get_stop_words

    try:
        return frozenset(get_stop_words(language))
    except StopWordError:
        return frozenset()


@lru_cache(maxsize=4096)
def guessed_language(text: str) -> tuple[str, float]:
    """Return (ISO 639-1 code, probability in [0, 1]) of the most likely language of a text."""
    guess, probability = _identifier().classify(text)
    return str(guess), float(probability)


def _script(character: str) -> str | None:
    """Return the script of a letter that is not Latin."""
    if not character.isalpha() or character.isascii():
        return None
    name = unicodedata.name(character, "LATIN").split()[0]
    return None if name in _ALWAYS_LATIN else name if name == "CJK" else name.title()


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
