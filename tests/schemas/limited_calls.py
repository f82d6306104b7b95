"""Calls for workers, in a module whose import takes no time."""

import os
import signal
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


class OddImageError(Exception):
    """Refuses an image."""


def first_byte(image: bytes) -> int:
    """Return the first byte of an image; `c` crashes, `m` takes all memory, `r` is refused."""
    if image[:1] == b"c":
        os.kill(os.getpid(), signal.SIGSEGV)
    if image[:1] == b"m":
        bytearray(1 << 40)
    if image[:1] == b"r":
        raise OddImageError
    return image[0]
