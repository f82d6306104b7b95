"""Images that lie inside other files, such as Parquet and tar, on their way to a decoder."""

import os
import tempfile
import weakref
from typing import Final

_SEGMENT_BYTES: Final = 64 * 1024 * 1024


class _Segment:
    """A temporary file without a name, whose space is freed with the last reference to it."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.number = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.number)
        self.end = 0


class Piece:
    """The bytes of one image in a temporary file, read when they are needed. Thread-safe."""

    def __init__(self, segment: _Segment, offset: int, size: int) -> None:
        self._segment = segment
        self._offset = offset
        self.size = size

    def read(self) -> bytes:
        """Return the bytes."""
        return os.pread(self._segment.number, self.size, self._offset)


class Spool:
    """Keeps images on disk until nobody holds their pieces, so that rows need little memory.

    They are written to segments of about 64 MiB.
    """

    def __init__(self) -> None:
        self._segment = _Segment()

    def keep(self, data: bytes) -> Piece:
        """Write the bytes of an image to disk."""
        if self._segment.end >= _SEGMENT_BYTES:
            self._segment = _Segment()
        segment, left = self._segment, memoryview(data)
        while left:
            left = left[os.write(segment.number, left) :]
        piece = Piece(segment, segment.end, len(data))
        segment.end += len(data)
        return piece
