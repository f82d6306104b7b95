"""Calls for workers, in a module whose import takes no time."""

import os
from collections.abc import Iterator
from typing import Any


def process_id() -> int:
    return os.getpid()


def burn() -> None:
    while True:
        pass


def take(size: int) -> int:
    return len(bytearray(size))


def die(number: int) -> None:
    os.kill(os.getpid(), number)


class RefusalError(Exception):
    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def refuse() -> None:
    raise RefusalError("odd", "is odd")


def arrays(count: int) -> Iterator[Any]:
    import numpy as np

    for number in range(count):
        yield np.full((50, 1000), number, np.uint8)


def three_then_burn() -> Iterator[int]:
    yield from range(3)
    burn()


def family() -> str:
    return f"{os.getpid()} {os.getppid()}"
