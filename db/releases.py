"""Store and list releases, which never change, and read the store as it was at a release."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from db.entities import SHORTEST_PREFIX, pages
from db.store import Store, acquire_release_lock, retried
from db.tables import (
    Activation,
    Decision,
    Entity,
    Release,
    ReleaseItem,
    ReleaseTarget,
    Withdrawal,
    WithdrawnEntity,
    insert_new,
    insert_new_text,
    select_columns,
)
from schemas.errors import IntegrityError, UsageError
from schemas.provenance import STATE_AFTER
from schemas.release import Manifest
from schemas.withdrawal import version_numbers

# Earlier versions of the store.
#
# Entities, decisions and activations are numbered as they are stored and never change: the last
# number of each identifies a version. Only the cached `entity.state` changes: it is computed again
# for the entities with later decisions or activations, which are few.
#
# `time_travel` creates temporary views with the names of the tables `entity` and `decision`:
# queries on that connection read the earlier version without any change. SQLite looks up temporary
# names first, PostgreSQL follows `search_path`; changing it also makes PostgreSQL plan prepared
# statements again. Links between entities need no view: they are part of an entity's id, are stored
# with it, and are read by joining `entity`.

_NO_LIMIT = 2**63 - 1
_STATES = "entity_state_then"
_STATE_AFTER = tuple(STATE_AFTER.items())
_STATE = "coalesce((SELECT s.state FROM {states} AS s WHERE s.seq = e.seq), e.state) AS state"
_TAKEN_THEN = """
    d.verdict = 'withdraw' AND (d.id <= {decision} OR EXISTS (
        SELECT 1 FROM {schema}.withdrawn_entity AS taken
        WHERE taken.entity_id = d.entity_id AND taken.withdrawal_id <= {withdrawal}
    ))
"""
_TABLE = f"CREATE TEMPORARY TABLE {_STATES} (seq BIGINT PRIMARY KEY, state VARCHAR(16) NOT NULL)"
_FOLD = """
    INSERT INTO {states} (seq, state)
    WITH later AS (
        SELECT entity_id FROM {schema}.decision WHERE id > {{decision}}
        UNION SELECT entity_id FROM {schema}.activation WHERE id > {{activation}}
    ),
    last AS (
        SELECT d.entity_id, max(d.id) AS id FROM later
        JOIN {schema}.decision AS d ON d.entity_id = later.entity_id
        WHERE d.id <= {{decision}} GROUP BY d.entity_id
    ),
    last_activation AS (
        SELECT a.entity_id, max(a.id) AS id FROM later
        JOIN {schema}.activation AS a ON a.entity_id = later.entity_id
        WHERE a.id <= {{activation}} GROUP BY a.entity_id
    ),
    withdrawn AS (
        SELECT DISTINCT d.entity_id FROM later
        JOIN {schema}.decision AS d ON d.entity_id = later.entity_id WHERE {taken}
    )
    SELECT e.seq, CASE WHEN withdrawn.entity_id IS NOT NULL THEN 'withdrawn'
        WHEN NOT a.active THEN 'inactive'
        ELSE coalesce(CASE d.verdict {folded} END, 'proposed') END
    FROM later JOIN {schema}.entity AS e ON e.id = later.entity_id
    LEFT JOIN last ON last.entity_id = later.entity_id
    LEFT JOIN {schema}.decision AS d ON d.id = last.id
    LEFT JOIN last_activation ON last_activation.entity_id = later.entity_id
    LEFT JOIN {schema}.activation AS a ON a.id = last_activation.id
    LEFT JOIN withdrawn ON withdrawn.entity_id = later.entity_id
    WHERE e.seq <= {{entity}}
"""
_ENTITIES = """
    CREATE TEMPORARY VIEW entity AS
    SELECT {columns} FROM {schema}.entity AS e WHERE e.seq <= {{entity}}
    OR (e.kind = 'terms_correction' AND e.seq <= {{correction}})
"""
_DECISIONS = """
    CREATE TEMPORARY VIEW decision AS
    SELECT d.* FROM {schema}.decision AS d WHERE d.id <= {{decision}} OR ({taken})
