"""Store and list releases, which never change, and read the store as it was at a release."""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from loupe.db.entities import SHORTEST_PREFIX, pages
from loupe.db.store import Store, acquire_release_lock, home_of, reads, writes
from loupe.db.tables import (
    Activation,
    Decision,
    Entity,
    Release,
    ReleaseItem,
    Withdrawal,
    WithdrawnEntity,
    insert_new_text,
    select_columns,
)
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import Manifest
from loupe.schemas.withdrawal import version_numbers

# Versions of the store. Entities, decisions and activations are numbered as they are stored and
# never change: the last number of each identifies a version (`loupe.db.release_rows.snapshot`).


class StateMark(NamedTuple):
    """The last numbers that count of entities, decisions, activations and withdrawals.

    `correction` is the last entity number that counts for corrections of terms.
    """

    entity: int
    decision: int
    activation: int
    withdrawal: int
    correction: int


_MARKS = tuple(f"{name}_mark" for name in StateMark._fields)
"""The columns of a release with its mark."""


class StoreVersion(NamedTuple):
    """An earlier version of the store.

    Entities withdrawn since then count as withdrawn, so that they are never released again. With
    `then_withdrawn`, only those withdrawn by then do; callers must exclude the others themselves.
    With `corrected`, corrections of terms made since then count.
    """

    mark: StateMark
    then_withdrawn: bool = False
    corrected: bool = False


def current_mark(connection: Connection) -> StateMark:
    """Return the mark of what `connection`, a `loupe.db.release_rows.snapshot`, sees."""
    numbers = (Entity.seq, Decision.id, Activation.id, Withdrawal.id)
    queries = (select(func.coalesce(func.max(one), 0)) for one in numbers)
    entity, decision, activation, withdrawal = (
        connection.execute(query).scalar_one() for query in queries
    )
    return StateMark(entity, decision, activation, withdrawal, correction=entity)


def mark_after(connection: Connection, past: StoreVersion) -> StateMark:
    """Return the mark of what `connection` sees as it reads the version `past`."""
    if past.then_withdrawn:
        return past.mark
    now = current_mark(connection)
    correction = now.correction if past.corrected else past.mark.correction
    return past.mark._replace(withdrawal=now.withdrawal, correction=correction)


# Releases: stored once, listed, shown, never changed.

_REFERRED = ("prompt",)
"""Kinds that stay in releases when they are withdrawn, as other entities only refer to them."""


class StoredRelease(NamedTuple):
    """A release with its time, its folder, and the version of the store that it was built from.

    `inputs` is the digest of all inputs of its last build and `listing` that of its files, if known
    (`note_inputs`).
    """

    manifest: Manifest
    folder: Path
    built_at: datetime
    mark: StateMark
    inputs: str | None
    listing: str | None

    @property
    def name(self) -> str:
        """Return its dataset and version."""
        return self.manifest.name

    def existing_folder(self) -> Path:
        """Return the folder.

        Raises:
            UsageError: it no longer exists.
        """
        if not self.folder.is_dir():
            raise UsageError(
                f"{self.name} was built in {self.folder}, which no longer exists; give "
                f"the folder of a copy, or rebuild it with `loupe release rebuild`"
            )
        return self.folder


def store_release(
    store: Store,
    manifest: Manifest,
    folder: Path,
    entity_ids: Iterable[str],
    mark: StateMark,
    publish: Callable[[], None] = lambda: None,
) -> bool:
    """Store a release with its entities; return False if it was stored already.

    `publish` moves the folder into place. It runs inside the transaction, so that a version that
    already exists is not published, and a release that cannot be published is not stored. `mark`
    identifies the version of the store that it was built from.

    Raises:
        IntegrityError: the version exists with other content (releases are immutable), or
            an entity in it was withdrawn since that version of the store.
    """
    with store.write() as connection:
        acquire_release_lock(connection)
        query = select(Release.id).where(
            Release.dataset == manifest.dataset, Release.version == manifest.version
        )
        known = connection.execute(query).scalar_one_or_none()
        if known is not None and known != manifest.id:
            raise IntegrityError(
                f"{manifest.name} was released as {known[:12]}, and what would be released now is "
                f"{manifest.id[:12]}; releases never change: choose a new version"
            )
        if known is None:
            _insert(connection, manifest, folder, entity_ids, mark)
        _refuse_withdrawn(connection, manifest)
        publish()
    return known is None


def _refuse_withdrawn(connection: Connection, manifest: Manifest) -> None:
    query = (
        select(Entity.kind, Entity.id)
        .join(ReleaseItem, ReleaseItem.entity_id == Entity.id)
        .where(
            ReleaseItem.release_id == manifest.id,
            Entity.state == "withdrawn",
            Entity.kind.not_in(_REFERRED),
        )
        .limit(1)
    )
    if (found := connection.execute(query).first()) is not None:
        raise IntegrityError(
            f"{manifest.name} was not released: the {found.kind} {found.id[:12]} was withdrawn "
            f"while this was built; build it again"
        )


def adopt_folder(
    store: Store, release_id: str, folder: Path, is_held: Callable[[Path], bool]
) -> Path:
    """Return the folder of a release; it becomes `folder` if the stored one does not hold it.

    `is_held` returns whether a folder holds the release.
    """
    here = Release.id == release_id
    with store.read() as connection:
        place = connection.execute(select(Release.folder).where(here)).scalar_one()
        known = _folder_at(connection, place)
    if known.resolve() == folder.resolve() or is_held(known):
        return known
    with store.write() as connection:
        place = _stored_place(connection, folder)
        connection.execute(update(Release).where(here).values(folder=place))
    return folder


