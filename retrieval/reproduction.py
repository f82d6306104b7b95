"""The matrices of `loupe reproduce`: how each row of the papers' tables is computed."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from loupe.retrieval.published import published_tables
from loupe.schemas.base import Record
from loupe.schemas.errors import UsageError
from loupe.schemas.evaluation import DIRECTIONS, Direction

_FOLDER = Path(__file__).with_name("reproduce")
PAPERS = ("ufinebench", "recos", "ccd")
_IN_NO_LIBRARY = (
    "in no library: score vectors of its authors' code ([[models]], docs/reproduction.md)"
)


class Recipe(Record):
    """How a row is computed: by a training, by an embedder, or not by Loupe.

    `training` holds changes to the paper's settings of CFAM; `embedder` is
    `PROVIDER:NAME@REVISION`, with `options` of its specification. `of` has other recipes for some
    datasets. `per_second` is the number of pairs trained, or of images and texts embedded, if a row
    is much slower than others.
    """

    training: dict[str, Any] | None = None
    embedder: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    of: "dict[str, Recipe]" = Field(default_factory=dict)
    unavailable: str = ""
    note: str = ""
    per_second: float | None = None

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        if sum((self.training is not None, bool(self.embedder), bool(self.unavailable))) != 1:
            raise ValueError("a row needs one of training, embedder and unavailable")
        return self


class Absent(Record):
    """Tables and figures of a paper that `loupe reproduce` does not have, and why."""

    what: tuple[str, ...]
    because: str


class PublishedScores(NamedTuple):
    """The published scores of a row in one direction."""

    direction: Direction
    scores: dict[str, float]
    disputed: str


class Experiment(NamedTuple):
    """A row of a table on one dataset: a model, what it is trained on, and what is published."""

    model: str
    recipe: Recipe
    trained_on: str
    dataset: str
    published: tuple[PublishedScores, ...]

    @property
    def label(self) -> str:
        """The row in words."""
        trained = f", trained on {self.trained_on}" if self.trained_on else ""
        return f"{self.model}{trained}, on {self.dataset}"


class _Matrix(Record):
    tables: dict[str, tuple[str, ...]]
    models: dict[str, Recipe]
    absent: tuple[Absent, ...]


@cache
def _matrix(paper: str) -> _Matrix:
    values = tomllib.loads((_FOLDER / f"{paper}.toml").read_text("utf-8"))
    for model in values.pop("in_no_library", ()):
        values["models"][model] = {"unavailable": _IN_NO_LIBRARY}
    return _Matrix.model_validate(values)


def table_names() -> list[str]:
    """The tables that can be reproduced, as `PAPER/TABLE`."""
    return [f"{paper}/{table}" for paper in PAPERS for table in _matrix(paper).tables]


def absent_from(paper: str) -> tuple[Absent, ...]:
    """The tables and figures of a paper that cannot be reproduced."""
    return _matrix(paper).absent


def model_names() -> list[str]:
    """The models of all tables."""
    return [model for paper in PAPERS for model in _matrix(paper).models]


def experiments_of(table: str, rows: tuple[str, ...] = ()) -> tuple[Experiment, ...]:
    """The rows of a table, `PAPER/TABLE`; with `rows`, those whose label contains one of these.

    Raises:
        UsageError: there is no such table, or no such row in it.
    """
    paper, _, name = table.partition("/")
    if table not in table_names():
        for absent in absent_from(paper) if paper in PAPERS else ():
            if name in absent.what:
                raise UsageError(f"{table} is not reproduced: {absent.because}")
        raise UsageError(f"{table!r} is none of the tables {', '.join(table_names())}")
    matrix = _matrix(paper)
    found: dict[tuple[str, str, str], list[PublishedScores]] = {}
    for one in published_tables():
        if one.paper == paper and one.place in matrix.tables[name]:
            for row in one.rows:
                scores = dict(zip(one.metrics, row.scores, strict=True))
                key = (row.model, one.trained_on, one.dataset)
                found.setdefault(key, []).append(
                    PublishedScores(one.direction, scores, row.disputed)
                )
    experiments = [
        Experiment(
            model,
            matrix.models[model].of.get(dataset, matrix.models[model]),
            trained_on,
            dataset,
            tuple(sorted(scores, key=lambda one: DIRECTIONS.index(one.direction))),
        )
        for (model, trained_on, dataset), scores in found.items()
    ]
    for words in rows:
        if not any(_names(words, one) for one in experiments):
            models = "; ".join(dict.fromkeys(one.model for one in experiments))
            raise UsageError(f"{table} has no row {words!r}; its models are {models}")
    return tuple(one for one in experiments if not rows or any(_names(row, one) for row in rows))


def _names(words: str, experiment: Experiment) -> bool:
    """Whether the words are in the label, not inside of others."""
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)"
    return re.search(pattern, experiment.label, re.IGNORECASE) is not None
