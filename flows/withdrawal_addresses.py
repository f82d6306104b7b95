"""What holders of a release name, found in the store: a row by its file, a person by number."""

import re
from pathlib import Path

from pydantic import ValidationError

from db.releases import StoredRelease, find_release, list_releases
from db.store import Store
from db.withdrawal_targets import WithdrawalTarget
from flows.withdrawal_rows import Person, RowEntities, rows_of
from release.manifest import MANIFEST, read_manifest
from schemas.errors import UsageError

_FILE = re.compile(r"(?:images/)?((?:[0-9]+_)?[1-9][0-9]*\.[a-z]+)")
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")


def is_file_of_row(name: str) -> bool:
    """Whether images of releases are called like `name`: `images/12.jpg`, `12.jpg`."""
    return _FILE.fullmatch(name) is not None


def image_in_release(store: Store, release: str, name: str) -> WithdrawalTarget:
    """The image in a row that is named by its file, such as `images/12.jpg`, or by its number.

    `release` is a folder, or called as `db.releases.find_release` says.

    Raises:
        UsageError: there is no such release or row.
    """
    stored = _release_called(store, release)
    rows = _rows(store, stored)
    file = _FILE.fullmatch(name)
    found = [
        row.image_id
        for row in rows
        if (file and row.file_path == f"images/{file[1]}")
        or (_NUMBER.fullmatch(name) and row.number == int(name))
    ]
    if len(found) != 1:
        raise UsageError(
            f"{_called(stored)} has no row {name!r}; wanted the file of an image, such as "
            f"'{rows[0].file_path}', or a number from 1 to {len(rows):,}"
        )
    return WithdrawalTarget(sort="entity", name=found[0])


def person_in_release(store: Store, release: str, number: str) -> WithdrawalTarget:
    """The person whom a release calls `number` (`id`), as the source calls them.

    Raises:
        UsageError: there is no such release or person, or it numbers images and no persons.
    """
    stored = _release_called(store, release)
    if stored.manifest.statistics.contrasts is not None:
        raise UsageError(
            f"in {_called(stored)} 'id' counts images and no persons: name an image, such as "
            f"images/1.jpg, with --release"
        )
    people = {row.person for row in _rows(store, stored) if str(row.person.id) == number}
    if len(people) != 1:
        raise UsageError(
            f"{_called(stored)} tells of no person with the id {number!r}; ids are numbers from 1"
        )
    (person,) = people
    return WithdrawalTarget(
        sort="identity", name=person.name, dataset=stored.manifest.dataset, source=person.source
    )


def refuse_two_meanings(store: Store, dataset: str, name: str) -> None:
    """Makes sure that `name` is not also the number under which another person is published.

    Sources name persons, often by numbers; releases count them anew from 1.

    Raises:
        UsageError: it is.
    """
    newest = {one.manifest.tier: one for one in list_releases(store, dataset)}
    for stored in newest.values():
        if stored.manifest.statistics.contrasts is not None:
            continue
        for person in sorted({row.person for row in rows_of(store, stored) or ()}):
            if str(person.id) == name and person.name != name:
                raise UsageError(_two_meanings(stored, person))


def _two_meanings(stored: StoredRelease, person: Person) -> str:
    name = f"{stored.manifest.dataset}@{stored.manifest.version}"
    return (
        f"{str(person.id)!r} can mean two persons: who is called so by a source, and who is "
        f"published under that id in {_called(stored)} (called {person.name!r} by "
        f"{person.source}): say which with --source SOURCE, or with --release {name} in the place "
        f"of --dataset"
    )


def _release_called(store: Store, name: str) -> StoredRelease:
    """A release that the store knows; where a folder is named, that is read where it can be."""
    folder = Path(name)
    if not folder.is_dir():
        return find_release(store, name)
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    try:
        manifest = read_manifest(folder)
    except (ValidationError, ValueError, OSError) as error:
        raise UsageError(f"{folder / MANIFEST} is no manifest of a release") from error
    for one in list_releases(store, manifest.dataset):
        if one.manifest.id == manifest.id:
            return one._replace(folder=folder)
    raise UsageError(
        f"{manifest.dataset} {manifest.version} in {folder} was not built here; find the picture "
        f"by its bytes: --file {folder}/images/…"
    )


def _rows(store: Store, stored: StoredRelease) -> list[RowEntities]:
    rows = rows_of(store, stored)
    if not rows:
        raise UsageError(
            f"the rows of {_called(stored)} cannot be told any more: its folder {stored.folder} is "
            f"gone, or was erased in part"
        )
    return rows


def _called(stored: StoredRelease) -> str:
    return f"{stored.manifest.dataset} {stored.manifest.version}"
