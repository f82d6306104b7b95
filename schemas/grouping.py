"""Items by a key, or so many at a time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in order; a key without values has an empty list."""
    found: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def batches(items: Iterable[V], size: int) -> Iterator[list[V]]:
    """Split `items` into lists of `size`; the last may be shorter."""
    waiting = iter(items)
    while batch := list(islice(waiting, size)):
        yield batch
