"""Check whether a rendered image is legible, by comparing a reader's text with the truth."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from schemas.recos import RenderedTruth
from schemas.retrieval_task import RetrievalTask
from sources.rendered.signs import BETWEEN

MOST_UNREAD: Final = 0.5
"""The largest share of unread characters: one of two, for the shortest signs.

docs/benchmarks.md has the measurements.
"""

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_ALIKE: Final = str.maketrans({"l": "1", "i": "1", "|": "1", "o": "0", "×": "x", "−": "-"})
"""Characters that readers confuse."""


def drawn_texts(truth: RenderedTruth) -> tuple[str, ...]:
    """Return texts that a reader must find in the image, in pieces of one line each.

    Empty for handwritten calculations and fractions, which readers of printed text do not read, and
    for figures, whose few digits are not informative.
    """
    match truth.task:
        case RetrievalTask.TRANSLATION:
            texts = truth.question.split(BETWEEN)
            return tuple(word for text in texts for word in text.split())
        case RetrievalTask.CODE:
            return tuple(filter(str.strip, truth.question.splitlines()))
        case _:
            is_plain = truth.truth.get("kind") not in ("area", "fractions", None)
            is_typeset = truth.look.get("writing") == "typeset"
            return tuple(_NUMBER.findall(truth.question)) if is_plain and is_typeset else ()


def unread_share(drawn: Iterable[str], *readings: Sequence[str]) -> float:
    """Return the character error rate of the reading, in [0, 1], counting only `drawn`.

    Each text is compared with the nearest substring by edit distance in any of the `readings`,
    which have the lines in several orders. Spaces, letter case, similar characters and further text
    are ignored.
    """
    texts, read = list(map(_plain, drawn)), [_plain("".join(one)) for one in readings]
    wrong = sum(min(_distance(text, one) for one in read) for text in texts)
    return wrong / max(1, sum(map(len, texts)))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(folded.split()).translate(_ALIKE)


def _distance(text: str, reading: str) -> int:
    """Return the least edit distance of `text` to any substring of `reading` (Sellers, 1980)."""
    codes = np.array([ord(one) for one in reading], np.int64)
    places = np.arange(len(codes) + 1)
    row = np.zeros(len(codes) + 1, np.int64)  # a substring may begin anywhere
    for number, character in enumerate(text, start=1):
        shorter = np.minimum(row[:-1] + (codes != ord(character)), row[1:] + 1)
        row = np.concatenate([[number], shorter])
        row = np.minimum.accumulate(row - places) + places
    return int(row.min())
