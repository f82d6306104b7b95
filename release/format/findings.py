"""The findings of a verification."""

from loupe.schemas.base import Record

ADVICE = "run `loupe release verify` for all problems"
NOT_READABLE = "not_readable"
"""The fault code of a file that cannot be read."""
LIMIT = 1000
"""The number of problems at which a verification stops."""


class Problem(Record):
    """A problem of a folder that should be a release.

    `fault` is a stable snake_case word; `message` is a sentence that names the file and, for a
    single row, its number (counted from 1, as in the names of images).
    """

    fault: str
    message: str
    file: str
    row: int | None = None


class TooManyProblemsError(Exception):
    """The limit of problems is reached."""


class Findings:
    """Collects problems; stops a verification after too many of them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def has(self, fault: str) -> bool:
        """Whether any problem of this kind was found."""
        return any(one.fault == fault for one in self.problems)

    def concerns(self, file: str) -> bool:
        """Whether a problem was found with a file."""
        return any(one.file == file for one in self.problems)

    def add(self, fault: str, message: str, file: str, row: int | None = None) -> None:
        """Add a problem.

        Raises:
            TooManyProblemsError: if the limit of problems is reached.
        """
        line = " ".join(message.split())
        self.problems.append(Problem(fault=fault, message=line, file=file, row=row))
        if len(self.problems) >= LIMIT:
            raise TooManyProblemsError

    def add_row(self, fault: str, what: str, file: str, row: int) -> None:
        """Add a problem of a row; see `add`."""
        self.add(fault, f"{file}: row {row} {what}", file, row)
