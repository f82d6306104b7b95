"""What a withdrawal cannot reach: told at its end, with the places that are known."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from db.entities import parents_of
from db.releases import list_releases
from db.reviews import tasks_to_erase
from db.store import Store
from db.withdrawal_names import names_of
from db.withdrawal_notices import notices_of
from db.withdrawals import StoredWithdrawal, withdrawn_entities
from release.export.record import read_export
from release.manifest import read_manifest
from release.notices_files import NOTICES
from release.report.record import REPORT, ReportRecord

DRAWN = ("demonstration", "rendered")
"""The folders below the home that hold pictures which were drawn here, to be imported."""

_MADE_HERE = ("downloaded_from", "found_as", "edited_as", "accepted_from", "crop_of")
"""What pictures were made from here that no source has a file of."""


class Unreached(NamedTuple):
    """What must be removed, or told, by people.

    Attributes:
        made: folders beside releases with exports and reports of one that holds any of it, and
            copies of one.
        originals: by source, the files that go as the source calls them; not what was found,
            edited or cut here.
        drawn: those of them that lie below the home.
        notices: the files to be published.
        on_desks: by review server, how many tasks lie there that are still to be deleted.
    """

    made: tuple[Path, ...]
    originals: dict[str, tuple[str, ...]]
    drawn: tuple[Path, ...]
    notices: tuple[Path, ...]
    on_desks: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """As it is printed for programs."""
        return {
            "made_before": [str(path) for path in self.made],
            "originals": {source: list(files) for source, files in self.originals.items()},
            "drawn_here": [str(path) for path in self.drawn],
            "to_publish": [str(path) for path in self.notices],
            "on_review_servers": self.on_desks,
        }


def unreached(store: Store, home: Path, withdrawal: StoredWithdrawal) -> Unreached:
    """What of a withdrawal is left where it cannot be reached from here, as far as it is known."""
    notices = notices_of(store, withdrawal.id)
    withdrawn = withdrawn_entities(store, withdrawal.id)
    with store.read() as connection:
        named = names_of(connection, withdrawn)
    made = {id_ for role in _MADE_HERE for id_ in parents_of(store, withdrawn, role)}
    originals: dict[str, set[str]] = {}
    for one in (one for id_, one in named.items() if id_ not in made):
        if one.file_path is not None and one.source is not None:
            originals.setdefault(one.source, set()).add(one.file_path)
    known = {one.folder.resolve() for one in list_releases(store)}
    beside = {folder.parent for folder in known} | {home.resolve()}
    told = {one.dataset for one in notices}
    return Unreached(
        tuple(_made_of({one.release for one in notices}, beside, known)),
        {source: tuple(sorted(files)) for source, files in sorted(originals.items())},
        tuple(_drawn(home, {file for files in originals.values() for file in files})),
        tuple(home / NOTICES / f"{dataset}.json" for dataset in sorted(told)),
        dict(sorted(Counter(one.server for one in tasks_to_erase(store, withdrawal.id)).items())),
    )


def _made_of(
    releases: AbstractSet[str], folders: Iterable[Path], known: Collection[Path]
) -> Iterator[Path]:
    """The folders in `folders` that were made of one of these releases, but for `known` ones."""
    for folder in sorted(folders):
        for made in sorted(folder.glob("*")):
            if (
                made.is_dir()
                and made.resolve() not in known
                and not releases.isdisjoint(_ids_of(made))
            ):
                yield made


def _ids_of(folder: Path) -> Iterator[str]:
    """The ids of the releases that the folder of an export, a report or a copy was made of."""
    with suppress(OSError, ValueError):
        yield read_export(folder).release
    with suppress(OSError, ValueError):
        report = ReportRecord.model_validate_json((folder / REPORT).read_bytes())
        yield report.release
        if report.previous is not None:
            yield report.previous
    with suppress(OSError, ValueError):
        yield read_manifest(folder).id


def _drawn(home: Path, files: Collection[str]) -> Iterator[Path]:
    """The files that lie below the home because they were drawn there."""
    if not files:
        return
    endings = {file.rpartition("/")[2]: set[str]() for file in files}
    for file in files:
        endings[file.rpartition("/")[2]].add(f"/{file}")
    for folder in DRAWN:
        for path in sorted((home / folder).rglob("*")):
            wanted = endings.get(path.name, ())
            if any(path.as_posix().endswith(ending) for ending in wanted):
                yield path
