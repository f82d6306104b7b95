"""The space of the built-in embedder: a block of likenesses for each zone, then single marks."""

from collections.abc import Mapping
from enum import StrEnum, auto

import numpy as np

from models.builtin.embedder.palette import LIKENESSES, Likeness
from models.embedding import Vectors


class Zone(StrEnum):
    """A place whose colours count: on a person, or in any picture."""

    HEAD = auto()
    UPPER = auto()
    LOWER = auto()
    FEET = auto()
    FIGURE = auto()
    TOP = auto()
    MIDDLE = auto()
    BOTTOM = auto()
    EVERYWHERE = auto()


class Mark(StrEnum):
    """Something that is there or not: 1 for yes, -1 for no, 0 where nobody can tell."""

    UPPER_PATTERN = auto()
    LOWER_PATTERN = auto()
    BARE_ARMS = auto()
    BARE_LEGS = auto()
    PERSON = auto()


WEIGHTS: Mapping[Zone | Mark, float] = {
    Zone.HEAD: 0.6,
    Zone.UPPER: 1.0,
    Zone.LOWER: 1.0,
    Zone.FEET: 0.6,
    Zone.FIGURE: 0.4,
    Zone.TOP: 0.5,
    Zone.MIDDLE: 0.5,
    Zone.BOTTOM: 0.5,
    Zone.EVERYWHERE: 0.6,
    Mark.UPPER_PATTERN: 0.3,
    Mark.LOWER_PATTERN: 0.2,
    Mark.BARE_ARMS: 0.2,
    Mark.BARE_LEGS: 0.3,
    Mark.PERSON: 0.3,
}
"""How much each counts when two vectors are compared."""

_BIAS = 0.05  # so that what says nothing has a direction, too
DIMENSION = len(Zone) * LIKENESSES + len(Mark) + 1


def vector_of(zones: Mapping[Zone, Likeness], marks: Mapping[Mark, float]) -> Vectors:
    """The unit vector, of shape (DIMENSION,), of what was found; the rest is zero."""
    blocks = [_block(zone, zones.get(zone)) for zone in Zone]
    single = [WEIGHTS[mark] * marks.get(mark, 0.0) for mark in Mark]
    vector = np.concatenate([*blocks, single, [_BIAS]])
    unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _block(zone: Zone, likeness: Likeness | None) -> Likeness:
    if likeness is None or not likeness.any():
        return np.zeros(LIKENESSES)
    return WEIGHTS[zone] * likeness / np.linalg.norm(likeness)
