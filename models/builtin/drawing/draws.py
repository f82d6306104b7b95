"""Seeded draws: what chance decides in a drawing."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.base import digest_of

T = TypeVar("T")


class Draws:
    """A stream of draws named by `parts`: equal names give equal streams, on every machine."""

    def __init__(self, *parts: str | int) -> None:
        self._generator = np.random.default_rng(int(digest_of(*(str(part) for part in parts)), 16))

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`, all equally likely."""
        return options[int(self._generator.integers(len(options)))]

    def happens(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(self._generator.random() < probability)

    def between(self, low: float, high: float) -> float:
        """A number drawn evenly from [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Standard normal noise of the given shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)
