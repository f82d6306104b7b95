"""Errors that Loupe raises on purpose.

::

LoupeError
├── UsageError                the user's input cannot be used (exit code 2)
│   ├── ConfigurationError    a profile, a build file or an environment variable is invalid
│   ├── FormatError           a file is not in the declared format
│   │   ├── ColumnError       it lacks a column that is stated, or has one twice
│   │   └── BadRowError       a row of numbers cannot be used
│   └── MissingExtraError     an optional dependency is not installed
├── IntegrityError            stored or released data does not match its description
│   ├── BlobMismatchError     bytes do not match their digest
│   └── MissingBlobError      nothing is stored under a digest
├── ModelError                a model could not be loaded, or its server does not answer
├── TrainingError             a training cannot continue: a loss is not a finite number
├── DegenerateCriterionError  a criterion accepts nearly everything or nothing
├── DiskFullError             a disk has no space or no inodes left
├── BudgetReachedError        a run stopped because `--max-cost` or `--max-tokens` was reached
└── ServiceError              a server that Loupe starts or uses does not work as expected

A message is one sentence: what is wrong, where, what was found and what was expected. A problem
with a *single record* is not raised: it becomes a `loupe.schemas.records.Rejection` in quarantine,
and the other records are processed.
"""

from loupe.schemas.checkout import install_command


class LoupeError(Exception):
    """Base of all errors that Loupe raises on purpose; its message can be shown to users."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Return what notebooks show instead of a traceback: IPython asks for it by this name."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(LoupeError):
    """The user's input cannot be used."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A profile, a build file or an environment variable is invalid."""


class FormatError(UsageError):
    """A file is not in the declared format."""


class ColumnError(FormatError):
    """A file lacks a column that is stated, or has two of one name."""


class BadRowError(FormatError):
    """A row of numbers cannot be used; `row` is its index."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class MissingExtraError(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the extra {extra!r}, which is not installed; "
            f"install it with: {install_command(extra)}"
        )
        self.extra = extra


class IntegrityError(LoupeError):
    """Stored or released data does not match its description."""


class BlobMismatchError(IntegrityError):
    """The bytes stored under a digest do not have that digest."""


class MissingBlobError(IntegrityError):
    """Nothing is stored under a digest."""


class ModelError(LoupeError):
    """A model could not be loaded, or its server does not answer."""


class TrainingError(LoupeError):
    """A training cannot continue: a loss or a gradient is not a finite number."""


class DegenerateCriterionError(LoupeError):
    """A criterion accepts nearly everything or nothing: it is uninformative and was not applied."""


class DiskFullError(LoupeError):
    """A disk has no space or no inodes left for a file to write."""


class BudgetReachedError(LoupeError):
    """A limit on money or tokens was reached; everything that was paid for is stored."""


class ServiceError(LoupeError):
    """A server that Loupe starts or uses does not work as expected."""
