"""What the files of images tell the explorer: their size, and how sharp they are."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from loupe.flows.exploring.items import Item, Value
from loupe.schemas.processes import ordered_map, write_atomically

_SIDE_PX = 256
_BLURRED_BELOW = 60.0
"""Sharpness of a photograph that is blurred by half a per cent of its longer side."""
_THREADS = 4


class _Look(NamedTuple):
    """The size of a file in bytes, and the sharpness of its image if it can be decoded."""

    size: int
    sharpness: float | None


class Looks:
    """Looks at files, and keeps what it measured by the digests of the files.

    Files that are not on this machine have no fields.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._known: dict[str, float | None] = {}
        self._is_new = False
        with suppress(FileNotFoundError):
            self._known = json.loads(cache.read_bytes())

    def fields(self, items: Sequence[Item]) -> Iterator[dict[str, Value]]:
        """Yield the fields of each image; `blurred` is left to checks that know better."""
        for item, look in zip(items, ordered_map(self._look, items, _THREADS), strict=True):
            if look is None:
                yield {}
                continue
            found: dict[str, Value] = {"bytes": look.size}
            if look.sharpness is not None:
                found["sharpness"] = look.sharpness
                found["blurred"] = look.sharpness < _BLURRED_BELOW
            if item.sha256 not in self._known:
                self._known[item.sha256] = look.sharpness
                self._is_new = True
            yield found

    def keep(self) -> None:
        """Store what was measured, for the next time."""
        if self._is_new:
            write_atomically(self._cache, json.dumps(self._known).encode())
            self._is_new = False

    def _look(self, item: Item) -> _Look | None:
        path = Path(item.path)
        try:
            size = path.stat().st_size
        except (OSError, ValueError):  # an address, or a file that went meanwhile
            return None
        known = self._known
        sharpness = known[item.sha256] if item.sha256 in known else _sharpness(path)
        return _Look(size, sharpness)


def _sharpness(path: Path) -> float | None:
    """Return the variance of the Laplacian at 256 pixels of the longer side; None if unreadable."""
    import cv2

    try:
        with Image.open(path) as picture:
            picture.draft(
                "L", (_SIDE_PX, _SIDE_PX)
            )  # decodes a JPEG file at a fraction of its size
            grey = picture.convert("L")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    grey.thumbnail((_SIDE_PX, _SIDE_PX))
    return round(float(cv2.Laplacian(np.asarray(grey), cv2.CV_64F).var()), 1)
