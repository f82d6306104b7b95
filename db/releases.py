"""Releases: stored once, listed, shown, never changed."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from db.as_of import UNMARKED, StateMark
from db.engine import insert_new_text
from db.entities import pages
from db.lineage import SHORTEST_PREFIX
from db.store import Store, retried
from db.tables.provenance import Entity
from db.tables.releases import Release, ReleaseItem
from db.tables.withdrawals import Withdrawal, WithdrawnEntity
from db.turns import take_turn
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest
from schemas.versions import version_numbers

REFERRED = ("prompt",)
"""Kinds that stay in releases when they are withdrawn: others only refer to them."""


class StoredRelease(NamedTuple):
    """A release that was built, where and when it was, and from which state of the store."""

    manifest: Manifest
    folder: Path
    built_at: datetime
    mark: StateMark = UNMARKED


def store_release(
    store: Store,
    manifest: Manifest,
    folder: Path,
    entity_ids: Iterable[str],
    publish: Callable[[], None] = lambda: None,
    mark: StateMark = UNMARKED,
) -> bool:
    """Stores a release with the entities that stand in it; False where it was stored already.

    `publish` puts the folder into its place: it runs inside the transaction, so that a version that
    turns out to be taken is not published, and one that cannot be published is not stored. `mark`
    is that of the state which it was built from; one that was stored without any gets it.

    Raises:
        IntegrityError: the version exists with other content (releases are immutable), or
            something in it was withdrawn since its state of the store.
    """
    with store.write() as connection:
        take_turn(connection)
        known = _id_of(connection, manifest.dataset, manifest.version)
        if known is not None and known != manifest.id:
            raise IntegrityError(
                f"{manifest.dataset} {manifest.version} was released as {known[:12]}, and what "
                f"would be released now is {manifest.id[:12]}; releases never change: "
                f"choose a new version"
            )
        if known is None:
            _insert(connection, manifest, folder, entity_ids)
        _refuse_withdrawn(connection, manifest)
        _set_mark(connection, manifest.id, mark)
        publish()
    return known is None


def _refuse_withdrawn(connection: Connection, manifest: Manifest) -> None:
    query = (
        select(Entity.kind, Entity.id)
        .join(ReleaseItem, ReleaseItem.entity_id == Entity.id)
        .where(
            ReleaseItem.release_id == manifest.id,
            Entity.state == "withdrawn",
            Entity.kind.not_in(REFERRED),
        )
        .limit(1)
    )
    if (found := connection.execute(query).first()) is not None:
        raise IntegrityError(
            f"{manifest.dataset} {manifest.version} was not released: the {found.kind} "
            f"{found.id[:12]} was withdrawn while this was built; build it again"
        )


def adopt_folder(
    store: Store, release_id: str, folder: Path, is_held: Callable[[Path], bool]
) -> Path:
    """The folder that a release is known by: `folder`, where the known one does not hold it now.

    `is_held` says whether a folder holds it.
    """
    here = Release.id == release_id
    with store.read() as connection:
        known = Path(connection.execute(select(Release.folder).where(here)).scalar_one())
    if known.resolve() == folder.resolve() or is_held(known):
        return known
    with store.write() as connection:
        connection.execute(update(Release).where(here).values(folder=str(folder)))
    return folder


def _id_of(connection: Connection, dataset: str, version: str) -> str | None:
    query = select(Release.id).where(Release.dataset == dataset, Release.version == version)
    return connection.execute(query).scalar_one_or_none()


def _insert(
    connection: Connection, manifest: Manifest, folder: Path, entity_ids: Iterable[str]
) -> None:
    row = {
        "id": manifest.id,
        "dataset": manifest.dataset,
        "version": manifest.version,
        "folder": str(folder),
        "manifest": manifest.model_dump(mode="json"),
        "built_at": datetime.now(UTC),
    }
    connection.execute(insert(Release), row)
    for page in pages(entity_ids):
        items = [(manifest.id, entity_id) for entity_id in page]
        insert_new_text(connection, ReleaseItem, ("release_id", "entity_id"), items)


def _set_mark(connection: Connection, release_id: str, mark: StateMark) -> None:
    """Stores the mark of a release that has none."""
    unmarked = update(Release).where(Release.id == release_id, Release.entity_mark == 0)
    connection.execute(
        unmarked.values(
            entity_mark=mark.entity, decision_mark=mark.decision, withdrawal_mark=mark.withdrawal
        )
    )


@retried
def list_releases(store: Store, dataset: str | None = None) -> list[StoredRelease]:
    """All releases, or those of one dataset, by dataset and version."""
    query = select(
        Release.manifest,
        Release.folder,
        Release.built_at,
        Release.entity_mark,
        Release.decision_mark,
        Release.withdrawal_mark,
    )
    if dataset is not None:
        query = query.where(Release.dataset == dataset)
    with store.read() as connection:
        releases = [_stored(*row) for row in connection.execute(query)]
    return sorted(
        releases, key=lambda one: (one.manifest.dataset, version_numbers(one.manifest.version))
    )


def find_release(store: Store, name: str) -> StoredRelease:
    """The release called `name`: `dataset`'s newest, `dataset@version`, an id or six digits of it.

    A dataset goes before an id that begins like it.

    Raises:
        UsageError: none is called so, or several are.
    """
    dataset, at, version = name.partition("@")
    releases = list_releases(store)
    named = [
        one
        for one in releases
        if one.manifest.dataset == dataset and (not at or version == one.manifest.version)
    ]
    begun = [one for one in releases if name and one.manifest.id.startswith(name)]
    is_short = len(name) < SHORTEST_PREFIX
    found = named[-1:] or ([] if is_short else begun)
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.manifest.dataset}@{one.manifest.version}" for one in releases)
    count = "no release" if not found else f"{len(found)} releases"
    digits = f" (of an id {SHORTEST_PREFIX} digits are wanted)" if begun and is_short else ""
    raise UsageError(f"{count} can be meant by {name!r}{digits}; there are: {known or 'none yet'}")


@retried
def released_entities(store: Store, release_id: str) -> list[str]:
    """The ids of the entities that stand in a release, sorted."""
    query = select(ReleaseItem.entity_id).where(ReleaseItem.release_id == release_id)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


def _stored(
    manifest: dict[str, object], folder: str, built_at: datetime, *marks: int
) -> StoredRelease:
    mark = StateMark(*marks)
    return StoredRelease(Manifest.model_validate(manifest), Path(folder), built_at, mark)


class WithdrawnItems(NamedTuple):
    """What of a release was taken back: how much, first what, and by which withdrawals.

    `withdrawals` are (key, ground); empty where it was a decision on the entities themselves.
    """

    entities: int
    first_kind: str
    first_id: str
    withdrawals: tuple[tuple[str, str], ...]


@retried
def withdrawn_items(store: Store, release_id: str) -> WithdrawnItems | None:
    """What of a release was taken back until now; None where nothing was."""
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
    with store.read() as connection:
        found = connection.execute(first).first()
        if found is None:
            return None
        count = connection.execute(select(func.count()).select_from(items.subquery())).scalar_one()
        withdrawals = tuple((row.key, row.ground) for row in connection.execute(by))
    return WithdrawnItems(count, found.kind, found.id, withdrawals)


def release_after(store: Store, stored: StoredRelease) -> StoredRelease | None:
    """The newest later release of the same dataset and tier, where nothing of it is withdrawn."""
    manifest = stored.manifest
    same = [
        one
        for one in list_releases(store, manifest.dataset)
        if one.manifest.tier == manifest.tier
        and version_numbers(one.manifest.version) > version_numbers(manifest.version)
    ]
    sound = (one for one in reversed(same) if withdrawn_items(store, one.manifest.id) is None)
    return next(sound, None)
