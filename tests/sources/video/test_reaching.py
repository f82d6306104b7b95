"""Files elsewhere: every fault of the way there is one refusal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from sources.video.finding import FoundVideo, find_videos, inspect_video
from sources.video.reader import VideoProblem, VideoRefusedError, reaching
from tests.sources.video.clips import write_clip


class NobodyKnowsMeError(Exception):
    """As backends raise it: of no base that we know."""


class Moody(MemoryFileSystem):  # type: ignore[misc]
    """Fails where asked to."""

    protocol = "moody"
    fails_at = ""
    fails_after_bytes = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("moody:/")))

    def info(self, path: str, **options: Any) -> Any:
        if Moody.fails_at == "info":
            raise NobodyKnowsMeError("no credentials\nand a long story")
        return super().info(path, **options)

    def isdir(self, path: str) -> bool:
        return bool(self.info(path)["type"] == "directory")

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if Moody.fails_at == "open":
            raise NobodyKnowsMeError
        file = super().open(path, mode, **options)
        return _Breaking(file) if Moody.fails_at == "read" else file


class _Breaking:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        if self._file.tell() >= Moody.fails_after_bytes:
            raise NobodyKnowsMeError("gone")
        return bytes(self._file.read(size))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """The address of a clip on a file system that can be made to fail."""
    fsspec.register_implementation("moody", Moody, clobber=True)
    clip = write_clip(tmp_path / "clip.mp4")
    Moody().pipe_file("/far/clip.mp4", clip.read_bytes())
    yield "moody://far/clip.mp4"
    Moody.fails_at, Moody.fails_after_bytes = "", 0


def test_what_can_be_reached_is_read(elsewhere: str) -> None:
    (found,) = find_videos(elsewhere)
    assert isinstance(found, FoundVideo)
    assert not isinstance(inspect_video(found), VideoProblem)


def test_a_listing_that_fails_is_one_problem(elsewhere: str) -> None:
    Moody.fails_at = "info"
    (problem,) = find_videos(elsewhere)
    assert isinstance(problem, VideoProblem)
    assert problem.reason == "unreachable_video"
    assert problem.detail == (
        f"video {elsewhere!r} cannot be reached: NobodyKnowsMeError: no credentials"
    )


def test_a_file_that_fails_is_refused(subtests: pytest.Subtests, elsewhere: str) -> None:
    for fails_at, after in [("open", 0), ("read", 0), ("read", 100)]:
        with subtests.test(fails_at=fails_at, after=after):
            Moody.fails_at, Moody.fails_after_bytes = fails_at, after
            problem = inspect_video(FoundVideo(file_path="clip.mp4", url=elsewhere))
            assert isinstance(problem, VideoProblem)
            assert problem.reason == "unreachable_video"


def test_what_local_files_raise_is_left(tmp_path: Path) -> None:
    with pytest.raises(NobodyKnowsMeError), reaching(LocalFileSystem(), str(tmp_path)):
        raise NobodyKnowsMeError
    with pytest.raises(VideoRefusedError, match="does not exist"), reaching(Moody(), "far"):
        raise FileNotFoundError
