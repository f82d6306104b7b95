"""Runs functions in threads, with results in order and bounded read-ahead."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

_END = object()
_THREADS = min(32, (os.cpu_count() or 1) + 4)


def batches(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """Split `items` into lists of `size` (the last may be shorter), as work for threads."""
    waiting = iter(items)
    while batch := list(islice(waiting, size)):
        yield batch


def read_ahead(items: Iterator[A]) -> Iterator[A]:
    """Iterate over `items`, with the next one computed by another thread."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, _END)
        while (item := waiting.result()) is not _END:
            waiting = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]


def ordered_map(
    function: Callable[[A], B], items: Iterable[A], threads: int = _THREADS
) -> Iterator[B]:
    """Apply `function` to each item, in order; at most twice `threads` results are buffered."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[B]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
