"""Who shares out the processors: blocks of work go to threads, so products must not do so, too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_WORKERS = 8


def usual_workers() -> int:
    """As many threads as this process has processors, at most 8: each needs memory of its own."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    processors = len(allowed(0)) if allowed else os.cpu_count() or 1
    return min(_MOST_WORKERS, processors)


@contextmanager
def products_in_their_own_thread() -> Iterator[None]:
    """Within, NumPy computes a product of matrices in the thread that asks for it.

    Left to itself, its library starts threads for each product, for which several workers then
    wait in turn: measured, that takes half as much processor time again.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
