"""Images that lie inside other files, such as Parquet and tar, on their way to a decoder."""

import os
import tempfile
from typing import IO, Final

_SEGMENT_BYTES: Final = 64 * 1024 * 1024


class Piece:
    """The bytes of one image in a temporary file, read when they are needed. Thread-safe."""

    def __init__(self, file: IO[bytes], offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self.size = size

    def read(self) -> bytes:
        """Return the bytes."""
        return os.pread(self._file.fileno(), self.size, self._offset)


class Spool:
    """Keeps images on disk until nobody holds their pieces, so that rows need little memory.

    A temporary file of about 64 MiB is closed, and its space freed, with the last of its pieces.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0

    def keep(self, data: bytes) -> Piece:
        """Write the bytes of an image to disk."""
        if self._file is None or self._end >= _SEGMENT_BYTES:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - its pieces hold it
            self._end = 0
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        piece = Piece(self._file, self._end, len(data))
        self._end += len(data)
        return piece
