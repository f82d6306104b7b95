"""Seeded draws that do not depend on the order in which other things are drawn."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from models.builtin.drawing.draws import Draws

T = TypeVar("T")


class Chance(Draws):
    """A stream of draws named by `parts`: equal names give equal streams, on every machine."""

    def weigh(self, options: Mapping[T, float]) -> T:
        """One key of `options`, as likely as its weight."""
        mark = self._generator.random() * sum(options.values())
        for option, weight in options.items():
            mark -= weight
            if mark < 0:
                return option
        return option

    def whole(self, low: int, high: int) -> int:
        """An integer drawn evenly from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a drawn order."""
        return [items[int(index)] for index in self._generator.permutation(len(items))]
