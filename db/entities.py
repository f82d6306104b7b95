"""Entities: create them from records, store, find and group them; results of stages."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeVar, TypeVarTuple

from sqlalchemy import ColumnElement, Connection, Delete, Row, Select, Update, func, select, text
from sqlalchemy.orm import InstrumentedAttribute

from loupe.db.store import Store, reads
from loupe.db.tables import (
    Agent,
    ChildEntity,
    Derivation,
    Entity,
    ParentEntity,
    escape_like,
    insert_new,
    insert_rows,
)
from loupe.schemas.base import EntityRecord, digest_of, entity_id
from loupe.schemas.chat import ModelRef
from loupe.schemas.errors import IntegrityError
from loupe.schemas.grouping import batches, grouped
from loupe.schemas.provenance import AgentKind, Role
from loupe.schemas.records import Rejection

SHORTEST_PREFIX = 6
"""The minimum number of digits of an id to search with."""

# Agents.


class AgentRef(NamedTuple):
    """A person (by pseudonym), a model at a revision, or a piece of software at a version."""

    kind: AgentKind
    name: str
    revision: str = ""

    @property
    def id(self) -> str:
        """The agent's content-derived id."""
        return digest_of("agent", self.kind, self.name, self.revision)

    @classmethod
    def of_model(cls, model: ModelRef) -> "AgentRef":
        """Return a model as an agent."""
        return cls("model", model.name, model.revision)


def register_agents(connection: Connection, agents: Sequence[AgentRef]) -> list[str]:
    """Store new agents and return the ids of all, in order."""
    rows = [{"id": agent.id, **agent._asdict()} for agent in agents]
    insert_new(connection, Agent, rows)
    return [agent.id for agent in agents]


# Entities: create them from records, store and find them.

R = TypeVar("R", bound=EntityRecord)
K = TypeVar("K")
V = TypeVar("V")
Columns = TypeVarTuple("Columns")
Parents = tuple[tuple[Role, str], ...]

LIVE = ("proposed", "accepted")
_PAGE = 1000
SelectEntities = Select[int, str, str, str, str | None, str | None, str, str]


class NewEntity(NamedTuple):
    """An entity to store; `parents` are (role, parent id) pairs."""

    id: str
    dataset: str
    kind: str
    payload: str
    split: str | None
    group: str | None
    parents: Parents
    model_call: str | None

    def linked(self, *links: tuple[Role, str]) -> "NewEntity":
        """Return the entity with more parents, which are not part of its id."""
        return self._replace(parents=(*self.parents, *links))


class StoredEntity(NamedTuple):
    """An entity in the store; `seq` is its number there, `id` is the same in every store."""

    seq: int
    id: str
    dataset: str
    kind: str
    split: str | None
    group: str | None
    state: str
    payload: str

    def record(self, record_type: type[R]) -> R:
        """Return the payload as the record it was made from."""
        return record_type.model_validate_json(self.payload)


def new_entity(
    record: EntityRecord,
    dataset: str,
    *,
    parents: Iterable[tuple[Role, str]] = (),
    split: str | None = None,
    group: str | None = None,
    model_call: str | None = None,
) -> NewEntity:
    """Return `record` as an entity of `dataset`, with its content-derived id."""
    payload = record.payload()
    links = tuple(parents)
    return NewEntity(
        entity_id(dataset, record.kind, payload, links),
        dataset,
        record.kind,
        payload,
        split,
        group,
        links,
        model_call,
    )


def pages(ids: Iterable[K], size: int = _PAGE) -> Iterator[list[K]]:
    """Split `ids` into lists of at most `size`, few enough for one `IN (…)`."""
    return batches(ids, size)


def rows_in(
    connection: Connection,
    query: Select[*Columns],
    column: InstrumentedAttribute[Any],
    values: Iterable[object],
) -> Iterator[Row[*Columns]]:
    """Return the rows of `query` with `column` among `values`, in several queries if needed.

    SQLAlchemy takes half the time for a `query` that is the same object in every call.
    """
    statement = _selected(query, column, connection.dialect.name)
    for page in pages(values):
        found = connection.execute(statement, {"among": _listed(connection, page)})
        for rows in found.partitions(_PAGE):
            yield from rows


def change_in(
    connection: Connection,
    statement: Update | Delete,
    column: InstrumentedAttribute[Any],
    values: Iterable[object],
) -> int:
    """Update or delete the rows with `column` among `values`; return their number."""
    name = connection.dialect.name
    found = (_is_among(column, name, among=_listed(connection, page)) for page in pages(values))
    return sum(connection.execute(statement.where(one)).rowcount for one in found)


