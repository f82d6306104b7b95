"""Scores that the authors of the datasets publish, to be read beside one's own."""

import tomllib
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.evaluation import Direction
from schemas.taxonomy import DifferenceType

# Scores that the authors of the datasets publish, to be read beside one's own.
#
# They are in `published.toml`, with where they were printed. None of them can be compared with a
# score on another dataset: show them with what they were measured on.

_FILE = Path(__file__).with_name("published.toml")


class PublishedRow(Record):
    """A model and its scores, in the order of the table's metrics.

    `disputed` says where the paper itself prints otherwise.
    """

    model: str
    scores: tuple[float, ...]
    disputed: str = ""


class PublishedTable(Record):
    """One direction on one dataset, by models that were trained on one dataset.

    `paper` is a key of the file's `papers`, and `citation` its value; `place` is where the table is
    printed in it. `trained_on` is empty where the paper names no single training set.
    """

    paper: str
    citation: str
    place: str
    dataset: str
    trained_on: str = ""
    direction: Direction
    metrics: tuple[str, ...] = Field(min_length=1)
    rows: tuple[PublishedRow, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_rectangular(self) -> "PublishedTable":
        for row in self.rows:
            if len(row.scores) != len(self.metrics):
                raise ValueError(f"{row.model} must have {len(self.metrics)} scores; got {row}")
        return self


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """All published tables."""
    values = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(
        PublishedTable.model_validate({**table, "citation": values["papers"][table["paper"]]})
        for table in values["tables"]
    )


def published_on(dataset: str, direction: Direction) -> tuple[PublishedTable, ...]:
    """The tables of one dataset, as its paper names it, in one direction."""
    return tuple(
        one for one in published_tables() if (one.dataset, one.direction) == (dataset, direction)
    )


# How often models take one image of a contrastive pair for the other, by type, as CCD prints it.
#
# Tables 6 to 9 of the paper, in `published_errors.toml`, measured on the published datasets.

_ERRORS_FILE = Path(__file__).with_name("published_errors.toml")


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
    return _ErrorFile.model_validate(tomllib.loads(_ERRORS_FILE.read_text(encoding="utf-8")))


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
