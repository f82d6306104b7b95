"""Releases: stored once, listed, shown, never changed."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from db.engine import insert_new_text
from db.entities import pages
from db.store import Store
from db.tables import Release, ReleaseItem
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest

_LOCK = 7061709


class StoredRelease(NamedTuple):
    """A release that was built, and where and when it was."""

    manifest: Manifest
    folder: Path
    built_at: datetime


def store_release(
    store: Store,
    manifest: Manifest,
    folder: Path,
    entity_ids: Iterable[str],
    publish: Callable[[], None] = lambda: None,
) -> bool:
    """Stores a release with the entities that stand in it; False where it was stored already.

    `publish` puts the folder into its place: it runs inside the transaction, so that a version that
    turns out to be taken is not published, and one that cannot be published is not stored.

    Raises:
        IntegrityError: the version exists with other content; releases are immutable.
    """
    with store.write() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        known = _id_of(connection, manifest.dataset, manifest.version)
        if known is not None and known != manifest.id:
            raise IntegrityError(
                f"{manifest.dataset} {manifest.version} was released as {known[:12]}, and what "
                f"would be released now is {manifest.id[:12]}; releases never change: "
                f"choose a new version"
            )
        if known is None:
            _insert(connection, manifest, folder, entity_ids)
        publish()
    return known is None


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


def list_releases(store: Store, dataset: str | None = None) -> list[StoredRelease]:
    """All releases, or those of one dataset, by dataset and version."""
    query = select(Release.manifest, Release.folder, Release.built_at)
    if dataset is not None:
        query = query.where(Release.dataset == dataset)
    with store.read() as connection:
        releases = [_stored(*row) for row in connection.execute(query)]
    return sorted(releases, key=lambda one: (one.manifest.dataset, _parts(one.manifest.version)))


def find_release(store: Store, name: str) -> StoredRelease:
    """The release called `name`: an id or its first digits, `dataset`'s newest, `dataset@version`.

    Raises:
        UsageError: none is called so, or several are.
    """
    dataset, _, version = name.partition("@")
    releases = list_releases(store)
    named = [
        one
        for one in releases
        if one.manifest.dataset == dataset and version in ("", one.manifest.version)
    ]
    found = named[-1:] or [one for one in releases if one.manifest.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.manifest.dataset}@{one.manifest.version}" for one in releases)
    count = "no release" if not found else f"{len(found)} releases"
    raise UsageError(f"{count} can be meant by {name!r}; there are: {known or 'none yet'}")


def released_entities(store: Store, release_id: str) -> list[str]:
    """The ids of the entities that stand in a release, sorted."""
    query = select(ReleaseItem.entity_id).where(ReleaseItem.release_id == release_id)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


def _stored(manifest: dict[str, object], folder: str, built_at: datetime) -> StoredRelease:
    return StoredRelease(Manifest.model_validate(manifest), Path(folder), built_at)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
