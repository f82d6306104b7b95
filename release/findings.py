"""What a verification finds."""

from schemas.release import Problem

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
        """Whether anything was found to be wrong with a file."""
        return any(one.file == file for one in self.problems)

    def add(self, fault: str, message: str, file: str, row: int | None = None) -> None:
        """Remembers a problem.

        Raises:
            TooManyProblemsError: it is the last one that will be remembered.
        """
        line = " ".join(message.split())
        self.problems.append(Problem(fault=fault, message=line, file=file, row=row))
        if len(self.problems) >= LIMIT:
            raise TooManyProblemsError
