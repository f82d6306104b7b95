"""Captions of a picture of which only colours are known, and where they are."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from PIL import Image

from models.builtin.captioner.telling import choices
from models.builtin.describer.colour_names import NAMES, lab_of, nearest_names

_BANDS = ("at the top", "in the middle", "at the bottom")
_SIDES = ("on the left", "on the right")
_SIDE_PX = 48


class ColourTeller:
    """Says which colour prevails where; a detail is a colour at a place."""

    def __init__(self, image: Image.Image) -> None:
        small = image.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BOX)
        names = nearest_names(lab_of(np.asarray(small, np.uint8)).reshape(-1, 3))
        field = names.reshape(_SIDE_PX, _SIDE_PX)
        third = _SIDE_PX // 3
        parts = [field[place * third : (place + 1) * third] for place in range(3)]
        sides = [field[:, :third], field[:, -third:]]
        order = (0, 2, 1, 3, 4)
        found = [
            f"{_prevailing(part)} {where}"
            for part, where in zip(parts + sides, _BANDS + _SIDES, strict=True)
        ]
        self._details = tuple(found[place] for place in order)

    def size_of(self, text: str) -> int:
        """How many places a caption names."""
        return max(1, sum(where in text for where in _BANDS + _SIDES))

    def captions(self, size: int) -> Iterator[str]:
        """The colours of `size` places."""
        for details in choices(self._details, size):
            for order in list(permutations(details))[:3]:
                *first, last = order
                joined = f"{', '.join(first)} and {last}" if first else last
                yield f"A picture that is {joined}."


def _prevailing(part: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> str:
    return NAMES[int(np.bincount(part.ravel(), minlength=len(NAMES)).argmax())]
