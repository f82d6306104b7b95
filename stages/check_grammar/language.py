"""Whether a caption is English, or mixes languages, before anybody asks about its grammar."""

import re
import unicodedata
from functools import lru_cache
from typing import Any, NamedTuple

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
