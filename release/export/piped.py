"""Large files of an export: one thread makes the bytes, another digests and writes them."""

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from schemas.release import ReleasedFile

_PIECE_BYTES: Final = 1 << 20
_IN_FLIGHT: Final = 4


class PipedFile:
    """A new file, appended to piece by piece; faults of writing are raised a little later.

    What is not written yet is held, at most 5 MiB and a piece. Nothing is flushed to disk: an
    export does that for all of its files at once.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._sha256 = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1)
        self._in_flight: deque[Future[None]] = deque()
        self._pieces: list[bytes | memoryview] = []
        self._waiting = 0
        self._is_closed = False
        self.size = 0
        """Bytes so far, those included that are not written yet."""

    def write(self, *pieces: bytes | memoryview) -> None:
        """Appends `pieces`, which must not change any more.

        Raises:
            OSError: something before them could not be written.
        """
        self._pieces += pieces
        added = sum(map(len, pieces))
        self._waiting += added
        self.size += added
        if self._waiting >= _PIECE_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        if len(self._in_flight) == _IN_FLIGHT:
            self._in_flight.popleft().result()
        self._in_flight.append(self._thread.submit(self._write, self._pieces))
        self._pieces, self._waiting = [], 0

    def _write(self, pieces: list[bytes | memoryview]) -> None:
        data = b"".join(pieces)
        self._sha256.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._handle, rest) :]

    def finish(self, path: str) -> ReleasedFile:
        """Writes the rest; the file under the path that the export knows it by.

        Raises:
            OSError: something could not be written.
        """
        self._hand_over()
        while self._in_flight:
            self._in_flight.popleft().result()
        self.close()
        return ReleasedFile(path=path, sha256=self._sha256.hexdigest(), size_bytes=self.size)

    def close(self) -> None:
        """Lets go of the file, whole or not. Closing twice is fine."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.shutdown(cancel_futures=True)
            os.close(self._handle)
