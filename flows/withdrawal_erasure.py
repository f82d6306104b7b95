"""What a withdrawal erases beside files of the blob store, found out and changed by nothing."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from db.entities import datasets_of
from db.evaluations import count_showing
from db.store import Store
from flows.withdrawal_pages import pages_of
from flows.withdrawal_releases import AffectedRelease
from release.manifest import MANIFEST, read_manifest
from release.notices_erasure import files_to_erase
from release.notices_files import read_mark
from schemas.errors import IntegrityError
from schemas.withdrawal import Ground


class Erasure(NamedTuple):
    """What is erased of releases and pages.

    Attributes:
        releases: by the id of a release, the files of its folder that go, as they are called there.
        marked: the ids of releases whose folders tell of all that goes already.
        pages: where below the home pages lie that go.
        evaluations: how many show any of it in an example, which goes.
    """

    releases: Mapping[str, tuple[str, ...]]
    marked: frozenset[str]
    pages: tuple[str, ...]
    evaluations: int


def erasure_of_releases(
    affected: Iterable[AffectedRelease], ground: Ground, *, erases: bool
) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """The files that go of each release, by id, and the releases that are marked already."""
    files, marked = dict[str, tuple[str, ...]](), set[str]()
    for one in affected:
        id_, folder = one.release.manifest.id, one.release.folder
        if not _lies_in(folder, id_):
            continue
        if erases:
            files[id_] = _files(one, ground)
        if _is_marked(one):
            marked.add(id_)
    return files, frozenset(marked)


def erasure_of_pages(
    store: Store, home: Path | None, entities: Collection[str], datasets: Iterable[str]
) -> tuple[tuple[str, ...], int]:
    """The pages below the home that go, and how many evaluations show any of the entities."""
    pages = pages_of(home, datasets, known=datasets_of(store)) if home is not None else []
    return tuple(pages), count_showing(store, entities)


def _files(affected: AffectedRelease, ground: Ground) -> tuple[str, ...]:
    folder = affected.release.folder
    found = files_to_erase(folder, [affected.notice("planned", ground)])
    return tuple(sorted(path for path in found if (folder / path).is_file()))


def _is_marked(affected: AffectedRelease) -> bool:
    try:
        mark = read_mark(affected.release.folder)
    except IntegrityError:
        return False
    return mark is not None and affected.is_told(mark.notices)


def _lies_in(folder: Path, release: str) -> bool:
    if not (folder / MANIFEST).is_file():
        return False
    try:
        return read_manifest(folder).id == release
    except (ValidationError, ValueError, OSError):
        return False
