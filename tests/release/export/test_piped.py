"""Large files of an export hold what was given, however the system takes it."""

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.export.formats import PipedFile

Writev = Callable[[int, Sequence[bytes | memoryview]], int]


def taking_at_most(most: int) -> Writev:
    """A system that takes so many bytes at once."""

    def writev(handle: int, pieces: Sequence[bytes | memoryview]) -> int:
        return os.write(handle, b"".join(pieces)[:most])

    return writev


@given(
    st.lists(st.lists(st.binary(max_size=50), max_size=5), max_size=8),
    st.none() | st.integers(1, 60),
)
def test_it_holds_all_pieces_in_their_order(written: list[list[bytes]], most: int | None) -> None:
    wanted = b"".join(b"".join(pieces) for pieces in written)
    writev = os.writev if most is None else taking_at_most(most)
    with (
        TemporaryDirectory() as folder,
        patch("release.export.formats.os.writev", writev),
        patch("release.export.formats._PIPED_PIECE_BYTES", 64),
    ):
        path = Path(folder) / "file"
        file = PipedFile(path)
        for pieces in written:
            file.write(*pieces[:2], *(memoryview(piece) for piece in pieces[2:]))
        released = file.finish("a/file")
        assert path.read_bytes() == wanted
    assert released == ("a/file", hashlib.sha256(wanted).hexdigest(), len(wanted), None)


def test_more_pieces_than_the_system_takes_at_once(tmp_path: Path) -> None:
    file = PipedFile(tmp_path / "file")
    file.write(*[b"ab"] * 5000)
    assert file.finish("file").size_bytes == 10_000
    assert (tmp_path / "file").read_bytes() == b"ab" * 5000


def test_a_disk_that_is_full_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def writev(_handle: int, _pieces: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("release.export.formats.os.writev", writev)
    file = PipedFile(tmp_path / "file")
    file.write(b"lost")
    with pytest.raises(OSError, match="No space left"):
        file.finish("file")
    file.close()


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        PipedFile(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
