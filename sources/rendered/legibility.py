"""Whether a rendered picture can be read: what was read in it, compared with what was drawn."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from schemas.recos import RenderedTruth
from schemas.retrieval_task import RetrievalTask
from sources.rendered.signs import BETWEEN

MOST_UNREAD: Final = 0.5
"""The largest share of characters that may be unread: one of two, of the shortest signs.

docs/recos.md has what was measured.
"""

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_ALIKE: Final = str.maketrans({"l": "1", "i": "1", "|": "1", "o": "0", "×": "x", "−": "-"})
"""Characters that readers take for each other."""


def drawn_texts(truth: RenderedTruth) -> tuple[str, ...]:
    """What a reader must find in the picture, in pieces that stand on one line.

    Nothing for handwritten calculations and fractions, which readers of printed text do not read,
    and for figures, whose few digits say little.
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
    """The character error rate of what was read, in [0, 1], where nothing but `drawn` counts.

    Each text is compared with the stretch that is nearest to it by edit distance, of any of the
    `readings`, which have the lines in several orders. Spaces, letter case and characters that look
    alike do not count, nor does what else was read.
    """
    texts, read = list(map(_plain, drawn)), [_plain("".join(one)) for one in readings]
    wrong = sum(min(_distance(text, one) for one in read) for text in texts)
    return wrong / max(1, sum(map(len, texts)))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(folded.split()).translate(_ALIKE)


def _distance(text: str, reading: str) -> int:
    """The least edit distance of `text` to any stretch of `reading` (Sellers, 1980)."""
    codes = np.array([ord(one) for one in reading], np.int64)
    places = np.arange(len(codes) + 1)
    row = np.zeros(len(codes) + 1, np.int64)  # a stretch may begin anywhere
    for number, character in enumerate(text, start=1):
        shorter = np.minimum(row[:-1] + (codes != ord(character)), row[1:] + 1)
        row = np.concatenate([[number], shorter])
        row = np.minimum.accumulate(row - places) + places
    return int(row.min())
