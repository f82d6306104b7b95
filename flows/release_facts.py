"""What the curators of this installation state of its releases: `releases.toml`.

Beside the database, or where `LOUPE_RELEASES_FILE` says. What stands under `[all]` is stated of
every dataset, what stands under `[datasets.NAME]` of that one, instead of it.
"""

import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from schemas.base import Record
from schemas.errors import ConfigurationError, UsageError
from schemas.faults import fault_of
from schemas.release_about import ReleaseAbout


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
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return Statements()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read as TOML: {error}") from error
    try:
        return Statements.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {fault_of(error)}") from error


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
