"""Problems of videos: as a record, as an exception, and for files on other machines."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from schemas.base import Record
from schemas.errors import FormatError
from sources.records import storable

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class VideoProblem(Record):
    """Why a file cannot be used as a video, or why its frames end early."""

    file_path: str
    reason: str
    detail: str


class VideoRefusedError(FormatError):
    """A file cannot be used as a video; `reason` is a stable word for counting."""

    def __init__(self, file_path: str, reason: str, what: str) -> None:
        self.file_path = storable(file_path)
        self.reason = reason
        super().__init__(f"video {self.file_path!r} {storable(what)}")

    def as_problem(self) -> VideoProblem:
        """Return the error as a record."""
        return VideoProblem(file_path=self.file_path, reason=self.reason, detail=str(self))


# Files on other machines.


def is_local(filesystem: "AbstractFileSystem") -> bool:
    """Whether the files are on this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(filesystem, LocalFileSystem)


@contextlib.contextmanager
def reaching(filesystem: "AbstractFileSystem", name: str) -> Iterator[None]:
    """Turn exceptions of a file system's backend into a `VideoRefusedError` for `name`.

    Each backend raises the exceptions of its own libraries, which have no common base class.
    Exceptions about local files are not changed.

    Raises:
        VideoRefusedError: the file is missing or unreachable.
    """
    try:
        yield
    except VideoRefusedError:
        raise
    except Exception as fault:
        if is_local(filesystem):
            raise
        if isinstance(fault, FileNotFoundError | NotADirectoryError):
            raise VideoRefusedError(name, "missing_video", "does not exist") from fault
        why = next(iter(str(fault).splitlines()), "").strip()
        what = f"cannot be reached: {': '.join(filter(None, [type(fault).__name__, why]))}"
        raise VideoRefusedError(name, "unreachable_video", what) from fault


class RemoteFile:
    """A file on another machine, open for reading; faults are reported as by `reaching`."""

    def __init__(self, file: BinaryIO, filesystem: "AbstractFileSystem", name: str) -> None:
        self._file = file
        self._filesystem = filesystem
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes.

        Raises:
            VideoRefusedError: the file became unreachable.
        """
        with reaching(self._filesystem, self._name):
            return self._file.read(size)
