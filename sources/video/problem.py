"""What is wrong with a video: as a record, as an exception, and on the way to other machines."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from schemas.base import Record
from schemas.errors import FormatError
from sources.records import storable

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class VideoProblem(Record):
    """Why a file cannot be used as a video, or where its frames end before they should."""

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
        """The same as a record."""
        return VideoProblem(file_path=self.file_path, reason=self.reason, detail=str(self))


# Files on other machines.


def is_local(filesystem: "AbstractFileSystem") -> bool:
    """Whether the files are on this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(filesystem, LocalFileSystem)


@contextlib.contextmanager
def reaching(filesystem: "AbstractFileSystem", name: str) -> Iterator[None]:
    """Turns what the backend of a file system raises into a refusal of `name`.

    Each backend raises what its own libraries do, which have no base in common. What is raised
    about local files is left as it is.

    Raises:
        VideoRefusedError: what was asked for is missing or cannot be reached.
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
    """A file on another machine, open for reading, with faults reported as `reaching` does."""

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
        """Up to `size` bytes.

        Raises:
            VideoRefusedError: the file cannot be reached any more.
        """
        with reaching(self._filesystem, self._name):
            return self._file.read(size)