"""
_STATEMENTS = (_TABLE, _FOLD, _ENTITIES, _DECISIONS)
"""The names are filled in first, then the texts that contain them and the numbers."""


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
    """Return the mark of what `connection` sees, which must be a `db.release_rows.snapshot`."""
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


def time_travel(connection: Connection, past: StoreVersion) -> None:
    """Let `connection` see the version `past` until its transaction is rolled back.

    The views are part of that transaction, so that none remains.
    """
    schema, own = "main", "temp"
    if connection.dialect.name == "postgresql":
        schema, own = _schema_of_tables(connection), "pg_temp"
        before = connection.exec_driver_sql("SHOW search_path").scalar_one()
        connection.exec_driver_sql(f"SET LOCAL search_path TO pg_temp, {before}")
    for statement in _statements(past, schema, own):
        connection.exec_driver_sql(statement)


def _schema_of_tables(connection: Connection) -> str:
    """Return the schema of the tables, quoted if necessary."""
    query = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = 'entity'::regclass"
    return str(connection.exec_driver_sql(query).scalar_one())


def _statements(past: StoreVersion, schema: str, own: str) -> list[str]:
    """Create the states of entities with later decisions, and the views over them."""
    names = {
        "schema": schema,
        "states": f"{own}.{_STATES}",
        "columns": ", ".join(
            _STATE if one.name == Entity.state.name else f"e.{one.name}"
            for one in Entity.__table__.columns
        ),
        "folded": " ".join(f"WHEN '{verdict}' THEN '{then}'" for verdict, then in _STATE_AFTER),
        "taken": _TAKEN_THEN if past.then_withdrawn else "d.verdict = 'withdraw'",
    }
    numbers = {name: int(number) for name, number in past.mark._asdict().items()}
    if past.corrected:
        numbers["correction"] = _NO_LIMIT
    return [one.format_map(names).format_map(names | numbers) for one in _STATEMENTS]


# Releases: stored once, listed, shown, never changed.

_REFERRED = ("prompt",)
"""Kinds that stay in releases when they are withdrawn, as other entities only refer to them."""


class StoredRelease(NamedTuple):
    """A release with its time, its folder, and the version of the store that it was built from."""

    manifest: Manifest
    folder: Path
    built_at: datetime
    mark: StateMark

    @property
    def name(self) -> str:
        """Return its dataset and version, as `dataset@version`."""
        return f"{self.manifest.dataset} {self.manifest.version}"


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
                f"{manifest.dataset} {manifest.version} was released as {known[:12]}, and what "
                f"would be released now is {manifest.id[:12]}; releases never change: "
                f"choose a new version"
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
            f"{manifest.dataset} {manifest.version} was not released: the {found.kind} "
            f"{found.id[:12]} was withdrawn while this was built; build it again"
        )


def adopt_folder(
    store: Store, release_id: str, folder: Path, is_held: Callable[[Path], bool]
) -> Path:
    """Return the folder of a release; it becomes `folder` if the stored one does not hold it.

    `is_held` returns whether a folder holds the release.
    """
    here = Release.id == release_id
    with store.read() as connection:
        known = Path(connection.execute(select(Release.folder).where(here)).scalar_one())
    if known.resolve() == folder.resolve() or is_held(known):
        return known
    with store.write() as connection:
        connection.execute(update(Release).where(here).values(folder=str(folder)))
    return folder


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
        "folder": str(folder),
        "manifest": manifest.model_dump(mode="json"),
        "built_at": datetime.now(UTC),
        **dict(zip(_MARKS, mark, strict=True)),
    }
    connection.execute(insert(Release), row)
    for page in pages(entity_ids):
        items = [(manifest.id, entity_id) for entity_id in page]
        insert_new_text(connection, ReleaseItem, ("release_id", "entity_id"), items)


@retried
def list_releases(store: Store, dataset: str | None = None) -> list[StoredRelease]:
    """List all releases, or those of one dataset, by dataset and version."""
    query = select_columns(Release, ("manifest", "folder", "built_at", *_MARKS))
    if dataset is not None:
        query = query.where(Release.dataset == dataset)
    with store.read() as connection:
        releases = [
            StoredRelease(
                Manifest.model_validate(manifest), Path(folder), built_at, StateMark(*marks)
            )
            for manifest, folder, built_at, *marks in connection.execute(query)
        ]
    return sorted(
        releases, key=lambda one: (one.manifest.dataset, version_numbers(one.manifest.version))
    )


class BuiltRelease(NamedTuple):
    """A release, its folder, and the digest of the listing of the folder."""

    manifest: Manifest
    folder: Path
    listing: str | None


@retried
def release_of(store: Store, inputs: str) -> BuiltRelease | None:
    """Return the release that was built from these inputs, or None."""
    query = select(Release.manifest, Release.folder, Release.listing)
    with store.read() as connection:
        found = connection.execute(query.where(Release.inputs == inputs)).first()
    if found is None:
        return None
    return BuiltRelease(Manifest.model_validate(found.manifest), Path(found.folder), found.listing)


@retried
def note_inputs(store: Store, release_id: str, inputs: str, listing: str) -> None:
    """Store the digests of the inputs of a release and of the listing of its folder."""
    noted = update(Release).where(Release.id == release_id).values(inputs=inputs, listing=listing)
    with store.write() as connection:
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


@retried
def released_entities(store: Store, release_id: str) -> list[str]:
    """Return the ids of the entities in a release, sorted."""
    query = select(ReleaseItem.entity_id).where(ReleaseItem.release_id == release_id)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


class WithdrawnItems(NamedTuple):
    """The number of withdrawn entities of a release, the first ones, and the withdrawals.

    `withdrawals` are (key, ground); empty if a person rejected the entities themselves.
    """

    entities: int
    first_kind: str
    first_id: str
    withdrawals: tuple[tuple[str, str], ...]


@retried
def withdrawn_items(store: Store, release_id: str) -> WithdrawnItems | None:
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
    with store.read() as connection:
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


@retried
def set_release_target(store: Store, dataset: str, version: str) -> None:
    """Record the version that the builds of a dataset release next."""
    if release_targets(store).get(dataset) == version:
        return
    with store.write() as connection:
        insert_new(connection, ReleaseTarget, [{"dataset": dataset, "version": version}])
        this = update(ReleaseTarget).where(ReleaseTarget.dataset == dataset)
        connection.execute(this.values(version=version))


@retried
def release_targets(store: Store) -> dict[str, str]:
    """Return the version that the builds of each dataset release next."""
    with store.read() as connection:
        rows = connection.execute(select(ReleaseTarget.dataset, ReleaseTarget.version))
        return {row.dataset: row.version for row in rows}
