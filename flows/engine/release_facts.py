"""Facts of releases that the curators of this installation state in `releases.toml`."""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from loupe.db.entities import datasets_of, find
from loupe.db.store import Store
from loupe.schemas.base import Record
from loupe.schemas.build import AcceptedShortcut
from loupe.schemas.encoding import ReleasedImages
from loupe.schemas.errors import UsageError
from loupe.schemas.records import Source
from loupe.schemas.release import ReleaseAbout
from loupe.schemas.text_files import read_settings
from loupe.schemas.validation import nearest_hint


class Statement(ReleaseAbout):
    """Statements about one dataset, or about all.

    Attributes:
        permitted_terms: why the terms of a source permit the release, by source name.
        images: how images are released, as in a build file.
        accepted_shortcuts: what blind opponents may find, as in a build file.
    """

    permitted_terms: dict[str, str] = Field(default_factory=dict)
    images: ReleasedImages | None = None
    accepted_shortcuts: tuple[AcceptedShortcut, ...] = ()


class Statements(Record):
    """The content of `releases.toml`; `of_all` is its table `[all]`."""

    of_all: Statement = Field(default=Statement(), alias="all")
    datasets: dict[str, Statement] = Field(default_factory=dict)


class ReleaseFacts(NamedTuple):
    """Facts of a release; `permitted_terms` are reasons by source.

    `images` and `accepted_shortcuts` are those of a build (`loupe.schemas.build.Build`).
    """

    about: ReleaseAbout | None
    permitted_terms: Mapping[str, str]
    images: ReleasedImages | None = None
    accepted_shortcuts: tuple[str, ...] = ()


def release_facts(
    file: Path,
    dataset: str,
    *,
    date_released: str | None = None,
    permitted_by: tuple[str, ...] = (),
) -> ReleaseFacts:
    """Return the facts of the next release of a dataset; empty without the file.

    Args:
        file: the `releases.toml`.
        dataset: the dataset.
        date_released: the day when this release is published (ISO 8601).
        permitted_by: `SOURCE=REASON`, terms that permit this release.

    Raises:
        ConfigurationError: the file is invalid.
        UsageError: `date_released` or `permitted_by` is invalid.
    """
    stated = _read(file)
    one = stated.datasets.get(dataset, Statement())
    values = stated.of_all.model_dump() | one.model_dump()
    permitted = {**stated.of_all.permitted_terms, **one.permitted_terms, **_pairs(permitted_by)}
    for name in Statement.model_fields.keys() - ReleaseAbout.model_fields.keys():
        del values[name]
    if date_released is not None:
        values["date_released"] = _day(date_released)
    about = ReleaseAbout.model_validate(values)
    return ReleaseFacts(
        None if about == ReleaseAbout() else about,
        permitted,
        one.images or stated.of_all.images,
        (*stated.of_all.accepted_shortcuts, *one.accepted_shortcuts),
    )


def _read(file: Path) -> Statements:
    return read_settings(file, Statements, str(file)) if file.exists() else Statements()


def unknown_names(file: Path, facts: ReleaseFacts, store: Store) -> Iterator[str]:
    """Warn about each dataset or source in the file that is unknown.

    It may be imported later, or its name is misspelled and the statement has no effect.
    """
    datasets = datasets_of(store)
    for name in sorted(_read(file).datasets.keys() - set(datasets)):
        hint = nearest_hint(name, datasets)
        yield f"{file} refers to {name!r}, which is not a dataset; {hint}"
    sources = {
        one.record(Source).name for known in datasets for one in find(store, known, Source.kind)
    }
    for name in sorted(facts.permitted_terms.keys() - sources):
        problem = f"permitted_terms names {name!r}, which is not a source"
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
        raise UsageError(f"a date must have the form 2026-11-22; got {text!r}") from error
