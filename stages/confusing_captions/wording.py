"""How far two captions are apart in words."""

from typing import NamedTuple

from stages.caption_words import words_of


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

    Words are those of `caption_words`. Where a script sets no spaces between words, a run of
    letters counts as one.
    """
    from rapidfuzz.distance import Levenshtein

    ours, theirs = words_of(first), words_of(second)
    return WordChange(Levenshtein.distance(ours, theirs), max(len(ours), len(theirs)))
