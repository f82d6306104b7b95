"""Whether a caption of a source is a description: people write less tidily than models must."""

import re
from functools import cache
from importlib.resources import files

from loupe.checks.defects import outside_quotes, refusal_in
from loupe.checks.form import form_defect
from loupe.checks.language import ENGLISH, is_written_without_spaces
from loupe.checks.support import content_words
from loupe.checks.text import Defect, Form, shown, words_of

_FOREIGN_TO_DESCRIPTIONS = (
    "addresses_reader",
    "control_characters",
    "gibberish",
    "markup",
    "mojibake",
    "no_words",
    "question",
    "repetition",
    "truncated_answer",
    "wrong_language",
)
_FEWEST_WORDS = 2
_FEWEST_LETTERS = 4
_WIDE = str.maketrans("，。；：！？（）、", ",.;:!?(),")
_MENDED = (
    (re.compile(r"[\"“”„«»]"), ""),
    (re.compile(r"\s+(?=[,.;:!?])"), ""),
    (re.compile(r"[,.;:!?…]*([,.;:!?…])"), r"\1"),
    (re.compile(r"…"), "."),
    (re.compile(r"(?<=[^\W\d_])([,;:!?])(?=[^\W\d_])"), r"\1 "),
    (re.compile(r"(?<=[^\W\d_])\.(?=[A-Z])|(?<=[^\W\d_]{3})\.(?=[a-z]+ )"), ". "),
    (re.compile(r"(?<=\w)\((?=\w+ \w)"), " ("),
    (re.compile(r"(?<=\w)\s*[-–—]{2,}\s*(?=\w)"), " - "),
    (re.compile(r"(?<=\w)-\s+(?=\w)"), "-"),
    (re.compile(r"\b(?:i|you) (?:can )?see\b", re.IGNORECASE), "there is"),
    (re.compile(r"[\s,;:(–—-]+$"), ""),
)
"""Slips of people, with what they stand for."""


_OPEN_TASK = re.compile(r"\b(?:TODO|FIXME|TBD|XXX)\b")


def source_defect(text: str, language: str = ENGLISH) -> Defect | None:
    """Return why a caption of a source is no description: a program, a placeholder, a language."""
    if (refusal := refusal_in(text)) is not None:
        return Defect("refusal", f"is a refusal: {shown(refusal)}")
    if (task := _OPEN_TASK.search(outside_quotes(text))) is not None:
        return Defect("placeholder", f"holds an open task: {shown(text[task.start() :])}")
    plain = _mended(text)
    defect = form_defect(plain, Form(language, sentences=False))
    if defect and defect.reason in _FOREIGN_TO_DESCRIPTIONS:
        return defect
    words = words_of(text)
    is_one_word = len(words) < _FEWEST_WORDS and not is_written_without_spaces(language)
    if is_one_word or len("".join(words)) < _FEWEST_LETTERS:
        return Defect("too_short", f"is no description: {text!r:.60}")
    told = content_words(plain, language) - _about_captions()
    if all(word.isdigit() for word in told):
        return Defect("placeholder", f"says nothing about an image: {shown(text)}")
    return None


def _mended(text: str) -> str:
    """Return a text without the slips of people: missing spaces and stops, capitals."""
    plain = text.translate(_WIDE)
    for slip, meant in _MENDED:
        plain = slip.sub(meant, plain)
    if plain.isupper():
        plain = plain.lower()
    if plain.count("(") != plain.count(")"):
        plain = plain.replace("(", " ").replace(")", " ")
    return plain


@cache
def _about_captions() -> frozenset[str]:
    """Return how people speak of captions and images themselves, whatever the image shows."""
    path = files("loupe.checks").joinpath("words_about_captions.txt")
    return content_words(path.read_text("utf-8"))
