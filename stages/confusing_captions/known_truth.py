"""Which captions cannot be confused, because what was drawn is known.

An embedder that reads no text in images cannot tell one sum from another. But where it is known
what both images show, a caption that names what only one of them shows does not fit the other.
"""

import re

from schemas.recos import RenderedTruth


def is_known_apart(caption: str, own: RenderedTruth | None, other: RenderedTruth | None) -> bool:
    """Whether `caption` names the question or the answer of `own`, and `other` has another one.

    False where nothing is known of one of them.
    """
    if own is None or other is None:
        return False
    return any(
        _names(caption, ours) and _folded(ours) != _folded(theirs)
        for ours, theirs in ((own.question, other.question), (own.answer, other.answer))
    )


def what_is_shown(truth: RenderedTruth) -> str:
    """What was drawn, in a word: images of which this differs show something else.

    However alike they look.
    """
    return _folded(truth.question)


def _names(caption: str, value: str) -> bool:
    """Whether a value stands in a caption as a whole, no part of a longer word or number."""
    pattern = rf"(?<![\w.,/]){re.escape(_folded(value))}(?![\w/]|[.,]\d)"
    return bool(_folded(value)) and re.search(pattern, _folded(caption)) is not None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
