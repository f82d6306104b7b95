"""Releases: stored once, listed, never changed; and the store as it was when one was made."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from db.engine import insert_new, insert_new_text, select_columns
from db.entities import pages
from db.lineage import SHORTEST_PREFIX
from db.store import Store, retried
from db.tables.provenance import Activation, Decision, Entity
from db.tables.releases import Release, ReleaseItem, ReleaseTarget
from db.tables.withdrawals import Withdrawal, WithdrawnEntity
from schemas.errors import IntegrityError, UsageError
from schemas.provenance import STATE_AFTER
from schemas.release import Manifest
from schemas.withdrawal import version_numbers

_LOCK = 7061709


def acquire_release_lock(connection: Connection) -> None:
    """Locks, until the transaction ends, against others that store releases or withdrawals.

    So each sees what the other did, and nothing is released while it is being withdrawn. SQLite has
    one writer, and needs no lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


# Earlier versions of the store.
#
# Entities, decisions and activations are numbered as they are stored and never change: the last
# number of each identifies a version. Only the cached `entity.state` changes: it is folded again
# for the entities with later decisions or activations, which are few.
#
# `time_travel` puts temporary views over the tables `entity` and `decision`: readers on that
# connection see the earlier version without knowing. SQLite looks among temporary names first,
# PostgreSQL follows `search_path`; changing it also makes PostgreSQL plan prepared statements
# again. Links between entities need no view: they are part of an entity's id, are stored with it,
# and are read by way of `entity`.

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
"""With the names filled in first, then what these bring along and the numbers."""


class StateMark(NamedTuple):
    """The last numbers that count of entities, decisions, activations and withdrawals.

    `correction` is the last number of entities that counts for corrections of terms.
    """

    entity: int
    decision: int
    activation: int
    withdrawal: int
    correction: int


_MARKS = tuple(f"{name}_mark" for name in StateMark._fields)
"""The columns of a release for its mark."""


class StoreVersion(NamedTuple):
    """An earlier version of the store.

    What was withdrawn since counts as withdrawn, so that it is never released again. With
    `then_withdrawn` only what was withdrawn by then does; callers must exclude the rest themselves.
    With `corrected`, corrections of terms count that were made since.
    """

    mark: StateMark
    then_withdrawn: bool = False
    corrected: bool = False


def current_mark(connection: Connection) -> StateMark:
    """The mark of what `connection` sees, which must be a `db.release_rows.snapshot`."""
    numbers = (Entity.seq, Decision.id, Activation.id, Withdrawal.id)
    queries = (select(func.coalesce(func.max(one), 0)) for one in numbers)
    entity, decision, activation, withdrawal = (
        connection.execute(query).scalar_one() for query in queries
    )
    return StateMark(entity, decision, activation, withdrawal, correction=entity)


def mark_after(connection: Connection, past: StoreVersion) -> StateMark:
    """The mark of what `connection` sees as it looks back to `past`."""
    if past.then_withdrawn:
        return past.mark
    now = current_mark(connection)
    correction = now.correction if past.corrected else past.mark.correction
    return past.mark._replace(withdrawal=now.withdrawal, correction=correction)


def time_travel(connection: Connection, past: StoreVersion) -> None:
    """Lets `connection` see the state `past` until its transaction is rolled back.

    The views are part of that transaction, so that none is ever left.
    """
    schema, own = "main", "temp"
    if connection.dialect.name == "postgresql":
        schema, own = _schema_of_tables(connection), "pg_temp"
        before = connection.exec_driver_sql("SHOW search_path").scalar_one()
        connection.exec_driver_sql(f"SET LOCAL search_path TO pg_temp, {before}")
    for statement in _statements(past, schema, own):
        connection.exec_driver_sql(statement)


def _schema_of_tables(connection: Connection) -> str:
    """The schema that the tables are in, quoted where it must be."""
    query = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = 'entity'::regclass"
    return str(connection.exec_driver_sql(query).scalar_one())


