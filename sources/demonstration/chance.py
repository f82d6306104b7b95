"""Seeded draws that do not depend on the order in which other things are drawn."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from schemas.base import digest_of

T = TypeVar("T")


class Chance:
    """A stream of draws named by `parts`: equal names give equal streams, on every machine."""

    def __init__(self, *parts: str | int) -> None:
        self._generator = np.random.default_rng(int(digest_of(*(str(part) for part in parts)), 16))

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`, all equally likely."""
        return options[int(self._generator.integers(len(options)))]

    def weigh(self, options: Mapping[T, float]) -> T:
        """One key of `options`, as likely as its weight."""
        mark = self._generator.random() * sum(options.values())
        for option, weight in options.items():
            mark -= weight
            if mark < 0:
                return option
        return option

    def happens(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(self._generator.random() < probability)

    def between(self, low: float, high: float) -> float:
        """A number drawn evenly from [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def whole(self, low: int, high: int) -> int:
        """An integer drawn evenly from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a drawn order."""
        return [items[int(index)] for index in self._generator.permutation(len(items))]

    def noise(self, shape: tuple[int, ...]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        """Standard normal noise of the given shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)
