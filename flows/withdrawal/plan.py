"""Plan a withdrawal from the store: what depends on it, which pages and copies remain."""

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection

from loupe.db.entities import AgentRef, datasets_of, parents_of
from loupe.db.evaluations import count_showing
from loupe.db.releases import list_releases
from loupe.db.reviews import review_tasks
from loupe.db.store import Store
from loupe.db.withdrawal_graph import (
    Blob,
    Closure,
    Named,
    WithdrawalTarget,
    blobs_of,
    closure,
    dropped_crops,
    find_targets,
    names_of,
    needed_blobs,
    refused_digests,
)
from loupe.db.withdrawal_traces import judged_alone
from loupe.db.withdrawals import (
    StoredWithdrawal,
    WithdrawalRequest,
    earlier_of,
    extend_withdrawal,
    key_of,
    notices_of,
    record_withdrawal,
    related_releases,
    withdrawn_entities,
)
from loupe.flows.withdrawal.releases import Affected, AffectedRelease, affected_releases, is_outside
from loupe.release.format.files import leftovers_in
from loupe.release.format.manifest import MANIFEST, manifest_in, read_values
from loupe.release.withdrawn.files import NOTICES
from loupe.release.withdrawn.notices import files_to_erase
from loupe.schemas.provenance import Role
from loupe.schemas.withdrawal import ERASING, Ground, WithdrawalCount

PAGES = ("reports", "leaderboards")
"""The folders below the home that contain only pages.

In other folders, releases and notices are marked, and files of the blob store are erased by digest;
`demonstration` and `rendered` contain images to import, `trainings` contains models.
"""
_NAMING_RELEASES = {
    MANIFEST: ("id",),
    "export.json": ("release",),
    "report.json": ("release", "previous"),
}
"""The files of copies, exports and reports that name releases, and where."""
_MADE_HERE = (Role.DOWNLOADED_FROM, Role.FOUND_AS, Role.EDITED_AS, Role.ACCEPTED_FROM, Role.CROP_OF)
"""The roles of images made here, which have no file in any source."""