def _statements(past: StoreVersion, schema: str, own: str) -> list[str]:
    """Makes the states of entities that were decided on since, and the views over them."""
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

REFERRED = ("prompt",)
"""Kinds that stay in releases when they are withdrawn: others only refer to them."""


class StoredRelease(NamedTuple):
    """A release that was built, where and when it was, and from which state of the store."""

    manifest: Manifest
    folder: Path
    built_at: datetime
    mark: StateMark

    @property
    def name(self) -> str:
        """Its dataset and version, as they are shown."""
        return f"{self.manifest.dataset} {self.manifest.version}"


def store_release(
    store: Store,
    manifest: Manifest,
    folder: Path,
    entity_ids: Iterable[str],
    mark: StateMark,
    publish: Callable[[], None] = lambda: None,
) -> bool:
    """Stores a release with its entities; False where it was stored already.

    `publish` puts the folder into its place: it runs inside the transaction, so that a version that
    turns out to be taken is not published, and one that cannot be published is not stored. `mark`
    is that of the state which it was built from.

    Raises:
        IntegrityError: the version exists with other content (releases are immutable), or
            something in it was withdrawn since its state of the store.
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
    """All releases, or those of one dataset, by dataset and version."""
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


@retried
def release_of(store: Store, inputs: str) -> tuple[Manifest, Path] | None:
    """The release that was built of these inputs (a digest), and its folder; None where none is."""
    query = select(Release.manifest, Release.folder).where(Release.inputs == inputs)
    with store.read() as connection:
        found = connection.execute(query).first()
    return (Manifest.model_validate(found.manifest), Path(found.folder)) if found else None


@retried
def note_inputs(store: Store, release_id: str, inputs: str) -> None:
    """Stores the digest of what a release was built of."""
    with store.write() as connection:
        connection.execute(update(Release).where(Release.id == release_id).values(inputs=inputs))


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
    matching = [one for one in releases if name and one.manifest.id.startswith(name)]
    is_short = len(name) < SHORTEST_PREFIX
    found = named[-1:] or ([] if is_short else matching)
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.manifest.dataset}@{one.manifest.version}" for one in releases)
    count = "no release" if not found else f"{len(found)} releases"
    digits = f" (of an id {SHORTEST_PREFIX} digits are wanted)" if matching and is_short else ""
    raise UsageError(f"{count} can be meant by {name!r}{digits}; there are: {known or 'none yet'}")


@retried
def released_entities(store: Store, release_id: str) -> list[str]:
    """The ids of the entities in a release, sorted."""
    query = select(ReleaseItem.entity_id).where(ReleaseItem.release_id == release_id)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


class WithdrawnItems(NamedTuple):
    """How many entities of a release are withdrawn, the first of them, and the withdrawals.

    `withdrawals` are (key, ground); empty where a person decided on the entities themselves.
    """

    entities: int
    first_kind: str
    first_id: str
    withdrawals: tuple[tuple[str, str], ...]


@retried
def withdrawn_items(store: Store, release_id: str) -> WithdrawnItems | None:
    """The withdrawn entities of a release; None where there are none."""
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


@retried
def set_release_target(store: Store, dataset: str, version: str) -> None:
    """Notes the version that the builds of a dataset release next."""
    if release_targets(store).get(dataset) == version:
        return
    with store.write() as connection:
        insert_new(connection, ReleaseTarget, [{"dataset": dataset, "version": version}])
        this = update(ReleaseTarget).where(ReleaseTarget.dataset == dataset)
        connection.execute(this.values(version=version))


@retried
def release_targets(store: Store) -> dict[str, str]:
    """The version that the builds of each dataset release next."""
    with store.read() as connection:
        rows = connection.execute(select(ReleaseTarget.dataset, ReleaseTarget.version))
        return {row.dataset: row.version for row in rows}
