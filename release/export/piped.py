"""Large files of an export: one thread makes the bytes, one digests and another writes them."""

import hashlib
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from release.threads import batches
from schemas.release import ReleasedFile

Piece = bytes | memoryview

_PIECE_BYTES: Final = 2 << 20
_IN_FLIGHT: Final = 4
_AT_ONCE: Final = 512  # pieces; systems take 1024


class PipedFile:
    """A new file, appended to piece by piece; faults of writing are raised a little later.

    What is not written yet is held, at most 10 MiB and a piece. Nothing is flushed to disk: an
    export does that for all of its files at once.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._sha256 = hashlib.sha256()
        self._digester, self._writer = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._in_flight: deque[tuple[Future[None], Future[None]]] = deque()
        self._pieces: list[Piece] = []
        self._waiting = 0
        self._is_closed = False
        self.size = 0
        """Bytes so far, those included that are not written yet."""

    def write(self, *pieces: Piece) -> None:
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
            self._await_oldest()
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        digested = self._digester.submit(self._digest, pieces)
        self._in_flight.append((digested, self._writer.submit(self._write, pieces)))

    def _await_oldest(self) -> None:
        for done in self._in_flight.popleft():
            done.result()

    def _digest(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self._sha256.update(piece)

    def _write(self, pieces: Sequence[Piece]) -> None:
        for some in batches(pieces, _AT_ONCE):
            size = sum(map(len, some))
            written = os.writev(self._handle, some)
            rest = memoryview(b"".join(some) if written < size else b"")[written:]
            while rest:
                rest = rest[os.write(self._handle, rest) :]

    def finish(self, path: str) -> ReleasedFile:
        """Writes the rest; the file under the path that the export knows it by.

        Raises:
            OSError: something could not be written.
        """
        self._hand_over()
        while self._in_flight:
            self._await_oldest()
        self.close()
        return ReleasedFile(path=path, sha256=self._sha256.hexdigest(), size_bytes=self.size)

    def close(self) -> None:
        """Lets go of the file, whole or not. Closing twice is fine."""
        if not self._is_closed:
            self._is_closed = True
            for thread in (self._digester, self._writer):
                thread.shutdown(cancel_futures=True)
            os.close(self._handle)
