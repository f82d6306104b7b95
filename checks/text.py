"""A text as checks look at it: its sentences, clauses and words, and what is asked of it."""

import re
import unicodedata
from typing import NamedTuple

from loupe.checks.language import ENGLISH, LETTERS, MARKS
from loupe.schemas.phrases import QUOTED


class Defect(NamedTuple):
    """Why a text cannot be used: a stable snake_case word, and a sentence without its subject.

    The sentence goes on after the name of the text: «holds the character '<'». A doubtful defect
    may be a matter of style; where texts are compared with their source, a person decides about it.
    """

    reason: str
    detail: str
    is_doubtful: bool = False


class Form(NamedTuple):
    """What is asked of a text.

    Attributes:
        language: the language of the dataset (ISO 639-1).
        sentences: it begins and ends as sentences do; otherwise it may also be a phrase.
        shows_signs: it may state programs, sums and signs, as captions of such images do.
        is_shown: it is the text of a sign, which need not be a sentence about anything.
    """

    language: str = ENGLISH
    sentences: bool = True
    shows_signs: bool = False
    is_shown: bool = False


PROSE = Form()
CAPTION = Form(sentences=False)
SIGNS = Form(sentences=False, shows_signs=True)


class Text:
    """A text, with what the rules look at.

    Attributes:
        raw: the text as it was written.
        form: what is asked of it.
        like: a text that counts as right, such as the source of a rewrite.
        line: the text in one line.
        plain: the line without what an image shows, which may be anything.
        sentences: the sentences of `plain`.
        words: the words of `plain`.
        words_like: the words of `like`.
    """

    def __init__(self, raw: str, form: Form, like: str) -> None:
        self.raw = raw
        self.form = form
        self.like = one_line(like)
        self.line = one_line(raw)
        self.plain = _without_shown(self.line, form)
        self.sentences = sentences_of(self.plain)
        self.words = words_of(self.plain)
        self.words_like = frozenset(words_of(self.like))


def one_line(text: str) -> str:
    """Return a text in the form in which it is stored: composed letters and single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


HIDDEN = "Quoted"
"""What stands for words in quotation marks, calls and formulas."""
_CODE_SPAN = re.compile(r"`[^`]+`")
_CALL = re.compile(
    r"""
    [\w.]+\([^()]*\)            # range(9)
    | \b\w+_\w+\b | __\w+__     # row_count
    | [\w.]*\[[^\[\]]*\]        # rows[1]
    | (?<!\w)[-−]?\w*           # i * 4 == total
      (?:\s?(?:[+*/%<>=×÷−!^]=?|==|(?<=\s)-(?=\s))\s?[-−]?\w+)+
    """,
    re.VERBOSE,
)


def _without_shown(line: str, form: Form) -> str:
    plain = QUOTED.sub(HIDDEN, line)
    if form.shows_signs:
        plain = _CODE_SPAN.sub(HIDDEN, plain)
        plain = _CALL.sub(HIDDEN, plain)
    return plain


_SENTENCE_END = re.compile(r"(?<=[.!?…।۔؟])[\"”’»)]*\s+(?=[^\sa-zß-öø-ÿ])|(?<=[。！？])")
_CLAUSE_END = re.compile(
    r"[,;:()（），；：、،؛]+|\s[-–—]+\s|—|(?<=[\u0e00-\u0e7f])\s+(?=[\u0e00-\u0e7f])"
)
"""Signs between clauses; in Thai a space is one."""
_WORD = re.compile(rf"[\w{MARKS}]+(?:['’.,-][\w{MARKS}]+)*")


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text; a stop before a small letter does not end one."""
    parts = [part.strip() for part in _SENTENCE_END.split(text)]
    return [part for part in parts if part]


def clauses_of(sentence: str) -> list[str]:
    """Return the parts of a sentence between commas, semicolons, colons, brackets and dashes."""
    parts = [part.strip() for part in _CLAUSE_END.split(sentence)]
    return [part for part in parts if LETTERS.search(part) or re.search(r"\d", part)]


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written."""
    return _WORD.findall(text)


_MOST_SHOWN = 60
_CONTEXT = 10


def shown(text: str) -> str:
    """Quote the beginning of a text for messages."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def shown_around(text: str, start: int, end: int) -> str:
    """Quote a part of a text for messages, with some characters on both sides."""
    return shown(text[max(0, start - _CONTEXT) : end + _CONTEXT].strip())
