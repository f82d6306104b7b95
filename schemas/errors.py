"""Everything that Loupe raises on purpose.

::

LoupeError
├── UsageError                what the user gave cannot be used (exit code 2)
│   ├── ConfigurationError    a profile, a build file or an environment variable
│   ├── FormatError           a file is not of the format it was said to be
│   └── MissingExtraError     an optional dependency is not installed
├── IntegrityError            stored or released data is not what it claims to be
│   ├── BlobMismatchError     bytes do not match their digest
│   └── MissingBlobError      a digest that nothing is stored under
├── ModelError                a model could not be loaded or its server is not there
├── TrainingError             a training cannot go on: a loss is no finite number
├── DegenerateCriterionError  a criterion accepts nearly all or nearly none: it says nothing
├── DiskFullError             a disk has no space or no inodes left
├── BudgetReachedError        a run stopped because `--max-cost` or `--max-tokens` was reached
└── ServiceError              a server that we start or talk to does not do what it should

A message is one sentence: what, where, got, wanted. What is wrong with a *single record* is not
raised: it becomes a `schemas.records.Rejection` and goes to quarantine while the rest goes on.
"""


class LoupeError(Exception):
    """Base of all errors that Loupe raises on purpose; its text is fit to be shown to a user."""

    exit_code = 1


class UsageError(LoupeError):
    """What the user gave cannot be used."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A profile, a build file or an environment variable is wrong."""


class FormatError(UsageError):
    """A file is not of the format it was said to be."""


class MissingExtraError(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the extra {extra!r}, which is not installed; "
            f"install it with: uv pip install -e '.[{extra}]'"
        )
        self.extra = extra


class IntegrityError(LoupeError):
    """Stored or released data is not what it claims to be."""


class BlobMismatchError(IntegrityError):
    """The bytes stored under a digest do not have that digest."""


class MissingBlobError(IntegrityError):
    """Nothing is stored under a digest."""


class ModelError(LoupeError):
    """A model could not be loaded, or its server does not answer."""


class TrainingError(LoupeError):
    """A training cannot go on: a loss or a gradient is no finite number."""


class DegenerateCriterionError(LoupeError):
    """A criterion accepts nearly all or nearly none: it says nothing, and nothing is done by it."""


class DiskFullError(LoupeError):
    """A disk has no space or no inodes left for what is to be written."""


class BudgetReachedError(LoupeError):
    """A limit on money or tokens was reached; what was paid for is stored, nothing is lost."""


class ServiceError(LoupeError):
    """A server that we start or talk to does not do what it should."""
