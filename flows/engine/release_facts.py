"""What the curators of this installation state of its releases: `releases.toml`."""

import reprlib
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from db.entities import datasets_of, find
from db.store import Store
from schemas.base import Record
from schemas.errors import ConfigurationError, UsageError
from schemas.faults import fault_of, known_keys, nearest_hint, unknown_key
from schemas.records import Source
from schemas.release import ReleaseAbout
from schemas.toml_file import read_toml

_WANTED = {
    "tuple_type": "must be a list, [{ … }, { … }]",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "string_type": "must be text in quotes",
}
"""What pydantic's words for kinds of values are in TOML."""


class Statement(ReleaseAbout):
    """What is stated of one dataset, or of all.

    Attributes:
        permitted_terms: by the name of a source, why its terms permit the release.
    """

    permitted_terms: dict[str, str] = Field(default_factory=dict)


class Statements(Record):
    """A `releases.toml`; `of_all` is its table `[all]`."""

    of_all: Statement = Field(default=Statement(), alias="all")
    datasets: dict[str, Statement] = Field(default_factory=dict)


class ReleaseFacts(NamedTuple):
    """What is stated of a release; `permitted_terms` are reasons by source."""

    about: ReleaseAbout | None
    permitted_terms: Mapping[str, str]


def release_facts(
    file: Path,
    dataset: str,
    *,
    date_released: str | None = None,
    permitted_by: tuple[str, ...] = (),
) -> ReleaseFacts:
    """What is stated of the next release of a dataset; without the file, nothing.

    Args:
        file: the `releases.toml`.
        dataset: the dataset.
        date_released: the day that this release is published on (ISO 8601).
        permitted_by: `SOURCE=REASON`, terms that permit this release.

    Raises:
        ConfigurationError: the file is wrong.
        UsageError: one of the other two is.
    """
    stated = _read(file)
    one = stated.datasets.get(dataset, Statement())
    values = stated.of_all.model_dump() | one.model_dump()
    permitted = {**stated.of_all.permitted_terms, **one.permitted_terms, **_pairs(permitted_by)}
    del values["permitted_terms"]
    if date_released is not None:
        values["date_released"] = _day(date_released)
    about = ReleaseAbout.model_validate(values)
    return ReleaseFacts(None if about == ReleaseAbout() else about, permitted)


def _read(file: Path) -> Statements:
    if not file.exists():
        return Statements()
    values = read_toml(file, str(file))
    try:
        return Statements.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {_fault(error)}") from error


def _fault(error: ValidationError) -> str:
    """The first fault of a file, in the words of those who write one."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return unknown_key(place, known_keys(Statements, first["loc"]))
    if wanted := _WANTED.get(first["type"]):
        return f"{place} {wanted}; got {reprlib.repr(first['input'])}"
    return fault_of(error)


def unknown_names(file: Path, facts: ReleaseFacts, store: Store) -> Iterator[str]:
    """A sentence for each dataset or source that something is stated of and nobody knows.

    They may be known later; or somebody misspelt them, and nothing comes of what is stated.
    """
    datasets = datasets_of(store)
    for name in sorted(_read(file).datasets.keys() - set(datasets)):
        hint = nearest_hint(name, datasets)
        yield f"{file} states something of {name!r}, which is no dataset; {hint}"
    sources = {
        one.record(Source).name for known in datasets for one in find(store, known, Source.kind)
    }
    for name in sorted(facts.permitted_terms.keys() - sources):
        problem = f"permitted_terms names {name!r}, which is no source"
        yield f"{problem}; {nearest_hint(name, sources)}"


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for one in given:
        source, equals, reason = one.partition("=")
        if not (source.strip() and equals and reason.strip()):
            raise UsageError(f"--permitted-by must be SOURCE=REASON; got {one!r}")
        pairs[source.strip()] = reason.strip()
    return pairs


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"a date must be year, month and day, 2026-11-22; got {text!r}") from error
