"""The words of a caption, by which two captions say the same or do not."""

import re

_WORD = re.compile(r"[^\W_]+(?:['.,/-][^\W_]+)*|!=|[^\w\s]|_")
_PUNCTUATION = frozenset(".,;:!?\"'“”‘’«»()…–—-。，、；：！？「」『』（）《》")
_MINUS = "-"


Words = tuple[str, ...]
"""What a text says, folded."""


def words_of(text: str) -> Words:
    """The words of a text in their order, folded: two captions with the same say the same.

    Neither case nor space nor punctuation counts. Signs that carry a meaning (`+`, `=`, `_`, `[` …)
    and numbers (`3.5`, `3/4`) are words, and so is the minus before a number: in captions of sums
    and programs they are what tells one from another.
    """
    text = text.replace("’", "'").replace("−", _MINUS)
    found = []
    for match in _WORD.finditer(text):
        word = match.group()
        if word not in _PUNCTUATION or (word == _MINUS and text[match.end() :][:1].isdigit()):
            found.append(word.casefold())
    return tuple(found)
