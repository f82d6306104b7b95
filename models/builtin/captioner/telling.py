"""What every teller gives: captions of an image, as long as is wanted."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Protocol, TypeVar

T = TypeVar("T")


class Teller(Protocol):
    """Knows what can be said of one image."""

    def size_of(self, text: str) -> int:
        """How many details a caption gives, by whoever it was written."""
        ...

    def captions(self, size: int) -> Iterator[str]:
        """True captions with `size` details, or as many as there are, the best first.

        There may be none, and none is there twice.
        """
        ...


def choices(details: Sequence[T], size: int, most: int = 60) -> Iterator[tuple[T, ...]]:
    """Choices of `size` details in their order, those with the most important ones first."""
    size = min(size, len(details))
    for number, places in enumerate(sorted(combinations(range(len(details)), size), key=_cost)):
        if number == most:
            return
        yield tuple(details[place] for place in places)


def distinct(teller: Teller, size: int, count: int, without: Sequence[str] = ()) -> list[str]:
    """Up to `count` different captions of about `size` details, none of them in `without`."""
    taken = {text.casefold() for text in without}
    found: list[str] = []
    for near in chain([size], *((size + step, size - step) for step in range(1, 12))):
        for text in teller.captions(near) if near > 0 else ():
            if text.casefold() not in taken:
                taken.add(text.casefold())
                found.append(text)
            if len(found) == count:
                return found
    return found


def _cost(places: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return sum(places), places
