"""How far two captions are apart in words."""

import re
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+(?:['’.,/-][^\W_]+)*|[^\w\s]")
_PUNCTUATION = frozenset(".,;:!?\"'“”‘’«»()[]…–—-")


class WordChange(NamedTuple):
    """The least number of words put in, left out or replaced, and the words of the longer text."""

    edits: int
    words: int

    @property
    def share(self) -> float:
        """Edits as a share of the longer text's words, 0 to 1; 0 for two texts without words."""
        return self.edits / self.words if self.words else 0.0


def word_change(first: str, second: str) -> WordChange:
    """The Levenshtein distance of two texts in words; neither case nor punctuation counts.

    Signs that carry a meaning (`+`, `=`, `%` …) and numbers (`3.5`, `3/4`) are words, too. Where a
    script sets no spaces between words, a run of letters counts as one.
    """
    from rapidfuzz.distance import Levenshtein

    ours, theirs = words_of(first), words_of(second)
    return WordChange(Levenshtein.distance(ours, theirs), max(len(ours), len(theirs)))


def words_of(text: str) -> list[str]:
    """The words of a text, folded."""
    found = (word.casefold() for word in _WORD.findall(text))
    return [word for word in found if word not in _PUNCTUATION]
