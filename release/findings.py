"""What a verification finds."""

from schemas.release import Problem

NOT_READABLE = "not_readable"
"""The fault of a file that cannot be read, or of a folder that cannot be listed."""
FOLDER = "."
"""What findings call the folder of the release itself."""
LIMIT = 1000
"""A folder with more problems than this is not worth reading on about."""


class TooManyProblemsError(Exception):
    """The limit of problems is reached."""


class Findings:
    """Collects problems; ends a verification that finds nothing but."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def has(self, fault: str) -> bool:
        """Whether any problem of this kind was found."""
        return any(one.fault == fault for one in self.problems)

    def tells_of(self, file: str) -> bool:
        """Whether anything was found to be wrong with a file, or nobody could look at it."""
        return any(one.file == file for one in self.problems) or self.hides(file)

    def hides(self, file: str) -> bool:
        """Whether a file cannot be read, as was found of it or of a folder that it lies in."""
        return any(file == one or file.startswith(below(one)) for one in self.unreadable())

    def unreadable(self) -> list[str]:
        """The files and folders that cannot be read."""
        return [one.file for one in self.problems if one.fault == NOT_READABLE]

    def add(self, fault: str, message: str, file: str, row: int | None = None) -> None:
        """Remembers a problem.

        Raises:
            TooManyProblemsError: it is the last one that will be remembered.
        """
        line = " ".join(message.split())
        self.problems.append(Problem(fault=fault, message=line, file=file, row=row))
        if len(self.problems) >= LIMIT:
            raise TooManyProblemsError

    def add_row(self, fault: str, what: str, file: str, row: int) -> None:
        """Remembers a problem of a row, as `add` does."""
        self.add(fault, f"{file}: row {row} {what}", file, row)


def below(folder: str) -> str:
    """How the paths of the files in a folder begin."""
    return "" if folder == FOLDER else f"{folder}/"