@lru_cache(256)
def _selected(
    query: Select[*Columns], column: InstrumentedAttribute[Any], dialect: str
) -> Select[*Columns]:
    return query.where(_is_among(column, dialect))


def _is_among(
    column: InstrumentedAttribute[Any], dialect: str, **among: object
) -> ColumnElement[bool]:
    """Return the condition that `column` is among the values of the parameter `among`.

    SQLAlchemy takes longer for a parameter for each value than the database for the query.
    """
    if dialect == "postgresql":
        return column.op("=")(text("ANY(:among)").bindparams(**among))
    return column.in_(text("SELECT value FROM json_each(:among)").bindparams(**among))


def _listed(connection: Connection, values: Sequence[object]) -> object:
    """Return `values` as the parameter `among`."""
    return values if connection.dialect.name == "postgresql" else json.dumps(values)


@reads
def datasets_of(connection: Connection) -> list[str]:
    """Return the names of all datasets that have entities, sorted."""
    return sorted(connection.execute(select(Entity.dataset).distinct()).scalars())


@reads
def kinds_of(connection: Connection, dataset: str) -> list[str]:
    """Return the kinds of entities that a dataset has, sorted."""
    query = select(Entity.kind).where(Entity.dataset == dataset).distinct()
    return sorted(connection.execute(query).scalars())


@cache
def select_entities() -> SelectEntities:
    """Return a query for the columns of `StoredEntity`, to add conditions to."""
    return select(
        Entity.seq,
        Entity.id,
        Entity.dataset,
        Entity.kind,
        Entity.split,
        Entity.group_key,
        Entity.state,
        Entity.payload,
    )


@reads
def fetch(connection: Connection, ids: Iterable[str]) -> dict[str, StoredEntity]:
    """Return the entities with these ids; unknown ids are left out."""
    rows = rows_in(connection, select_entities(), Entity.id, ids)
    return {row.id: StoredEntity._make(row) for row in rows}


@reads
def entities_numbered(connection: Connection, numbers: Iterable[int]) -> list[StoredEntity]:
    """Return the entities with these numbers in the store, in their order there."""
    rows = rows_in(connection, select_entities(), Entity.seq, numbers)
    return sorted(map(StoredEntity._make, rows))


def find(
    store: Store, dataset: str, kind: str, *, states: Sequence[str] | None = None
) -> Iterator[StoredEntity]:
    """Iterate over the entities of a dataset and kind, oldest first, in constant memory."""
    conditions = _conditions(dataset, kind, states)
    yield from map(StoredEntity._make, scan(store, select_entities().where(*conditions)))


def find_containing(store: Store, kind: str, text: str) -> Iterator[StoredEntity]:
    """Iterate over the entities of a kind in all datasets with `text` in them, oldest first.

    `text` is searched in the payload. There is no index: all entities of the kind are read.
    """
    holds = Entity.payload.like(f"%{escape_like(text)}%", escape="\\")
    query = select_entities().where(Entity.kind == kind, holds)
    yield from map(StoredEntity._make, scan(store, query))


@reads
def count_entities(
    connection: Connection, dataset: str, kind: str, *, states: Sequence[str] | None = None
) -> int:
    """Count the entities of a kind in a dataset."""
    query = select(func.count()).select_from(Entity)
    found = connection.execute(query.where(*_conditions(dataset, kind, states)))
    return found.scalar_one()