def _stored_place(connection: Connection, folder: Path) -> str:
    """Return the path of a folder as it is stored: relative to the home if it is below it.

    A home that was copied or moved thus finds its own releases, never those of the original.
    """
    if (home := home_of(connection)) is not None:
        plain = Path(os.path.abspath(folder)), Path(os.path.abspath(home))  # noqa: PTH100 - no `..`
        for path, base in (plain, (folder.resolve(), home.resolve())):
            if path.is_relative_to(base):
                return str(path.relative_to(base))
    return str(folder.absolute())


def _folder_at(connection: Connection, place: str) -> Path:
    """Return the folder that is stored as `place`."""
    home = home_of(connection)
    if home is None and not Path(place).is_absolute():
        raise UsageError(f"a release is in {place} of a home; open the store with that home")
    return (home or Path()) / place


def _insert(
    connection: Connection,
    manifest: Manifest,
    folder: Path,
    entity_ids: Iterable[str],
    mark: StateMark,
) -> None:
    row = {
        "id": manifest.id,
        "dataset": manifest.dataset,
        "version": manifest.version,
        "folder": _stored_place(connection, folder),
        "manifest": manifest.model_dump(mode="json"),
        "built_at": datetime.now(UTC),
        **dict(zip(_MARKS, mark, strict=True)),
    }
    connection.execute(insert(Release), row)
    for page in pages(entity_ids):
        items = [(manifest.id, entity_id) for entity_id in page]
        insert_new_text(connection, ReleaseItem, ("release_id", "entity_id"), items)


@reads
def list_releases(connection: Connection, dataset: str | None = None) -> list[StoredRelease]:
    """List all releases, or those of one dataset, by dataset and version."""
    columns = ("manifest", "folder", "built_at", "inputs", "listing", *_MARKS)
    query = select_columns(Release, columns)
    if dataset is not None:
        query = query.where(Release.dataset == dataset)
    releases = [
        StoredRelease(
            Manifest.model_validate(row.manifest),
            _folder_at(connection, row.folder),
            row.built_at,
            StateMark._make(row[-len(_MARKS) :]),
            row.inputs,
            row.listing,
        )
        for row in connection.execute(query)
    ]
    return sorted(
        releases, key=lambda one: (one.manifest.dataset, version_numbers(one.manifest.version))
    )


@writes
def note_inputs(connection: Connection, release_id: str, inputs: str, listing: str) -> None:
    """Store the digests of the inputs of a release and of the listing of its folder."""
    noted = update(Release).where(Release.id == release_id).values(inputs=inputs, listing=listing)
    connection.execute(noted)


def find_release(store: Store, name: str) -> StoredRelease:
    """Return the release `name`: a dataset (its newest), `dataset@version`, or six digits of an id.

    A dataset has precedence over an id that begins like it.

    Raises:
        UsageError: no release, or several, have that name.
    """
    dataset, at, version = name.partition("@")
    releases = list_releases(store)
    named = [
        one
        for one in releases
        if one.manifest.dataset == dataset and (not at or version == one.manifest.version)
    ]
    matching = [one for one in releases if name and one.manifest.id.startswith(name)]
    is_short = len(name) < SHORTEST_PREFIX
    found = named[-1:] or ([] if is_short else matching)
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.manifest.dataset}@{one.manifest.version}" for one in releases)
    count = "no release" if not found else f"{len(found)} releases"
    digits = f" (an id needs at least {SHORTEST_PREFIX} digits)" if matching and is_short else ""
    raise UsageError(f"{count} named {name!r}{digits}; there are: {known or 'none yet'}")


class WithdrawnItems(NamedTuple):
    """The number of withdrawn entities of a release, the first ones, and the withdrawals.

    `withdrawals` are (key, ground); empty if a person rejected the entities themselves.
    """

    entities: int
    first_kind: str
    first_id: str
    withdrawals: tuple[tuple[str, str], ...]


@reads
def withdrawn_items(connection: Connection, release_id: str) -> WithdrawnItems | None:
    """Return the withdrawn entities of a release; None if there are none."""
    here = (ReleaseItem.release_id == release_id, Entity.state == "withdrawn")
    items = select(Entity.id).join(ReleaseItem, ReleaseItem.entity_id == Entity.id).where(*here)
    first = items.add_columns(Entity.kind).order_by(Entity.kind != "image", Entity.id).limit(1)
    by = (
        select(Withdrawal.key, Withdrawal.ground)
        .where(
            Withdrawal.id.in_(
                select(WithdrawnEntity.withdrawal_id)
                .join(ReleaseItem, ReleaseItem.entity_id == WithdrawnEntity.entity_id)
                .where(ReleaseItem.release_id == release_id)
            )
        )
        .order_by(Withdrawal.id)
    )
    found = connection.execute(first).first()
    if found is None:
        return None
    count = connection.execute(select(func.count()).select_from(items.subquery())).scalar_one()
    withdrawals = tuple((row.key, row.ground) for row in connection.execute(by))
    return WithdrawnItems(count, found.kind, found.id, withdrawals)


def release_after(store: Store, stored: StoredRelease) -> StoredRelease | None:
    """Return the newest later release of the same dataset and tier without withdrawn entities."""
    manifest = stored.manifest
    same = [
        one
        for one in list_releases(store, manifest.dataset)
        if one.manifest.tier == manifest.tier
        and version_numbers(one.manifest.version) > version_numbers(manifest.version)
    ]
    sound = (one for one in reversed(same) if withdrawn_items(store, one.manifest.id) is None)
    return next(sound, None)
