"""Scores that the authors of the datasets publish, to be read beside one's own."""

import tomllib
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from loupe.schemas.base import Record
from loupe.schemas.evaluation import Direction
from loupe.schemas.taxonomy import DifferenceType

# Scores that the authors of the datasets publish, to be read beside one's own.
#
# They are in `published.toml`, with where they were printed. None of them can be compared with a
# score on another dataset: show them with what they were measured on.

_FILE = Path(__file__).with_name("published.toml")
_DATASETS = Path(__file__).with_name("reproduce") / "datasets.toml"


class PublishedRow(Record):
    """A model and its scores, in the order of the table's metrics.

    `disputed` says where the paper itself prints otherwise.
    """

    model: str
    scores: tuple[float, ...]
    disputed: str = ""


class PublishedTable(Record):
    """One direction on one dataset, by models that were trained on one dataset.

    `metrics` are those of `loupe.schemas.evaluation`, or types and aspects: the scores are FG-CDE
    then. `paper` is a key of the file's `papers`, and `citation` its value; `place` is where the
    table is printed in it. `trained_on` is empty where the paper names no single training set.
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

    @property
    def is_by_difference(self) -> bool:
        """Whether the scores are FG-CDE by type of difference."""
        return self.metrics[0] in list(DifferenceType)


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """All published tables."""
    values = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(
        PublishedTable.model_validate({**table, "citation": values["papers"][table["paper"]]})
        for table in values["tables"]
    )


def published_on(
    dataset: str, direction: Direction, *, by_difference: bool = False
) -> tuple[PublishedTable, ...]:
    """The tables of one dataset, as its paper names it, in one direction."""
    wanted = (dataset, direction, by_difference)
    return tuple(
        one
        for one in published_tables()
        if (one.dataset, one.direction, one.is_by_difference) == wanted
    )


# The datasets that the scores were measured on.


class NamedDataset(Record):
    """A dataset of the tables; see `reproduce/datasets.toml`."""

    where: str = ""
    format: str = ""
    flow: str = ""
    train_pairs: int = 0
    test: tuple[int, int]

    @property
    def how_to_get(self) -> str:
        """How to get a release of it, in words."""
        ways = []
        if self.where:
            ways.append(
                f"download {self.where}, import it as {self.format} and build a release "
                f"(docs/evaluation.md#published-datasets)"
            )
        if self.flow:
            ways.append(f"build one like it: loupe run {self.flow}")
        return "; or ".join(ways)


@cache
def named_datasets() -> dict[str, NamedDataset]:
    """The datasets of the tables by name."""
    values = tomllib.loads(_DATASETS.read_text("utf-8"))
    return {name: NamedDataset.model_validate(one) for name, one in values.items()}
