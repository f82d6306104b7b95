"""Scores that the authors of the datasets publish, to be read beside one's own.

They stand in `published.toml`, with where they were printed. None of them can be compared with a
score on another dataset: whoever shows them says what they were measured on.
"""

import tomllib
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.evaluation import Direction

_FILE = Path(__file__).with_name("published.toml")


class PublishedRow(Record):
    """A model and its scores, in the order of the table's metrics."""

    model: str
    scores: tuple[float, ...]


class PublishedTable(Record):
    """One direction on one dataset; `place` is where in `citation` the table is printed.

    `note` says what holds for all rows.
    """

    dataset: str
    citation: str
    place: str
    direction: Direction
    metrics: tuple[str, ...] = Field(min_length=1)
    note: str = ""
    rows: tuple[PublishedRow, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_rectangular(self) -> "PublishedTable":
        for row in self.rows:
            if len(row.scores) != len(self.metrics):
                raise ValueError(f"{row.model} must have {len(self.metrics)} scores; got {row}")
        return self


class _PublishedFile(Record):
    tables: tuple[PublishedTable, ...]


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """All published tables."""
    values = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return _PublishedFile.model_validate(values).tables


def published_on(dataset: str, direction: Direction) -> tuple[PublishedTable, ...]:
    """The tables of one dataset, as its paper names it, in one direction."""
    return tuple(
        one for one in published_tables() if (one.dataset, one.direction) == (dataset, direction)
    )