def _conditions(dataset: str, kind: str, states: Sequence[str] | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [Entity.dataset == dataset, Entity.kind == kind]
    if states is not None:
        conditions.append(Entity.state.in_(states))
    return conditions


def find_children(store: Store, parent_id: str, role: Role) -> Iterator[StoredEntity]:
    """Iterate over the entities derived from one in `role`, oldest first, in pages."""
    query = (
        select_entities()
        .join(Derivation, Derivation.child_seq == Entity.seq)
        .join(ParentEntity, ParentEntity.seq == Derivation.parent_seq)
        .where(ParentEntity.id == parent_id, Derivation.role == role)
    )
    yield from map(StoredEntity._make, scan(store, query, number=Derivation.child_seq))


def scan(
    source: Store | Connection,
    query: Select[*Columns],
    size: int = _PAGE,
    number: InstrumentedAttribute[int] = Entity.seq,
) -> Iterator[Row[*Columns]]:
    """Iterate over the rows of a query of entities, oldest first, in pages of constant memory.

    The first column must be `Entity.seq`. If a store is given, each page is its own transaction.
    `number` is the same in the table whose index gives the order; otherwise every page would sort
    all later rows.
    """
    after, paged = 0, query.order_by(number).limit(size)
    while True:
        with source.read() if isinstance(source, Store) else nullcontext(source) as connection:
            page = connection.execute(paged.where(number > after)).all()
        yield from page
        if len(page) < size:
            return
        after = page[-1].seq


@reads
def find_in_groups(
    connection: Connection, dataset: str, kind: str, groups: Iterable[str]
) -> list[StoredEntity]:
    """Iterate over the entities of a dataset and kind that belong to `groups`, oldest first."""
    query = select_entities().order_by(Entity.seq)
    found = map(StoredEntity._make, rows_in(connection, query, Entity.group_key, groups))
    # dataset and kind are compared here, so that no query planner prefers their index
    return [one for one in found if one.dataset == dataset and one.kind == kind]


# Derivations.


class Link(NamedTuple):
    """The ids of a child and a parent, the role of the parent, and its kind."""

    child: str
    role: str
    parent: str
    parent_kind: str


def links(
    connection: Connection,
    ids: Iterable[str],
    roles: Collection[str] | None = None,
    *,
    down: bool = False,
) -> Iterator[Link]:
    """Return the links of `ids` to their parents, or `down` to their children."""
    query = _links_query(None if roles is None else tuple(sorted(roles)))
    near = ParentEntity if down else ChildEntity
    return map(Link._make, rows_in(connection, query, near.id, ids))


@lru_cache(256)
def _links_query(roles: tuple[str, ...] | None) -> Select[str, str, str, str]:
    query = (
        select(ChildEntity.id, Derivation.role, ParentEntity.id, ParentEntity.kind)
        .join(Derivation, Derivation.child_seq == ChildEntity.seq)
        .join(ParentEntity, ParentEntity.seq == Derivation.parent_seq)
        .order_by(ChildEntity.seq, Derivation.role, ParentEntity.seq)
    )
    return query if roles is None else query.where(Derivation.role.in_(roles))


def ancestor_ids(
    connection: Connection, ids: Collection[str], roles: Collection[str], kind: str | None = None
) -> dict[str, list[str]]:
    """Return what each id was derived from in `roles`, at any distance, nearest first.

    With a `kind`, only entities of that kind are returned.
    """
    found: dict[str, dict[str, str]] = {id_: {} for id_ in ids}
    below = {id_: {id_} for id_ in ids}
    while below:
        above: dict[str, set[str]] = defaultdict(set)
        for link in links(connection, below, roles):
            for one in below[link.child]:
                if link.parent not in found[one]:
                    found[one][link.parent] = link.parent_kind
                    above[link.parent].add(one)
        below = above
    return {
        id_: [one for one, its in kinds.items() if kind in (None, its)]
        for id_, kinds in found.items()
    }


def children_in(
    connection: Connection, ids: Iterable[str], roles: Collection[Role]
) -> Iterator[tuple[str, str | None, StoredEntity]]:
    """Return (parent id, model call, child) of everything derived from `ids` in any of `roles`."""
    query = (
        select_entities()
        .add_columns(ParentEntity.id, Entity.model_call_key)
        .join(Derivation, Derivation.child_seq == Entity.seq)
        .join(ParentEntity, Derivation.parent_seq == ParentEntity.seq)
        .where(Derivation.role.in_(roles))
    )
    for *entity, parent_id, model_call in rows_in(connection, query, ParentEntity.id, ids):
        yield parent_id, model_call, StoredEntity._make(entity)


@reads
def parents_of(connection: Connection, ids: Iterable[str], role: Role) -> dict[str, list[str]]:
    """Return the parents of each id in `role`, in order of id."""
    return _linked(connection, ids, role, ChildEntity, ParentEntity)


@reads
def children_of(connection: Connection, ids: Iterable[str], role: Role) -> dict[str, list[str]]:
    """Return the children of each id in `role`, in order of id."""
    return _linked(connection, ids, role, ParentEntity, ChildEntity)


def _linked(
    connection: Connection, ids: Iterable[str], role: Role, near: type[Entity], far: type[Entity]
) -> dict[str, list[str]]:
    query = _pairs_query(role, near, far)
    return grouped(sorted(rows_in(connection, query, near.id, ids), key=itemgetter(1)))


@cache
def _pairs_query(role: Role, near: type[Entity], far: type[Entity]) -> Select[str, str]:
    return (
        select(near.id, far.id)
        .select_from(ChildEntity)
        .join(Derivation, Derivation.child_seq == ChildEntity.seq)
        .join(ParentEntity, ParentEntity.seq == Derivation.parent_seq)
        .where(Derivation.role == role)
    )


@reads
def fetch_parents(
    connection: Connection, ids: Iterable[str], role: Role
) -> dict[str, list[StoredEntity]]:
    """Return the parents of each id in `role` as entities, in order of id."""
    return _fetched(connection, parents_of(connection, ids, role))


@reads
def fetch_children(
    connection: Connection, ids: Iterable[str], role: Role
) -> dict[str, list[StoredEntity]]:
    """Return the children of each id in `role` as entities, in order of id."""
    return _fetched(connection, children_of(connection, ids, role))


def newest_children(store: Store, ids: Iterable[str], role: Role) -> dict[str, StoredEntity]:
    """Return the child of each id in `role` that was stored last, of those that are active."""
    newest: dict[str, StoredEntity] = {}
    for id_, many in fetch_children(store, ids, role).items():
        active = [one for one in many if one.state != "inactive"]
        if active:
            newest[id_] = max(active, key=lambda one: one.seq)
    return newest


def _fetched(
    connection: Connection, related: dict[str, list[str]]
) -> dict[str, list[StoredEntity]]:
    stored = fetch(connection, {one for many in related.values() for one in many})
    found = {id_: [stored[one] for one in many] for id_, many in related.items()}
    return defaultdict(list, found)


def insert_derivations(connection: Connection, entities: Iterable[NewEntity]) -> None:
    """Store the links of `entities`, which are stored already, to their parents.

    Raises:
        IntegrityError: a parent is not stored.
    """
    # SQLite's driver takes longer for an enumeration than for its text
    links = [(str(role), one.id, parent) for one in entities for role, parent in one.parents]
    if links and _insert_links(connection, links) < len(links):  # some exist, or a parent does not
        parents = sorted({parent for _, _, parent in links})
        stored = {id_ for (id_,) in rows_in(connection, select(Entity.id), Entity.id, parents)}
        for role, child, parent in links:
            if parent not in stored:
                raise IntegrityError(
                    f"entity {child} names {parent} as its '{role}', but no such entity is stored"
                )


def _insert_links(connection: Connection, links: list[tuple[str, str, str]]) -> int:
    """Insert those of `links` (role, child, parent) whose ends are stored; return how many are new.

    The database looks up the numbers of both ends, as reading them takes longer.
    """
    into = "INSERT INTO derivation (role, child_seq, parent_seq)"
    if connection.dialect.name == "postgresql":
        columns = tuple(map(list, zip(*links, strict=True)))
        return connection.exec_driver_sql(
            f"{into} SELECT link.role, child.seq, parent.seq "  # noqa: S608 our own names
            "FROM unnest(%s::text[], %s::text[], %s::text[]) AS link (role, child, parent) "
            "JOIN entity AS child ON child.id = link.child "
            "JOIN entity AS parent ON parent.id = link.parent ON CONFLICT DO NOTHING",
            columns,
        ).rowcount
    statement = (
        f"{into} WITH link (role, child, parent) AS (VALUES {{}}) "  # noqa: S608 our own names
        "SELECT link.role, child.seq, parent.seq FROM link "
        "CROSS JOIN entity AS child ON child.id = link.child "
        "CROSS JOIN entity AS parent ON parent.id = link.parent WHERE true ON CONFLICT DO NOTHING"
    )
    return insert_rows(connection, statement, links)


# What a stage gives to the store besides entities.

Verdict = Literal["accept", "reject", "edit", "withdraw", "reopen"]


class NewDecision(NamedTuple):
    """A decision to store.

    An `edit` names the entity that replaces the decided one. A `reopen` revokes earlier decisions:
    the entity waits for a decision again.
    """

    entity_id: str
    verdict: Verdict
    agent: AgentRef
    reason: str = ""
    successor_id: str | None = None
    annotation_key: str | None = None

    @property
    def agent_id(self) -> str:
        """Return the id of the agent."""
        return self.agent.id


class WorkResult(NamedTuple):
    """The result of one input: new entities and decisions, or a rejection.

    One that is `passed_over` is none: the stage has nothing to do with it.
    """

    input: int
    entities: tuple[NewEntity, ...] = ()
    decisions: tuple[NewDecision, ...] = ()
    rejection: Rejection | None = None
    passed_over: bool = False

    @classmethod
    def rejected(
        cls, number: int, stage: str, reason: str, detail: str, **context: Any
    ) -> "WorkResult":
        """Return the rejection of an input, with the reason as a word and as a sentence."""
        return cls(number, rejection=Rejection.of(stage, reason, detail, **context))


class ActivityRecord(NamedTuple):
    """The run of a plan over one chunk, and its agents."""

    plan_id: int
    dataset: str
    code_revision: str
    flow_run: str
    started_at: datetime
    agents: tuple[AgentRef, ...] = ()