def erase_pages(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Remove all pages of these datasets, and return their paths below the home.

    Pages are named after their dataset. Their content is not read: all pages of a dataset are
    removed. Running the build, `loupe evaluate` or `loupe leaderboard` again writes them without
    withdrawn entities. `known` are the other datasets: a page of `people-two` does not belong to
    `people`.
    """
    removed = _pages_of(home, datasets, known)
    for path in (home / page for page in removed):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return removed


def _pages_of(home: Path, datasets: Iterable[str], known: Iterable[str] = ()) -> list[str]:
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
        made: exports, reports and copies of affected releases in the folders of releases, and what
            interrupted builds left in those outside the home.
        originals: the withdrawn files by source, as the source names them, without images that were
            found, edited or cropped here.
        notices: the files to publish.
        on_desks: number of tasks that still must be deleted, by Label Studio server.
    """

    made: tuple[Path, ...]
    originals: dict[str, tuple[str, ...]]
    notices: tuple[Path, ...]
    on_desks: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the copies as they are printed for programs."""
        return {
            "made_before": [str(path) for path in self.made],
            "originals": {source: list(files) for source, files in self.originals.items()},
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
    to_erase = review_tasks(store, erased_by=withdrawal.id).values()
    made_from = [*_made_from({one.release for one in notices}, parents, known)]
    for parent in sorted(parents):
        if is_outside(store, parent):
            made_from += leftovers_in(parent)
    return ResidualCopies(
        tuple(made_from),
        {source: tuple(sorted(files)) for source, files in sorted(originals.items())},
        tuple(home / NOTICES / f"{dataset}.json" for dataset in datasets),
        dict(sorted(Counter(one.server for one in to_erase).items())),
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


def _releases_in(folder: Path) -> set[str]:
    """Return ids of the releases from which an export, a report or a copy in `folder` was made."""
    found = set[str]()
    for name, keys in _NAMING_RELEASES.items():
        with suppress(OSError, ValueError):
            values = read_values(folder / name)
            found.update(str(values.get(key)) for key in keys)
    return found


ANNOTATOR = "annotator"


class WithdrawalPlan(NamedTuple):
    """What would be withdrawn and erased, and what would stay.

    Attributes:
        request: the request.
        reached: all entities to withdraw, by id with the reason, including those already withdrawn.
        named: files and texts by which people know them, by id, if any.
        reopened: entities to decide on again.
        refused: digests of files that are not imported again.
        erased: files in the blob store to erase.
        kept: files that are kept although their entity is withdrawn, with the entity that needs
            each.
        affected: the affected releases, and the patches that replace them.
        release_files: files to erase in folders of releases, by release.
        pages: pages to erase below the home.
        evaluations: number of stored evaluations with withdrawn examples, which are erased.
        related: the ids of all releases of the datasets of the affected ones.
        earlier: withdrawals on the same request.
        outside: folders of affected releases outside the home, which are changed as well.
    """

    request: WithdrawalRequest
    reached: Closure
    named: Mapping[str, Named]
    reopened: tuple[str, ...]
    refused: frozenset[str]
    erased: tuple[Blob, ...]
    kept: Mapping[str, str]
    affected: Affected
    release_files: Mapping[str, tuple[str, ...]]
    pages: tuple[str, ...]
    evaluations: int
    related: frozenset[str]
    earlier: tuple[StoredWithdrawal, ...]
    outside: tuple[Path, ...]

    @property
    def new(self) -> list[str]:
        """Ids of the entities to withdraw that are not withdrawn yet."""
        return [id_ for id_, one in self.reached.items() if one.state != "withdrawn"]

    @property
    def is_done(self) -> bool:
        """True if finished withdrawals on the same request cover everything."""
        return bool(self.earlier) and not (self.unfinished or self.new or self.reopened)

    @property
    def unfinished(self) -> StoredWithdrawal | None:
        """A withdrawal on the same request that has remaining steps."""
        return next((one for one in self.earlier if not one.is_finished), None)

    def counts(self) -> list[WithdrawalCount]:
        """Count the withdrawn entities by dataset and kind."""
        found = Counter((one.dataset, one.kind) for one in self.reached.values())
        return [
            WithdrawalCount(dataset=dataset, kind=kind, entities=count)
            for (dataset, kind), count in sorted(found.items())
        ]

    def reasons(self) -> dict[str, int]:
        """Count the entities reached by each role, by equal bytes, and so on."""
        return dict(Counter(one.because for one in self.reached.values()).most_common())

    def as_json(self) -> dict[str, Any]:
        """Return the plan as it is printed for programs."""
        return {
            "target": self.request.target.model_dump(mode="json"),
            "ground": self.request.ground,
            "erases": self.request.erases,
            "counts": [one.model_dump(mode="json") for one in self.counts()],
            "reasons": self.reasons(),
            "entities": [
                {**one._asdict(), "is_new": one.state != "withdrawn", **self._name(one.id)}
                for one in self.reached.values()
            ],
            "reopened": list(self.reopened),
            "erased": [blob._asdict() for blob in self.erased],
            "kept": dict(self.kept),
            "releases": [self._release(one) for one in self.affected.releases],
            "outside": [str(folder) for folder in self.outside],
            "pages": list(self.pages),
            "evaluations": self.evaluations,
            "patches": [
                {
                    "dataset": one.base.manifest.dataset,
                    "tier": one.base.manifest.tier,
                    "from": one.base.manifest.version,
                    "version": one.version,
                    "rows": one.rows,
                }
                for one in self.affected.patches
            ],
            "earlier": [one.key for one in self.earlier],
        }

    def _name(self, entity_id: str) -> dict[str, str]:
        named = self.named.get(entity_id, Named())
        return {name: value for name, value in named._asdict().items() if value is not None}

    def _release(self, one: AffectedRelease) -> dict[str, Any]:
        manifest = one.release.manifest
        return {
            "release": manifest.id,
            "dataset": manifest.dataset,
            "version": manifest.version,
            "folder": str(one.release.folder),
            "rows": [row.model_dump(mode="json") for row in one.rows],
            "rows_undescribed": list(one.undescribed),
            "people": list(one.people),
            "erased": list(self.release_files.get(manifest.id, ())),
            "superseded_by": one.superseded_by,
        }


def request_of(target: WithdrawalTarget, ground: Ground, erases: bool | None) -> WithdrawalRequest:
    """Return a request; if `erases` is None, the ground determines whether files are erased."""
    return WithdrawalRequest(target, ground, ground in ERASING if erases is None else erases)


def plan_withdrawal(store: Store, request: WithdrawalRequest) -> WithdrawalPlan:
    """Plan a withdrawal without changing anything.

    Raises:
        UsageError: the target does not exist in the store.
        IntegrityError: the rows of an affected release cannot be read.
    """
    with store.read() as connection:
        reached = _closure(connection, request)
        earlier = tuple(earlier_of(connection, request))
        reopened = tuple(_reopened(connection, request, reached))
        refused, erased, kept = _files(connection, request, reached)
        related = frozenset(related_releases(connection, reached.keys()))
        named = names_of(connection, reached)
    affected = affected_releases(store, reached.keys())
    release_files, pages, evaluations = dict[str, tuple[str, ...]](), list[str](), 0
    if request.erases:
        release_files = _release_files(affected, request.ground)
        evaluations = count_showing(store, reached.keys())
    if request.erases and store.home is not None:
        datasets = {one.dataset for one in reached.values()}
        pages = _pages_of(store.home, datasets, known=datasets_of(store))
    return WithdrawalPlan(
        request,
        reached,
        named,
        reopened,
        refused,
        erased,
        kept,
        affected,
        release_files,
        tuple(pages),
        evaluations,
        related,
        earlier,
        tuple(_outside(store, affected)),
    )


def _outside(store: Store, affected: Affected) -> Iterator[Path]:
    """Yield the folders outside the home that are marked, and lose files if these are erased."""
    for one in affected.releases:
        folder = one.release.folder
        manifest = manifest_in(folder) if is_outside(store, folder) else None
        if manifest is not None and manifest.id == one.release.manifest.id:
            yield folder


def confirm(store: Store, plan: WithdrawalPlan, reason: str, agent: AgentRef) -> StoredWithdrawal:
    """Record the withdrawal as planned; its entities are withdrawn from now on.

    Raises:
        UsageError: the plan or the releases have changed since; nothing was recorded.
    """
    request = plan.request
    key = key_of(request, len(plan.earlier))

    def is_unchanged(connection: Connection) -> bool:
        reached = _closure(connection, request)
        return (
            reached.keys() == plan.reached.keys()
            and len(earlier_of(connection, request)) == len(plan.earlier)
            and related_releases(connection, reached.keys()) == plan.related
        )

    return record_withdrawal(
        store,
        key,
        request,
        reason,
        agent,
        is_unchanged,
        details={
            "patches": [
                {"base": one.base.manifest.id, "version": one.version, "rows": one.rows}
                for one in plan.affected.patches
            ],
            "entities": len(plan.reached),
            "reopened": len(plan.reopened),
            "files_erased": len(plan.erased),
            "files_kept": len(plan.kept),
            "releases": len(plan.affected.releases),
            "outside": [str(folder) for folder in plan.outside],
        },
        entities=plan.reached.keys(),
        reopened=plan.reopened,
        refused=plan.refused,
        erased=plan.erased,
        notices=[one.notice(key, request.ground) for one in plan.affected.releases],
    )


def sweep(store: Store, withdrawal: StoredWithdrawal) -> tuple[int, int]:
    """Withdraw what was derived from withdrawn entities after the withdrawal was recorded.

    The files of entities that were stored as withdrawn since are also to be erased.

    Returns:
        The number of added entities, and the new total of the withdrawal.
    """
    added, request = 0, withdrawal.request
    while True:
        with store.no_writers():  # waits for runs that have not seen the withdrawal
            pass
        known = set(withdrawn_entities(store, withdrawal.id))
        with store.read() as connection:
            reached = _closure(connection, request)
            new = reached.keys() - known
            refused, erased, _ = _files(connection, request, reached, known)
        extend_withdrawal(store, withdrawal, new, refused, erased)
        added += len(new)
        if not new:
            return added, len(known)


def _closure(connection: Connection, request: WithdrawalRequest) -> Closure:
    targets = find_targets(connection, request.target)
    return closure(connection, targets, reaches=_reaches_beyond(request))


def _reaches_beyond(request: WithdrawalRequest) -> bool:
    """Tell whether the same content elsewhere is withdrawn as well.

    False if the fault lies in the work on one dataset, which does not concern its subject.
    """
    return request.ground != "quality" and request.target.sort != ANNOTATOR


def _files(
    connection: Connection,
    request: WithdrawalRequest,
    reached: Closure,
    known: set[str] | None = None,
) -> tuple[frozenset[str], tuple[Blob, ...], Mapping[str, str]]:
    """Return the files to refuse and to erase, and those to keep with the entity that needs each.

    `known` are withdrawn entities that `reached` no longer contains.
    """
    held = {id_ for id_, one in reached.items() if one.holds}
    refused = refused_digests(connection, held) if _reaches_beyond(request) else set()
    withdrawn = reached.keys() | (known or set())
    blobs = set[Blob]()
    if request.erases:
        blobs = blobs_of(connection, held) | dropped_crops(connection, held, withdrawn)
    kept = needed_blobs(connection, blobs, withdrawn)
    erased = tuple(sorted(blob for blob in blobs if blob.sha256 not in kept))
    return frozenset(refused), erased, kept


def _reopened(connection: Connection, request: WithdrawalRequest, reached: Closure) -> list[str]:
    if request.target.sort != ANNOTATOR:
        return []
    return [one for one in judged_alone(connection, request.target.name) if one not in reached]


def _release_files(affected: Affected, ground: Ground) -> dict[str, tuple[str, ...]]:
    """Return the files to erase in existing folders of releases, by release."""
    found = {}
    for one in affected.releases:
        folder = one.release.folder
        manifest = manifest_in(folder)
        if manifest is not None and manifest.id == one.release.manifest.id:
            files = files_to_erase(folder, [one.notice("planned", ground)])
            existing = sorted(path for path in files if (folder / path).is_file())
            found[one.release.manifest.id] = tuple(existing)
    return found
