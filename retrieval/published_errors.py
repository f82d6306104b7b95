"""How often models take one image of a contrastive pair for the other, by type, as CCD prints it.

Tables 6 to 9 of the paper, in `published_errors.toml`, measured on the published datasets.
"""

import tomllib
from functools import cache
from pathlib import Path

from schemas.base import Record
from schemas.evaluation import Direction
from schemas.taxonomy import DifferenceType

_FILE = Path(__file__).with_name("published_errors.toml")


class PublishedErrors(Record):
    """A model and its FG-CDE in percent, in the order of the file's types."""

    model: str
    errors: tuple[float, ...]


class PublishedErrorTable(Record):
    """One direction on one dataset; `place` is where in the paper the table is printed."""

    dataset: str
    place: str
    direction: Direction
    rows: tuple[PublishedErrors, ...]


class _ErrorFile(Record):
    differences: tuple[DifferenceType, ...]
    tables: tuple[PublishedErrorTable, ...]


@cache
def _errors() -> _ErrorFile:
    return _ErrorFile.model_validate(tomllib.loads(_FILE.read_text(encoding="utf-8")))


def error_table(dataset: str, direction: Direction) -> PublishedErrorTable | None:
    """The table of a dataset in a direction, if the paper has one."""
    found = (
        one for one in _errors().tables if (one.dataset, one.direction) == (dataset, direction)
    )
    return next(found, None)


def accuracies(row: PublishedErrors) -> dict[str, float]:
    """FG-CDA of a model by the name of the type: 100 − FG-CDE."""
    known = zip(_errors().differences, row.errors, strict=True)
    return {kind.value: round(100 - error, 1) for kind, error in known}
