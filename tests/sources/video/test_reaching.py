"""Videos on remote file systems: every error of the file system is one refusal."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from loupe.sources.video.finding import FoundVideo, find_videos, inspect_video
from loupe.sources.video.reader import VideoProblem, VideoRefusedError, reaching
from tests.sources.video.clips import write_clip


class UnknownBackendError(Exception):
    """An error of a backend that has no base class known to Loupe."""


class FailingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A file system that raises an error in the call named by `fails_at`."""

    protocol = "moody"
    fails_at = ""
    fails_after_bytes = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("moody:/")))

    def info(self, path: str, **options: Any) -> Any:
        if FailingFileSystem.fails_at == "info":
            raise UnknownBackendError("no credentials\nand a long story")
        return super().info(path, **options)

    def isdir(self, path: str) -> bool:
        return bool(self.info(path)["type"] == "directory")

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if FailingFileSystem.fails_at == "open":
            raise UnknownBackendError
        file = super().open(path, mode, **options)
        return _FailingFile(file) if FailingFileSystem.fails_at in {"read", "seek"} else file


class _FailingFile:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if FailingFileSystem.fails_at == "seek":
            raise ValueError("Cannot seek streaming HTTP file")
        return int(self._file.seek(offset, whence))

    def read(self, size: int = -1) -> bytes:
        if self._file.tell() >= FailingFileSystem.fails_after_bytes:
            raise UnknownBackendError("gone")
        return bytes(self._file.read(size))


@pytest.fixture
def remote_clip(tmp_path: Path) -> Iterator[str]:
    """URL of a clip on a file system that can be made to fail."""
    fsspec.register_implementation("moody", FailingFileSystem, clobber=True)
    clip = write_clip(tmp_path / "clip.mp4")
    FailingFileSystem().pipe_file("/far/clip.mp4", clip.read_bytes())
    yield "moody://far/clip.mp4"
    FailingFileSystem.fails_at, FailingFileSystem.fails_after_bytes = "", 0


def test_a_reachable_video_is_read(remote_clip: str) -> None:
    (found,) = find_videos(remote_clip)
    assert isinstance(found, FoundVideo)
    assert not isinstance(inspect_video(found), VideoProblem)


def test_a_failing_listing_is_one_problem(remote_clip: str) -> None:
    FailingFileSystem.fails_at = "info"
    (problem,) = find_videos(remote_clip)
    assert isinstance(problem, VideoProblem)
    assert problem.reason == "unreachable_video"
    assert problem.detail == (
        f"video {remote_clip!r} cannot be reached: UnknownBackendError: no credentials"
    )


def test_a_failing_file_is_refused(subtests: pytest.Subtests, remote_clip: str) -> None:
    for fails_at, after in [("open", 0), ("read", 0), ("read", 100), ("seek", 1 << 20)]:
        with subtests.test(fails_at=fails_at, after=after):
            FailingFileSystem.fails_at, FailingFileSystem.fails_after_bytes = fails_at, after
            problem = inspect_video(FoundVideo(file_path="clip.mp4", url=remote_clip))
            assert isinstance(problem, VideoProblem)
            assert problem.reason == "unreachable_video"


def test_errors_of_local_files_are_not_translated(tmp_path: Path) -> None:
    with pytest.raises(UnknownBackendError), reaching(LocalFileSystem(), str(tmp_path)):
        raise UnknownBackendError
    with (
        pytest.raises(VideoRefusedError, match="does not exist"),
        reaching(FailingFileSystem(), "far"),
    ):
        raise FileNotFoundError
