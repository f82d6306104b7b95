"""Work of many threads, taken in order and never far ahead."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)


def ordered_map(
    function: Callable[[A], B], items: Iterable[A], threads: int = DEFAULT_THREADS
) -> Iterator[B]:
    """`function` of each item, in order; at most twice `threads` results wait to be taken."""
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
