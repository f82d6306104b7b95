"""Pages that show withdrawn entities, and residual copies that people must remove."""

import shutil
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
from db.withdrawal_graph import names_of
from db.withdrawals import StoredWithdrawal, notices_of, withdrawn_entities
from release.export.formats import read_export
from release.manifest import manifest_in
from release.notices_files import NOTICES
from release.report.page import REPORT, ReportRecord
from schemas.provenance import Role

PAGES = ("reports", "leaderboards")
"""The folders below the home that contain only pages.

In other folders, releases and notices are marked, and files of the blob store are erased by digest;
`DRAWN` contains images to import, `trainings` contains models.
"""
DRAWN = ("demonstration", "rendered")
"""The folders below the home with images drawn here, to be imported."""
_MADE_HERE = (Role.DOWNLOADED_FROM, Role.FOUND_AS, Role.EDITED_AS, Role.ACCEPTED_FROM, Role.CROP_OF)
"""The roles of images made here, which have no file in any source."""


def erase_pages(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Remove all pages of these datasets, and return their paths below the home.

    Pages are named after their dataset. Their content is not read: all pages of a dataset are
    removed. Running the build, `loupe evaluate` or `loupe leaderboard` again writes them without
    withdrawn entities. `known` are the other datasets: a page of `people-two` does not belong to
    `people`.
    """
    removed = pages_of(home, datasets, known)
    for path in (home / page for page in removed):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return removed


def pages_of(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Return the paths below the home of the pages of these datasets; see `erase_pages`."""
    wanted = set(datasets)
    names = wanted.union(known)
    return [
        f"{folder}/{path.name}"
        for folder in PAGES
        for path in sorted((home / folder).glob("*"))
        if _dataset_of(path.name, names) in wanted
    ]


def _dataset_of(page: str, names: Collection[str]) -> str | None:
    """Return the dataset with the longest name after which a page may be named."""
    whole = page.lstrip(".")  # a page that was being written when its run was killed
    fitting = (name for name in names if whole.startswith((f"{name}-", f"{name}.")))
    return max(fitting, key=len, default=None)


class ResidualCopies(NamedTuple):
    """Copies that people must remove, and notices that they must publish.

    Attributes:
        made: exports, reports and copies of affected releases in the folders of releases.
        originals: the withdrawn files by source, as the source names them, without images that were
            found, edited or cropped here.
        drawn: the original files below the home.
        notices: the files to publish.
        on_desks: number of tasks that still must be deleted, by Label Studio server.
    """

    made: tuple[Path, ...]
    originals: dict[str, tuple[str, ...]]
    drawn: tuple[Path, ...]
    notices: tuple[Path, ...]
    on_desks: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the copies as they are printed for programs."""
        return {
            "made_before": [str(path) for path in self.made],
            "originals": {source: list(files) for source, files in self.originals.items()},
            "drawn_here": [str(path) for path in self.drawn],
            "to_publish": [str(path) for path in self.notices],
            "on_review_servers": self.on_desks,
        }


def residual_copies(store: Store, home: Path, withdrawal: StoredWithdrawal) -> ResidualCopies:
    """Return the known copies of withdrawn entities that cannot be removed by Loupe."""
    notices = notices_of(store, withdrawal.id)
    withdrawn = withdrawn_entities(store, withdrawal.id)
    with store.read() as connection:
        named = names_of(connection, withdrawn)
    made = {id_ for role in _MADE_HERE for id_ in parents_of(store, withdrawn, role)}
    originals: dict[str, set[str]] = {}
    for id_, one in named.items():
        if id_ not in made and one.file_path is not None and one.source is not None:
            originals.setdefault(one.source, set()).add(one.file_path)
    known = {one.folder.resolve() for one in list_releases(store)}
    parents = {folder.parent for folder in known} | {home.resolve()}
    datasets = sorted({one.dataset for one in notices})
    drawn = files_below(
        (home / folder for folder in DRAWN), {one for many in originals.values() for one in many}
    )
    return ResidualCopies(
        tuple(_made_from({one.release for one in notices}, parents, known)),
        {source: tuple(sorted(files)) for source, files in sorted(originals.items())},
        tuple(dict.fromkeys(file for _, file in drawn)),
        tuple(home / NOTICES / f"{dataset}.json" for dataset in datasets),
        dict(sorted(Counter(one.server for one in tasks_to_erase(store, withdrawal.id)).items())),
    )


def _made_from(
    releases: AbstractSet[str], parents: Iterable[Path], known: Collection[Path]
) -> Iterator[Path]:
    """Return the folders in `parents` made from one of these releases, except `known` ones."""
    for parent in sorted(parents):
        for made in sorted(parent.glob("*")):
            if (
                made.is_dir()
                and made.resolve() not in known
                and not releases.isdisjoint(_releases_in(made))
            ):
                yield made


def _releases_in(folder: Path) -> Iterator[str]:
    """Return ids of the releases from which an export, a report or a copy in `folder` was made."""
    with suppress(OSError, ValueError):
        yield read_export(folder).release
    with suppress(OSError, ValueError):
        report = ReportRecord.model_validate_json((folder / REPORT).read_bytes())
        yield report.release
        if report.previous is not None:
            yield report.previous
    if (manifest := manifest_in(folder)) is not None:
        yield manifest.id


def files_below(roots: Iterable[Path], paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield (path, file) for each file below `roots` whose path ends with one of `paths`."""
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    for root in roots if by_name else ():
        for file in sorted(root.rglob("*")):
            for path in by_name.get(file.name, ()):
                if file.as_posix().endswith(f"/{path}"):
                    yield path, file
