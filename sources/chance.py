"""Random choices that are the same on every machine."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from loupe.schemas.base import digest_of

T = TypeVar("T")


class Chance:
    """A stream of random numbers named by `parts`: equal names, equal streams, on every machine."""

    def __init__(self, *parts: str | int) -> None:
        self._generator = np.random.default_rng(int(digest_of(*(str(part) for part in parts)), 16))

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`, all equally likely."""
        return options[int(self._generator.integers(len(options)))]

    def happens(self, probability: float) -> bool:
        """Return True with the given probability."""
        return bool(self._generator.random() < probability)

    def between(self, low: float, high: float) -> float:
        """Return a number drawn uniformly from [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return standard normal noise of the given shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)

    def weigh(self, options: Mapping[T, float]) -> T:
        """Return one key of `options`, with the probability of its weight."""
        mark = self._generator.random() * sum(options.values())
        for option, weight in options.items():
            mark -= weight
            if mark < 0:
                return option
        return option

    def whole(self, low: int, high: int) -> int:
        """Return an integer drawn from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        return [items[int(index)] for index in self._generator.permutation(len(items))]
