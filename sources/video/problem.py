"""What is wrong with a video, as a record and as an exception."""

from schemas.base import Record
from schemas.errors import FormatError
from sources.records import storable


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
