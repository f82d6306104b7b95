"""Entities: made from records, stored, found again, grouped."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, func, select

from db.engine import escape_like, insert_new
from db.store import Store, retried
from db.tables.provenance import Agent, ChildEntity, Derivation, Entity, ParentEntity
from schemas.base import EntityRecord, digest_of, entity_id
from schemas.chat import ModelRef
from schemas.errors import IntegrityError
from schemas.provenance import AgentKind, Role

# Agents: those who act.


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
        """A model as an agent."""
        return cls("model", model.name, model.revision)


def register_agents(connection: Connection, agents: Sequence[AgentRef]) -> list[str]:
    """Stores agents that are new and gives the ids of all, in order."""
    rows = [{"id": agent.id, **agent._asdict()} for agent in agents]
    insert_new(connection, Agent, rows)
    return [agent.id for agent in agents]


# Groups of entities: which of them count together now. An entity's id does not depend on it.


@retried
def move_to_groups(store: Store, groups: Mapping[str, str]) -> None:
    """Puts each entity, by its id, into its group; one that is there already is not written."""
    if not groups:
        return
    with store.write() as connection:
        mark = "%s" if connection.dialect.name == "postgresql" else "?"
        connection.exec_driver_sql(
            f"UPDATE entity SET group_key = {mark} "  # noqa: S608 no foreign text
            f"WHERE id = {mark} AND (group_key IS NULL OR group_key <> {mark})",
            [(group, entity_id, group) for entity_id, group in groups.items()],
        )


# Entities: made from records, stored, found again.

R = TypeVar("R", bound=EntityRecord)
K = TypeVar("K")
Parents = tuple[tuple[Role, str], ...]

LIVE = ("proposed", "accepted")
_PAGE = 1000
SelectEntities = Select[int, str, str, str, str | None, str | None, str, str]


class NewEntity(NamedTuple):
    """An entity that is about to be stored; `parents` are (role, parent id) pairs."""

    id: str
    dataset: str
    kind: str
    payload: str
    split: str | None
    group: str | None
    parents: Parents
    model_call: str | None


class StoredEntity(NamedTuple):
    """An entity as it lies in the store; `seq` is its number there, `id` its name everywhere."""

    seq: int
    id: str
    dataset: str
    kind: str
    split: str | None
    group: str | None
    state: str
    payload: str

    def record(self, record_type: type[R]) -> R:
        """The payload as the record it was made from."""
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
    """`record` as an entity of `dataset`, with its content-derived id."""
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
    """`ids` in lists of at most `size`, few enough for one `IN (…)`."""
    remaining = iter(ids)
    while page := list(islice(remaining, size)):
        yield page


@retried
def datasets_of(store: Store) -> list[str]:
    """The names of all datasets that have entities, sorted."""
    with store.read() as connection:
        return sorted(connection.execute(select(Entity.dataset).distinct()).scalars())


def select_entities() -> SelectEntities:
    """A query for the columns of `StoredEntity`, to be narrowed down."""
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


def _stored(rows: Iterable[Sequence[Any]]) -> list[StoredEntity]:
    return list(map(StoredEntity._make, rows))


@retried
def fetch(store: Store, ids: Iterable[str]) -> dict[str, StoredEntity]:
    """The entities with these ids; ids that do not exist are left out."""
    found: dict[str, StoredEntity] = {}
    with store.read() as connection:
        for page in pages(ids):
            rows = connection.execute(select_entities().where(Entity.id.in_(page)))
            found.update((entity.id, entity) for entity in _stored(rows))
    return found


def find(
    store: Store,
    dataset: str,
    kind: str,
    *,
    states: Sequence[str] | None = None,
    split: str | None = None,
) -> Iterator[StoredEntity]:
    """The entities of a dataset and kind, oldest first, in pages of constant memory."""
    conditions = _conditions(dataset, kind, states, split)
    yield from _paged(store, select_entities().where(*conditions).order_by(Entity.seq).limit(_PAGE))


def find_containing(store: Store, kind: str, text: str) -> Iterator[StoredEntity]:
    """The entities of a kind, of all datasets, with `text` in their payload, oldest first.

    There is no index for this: all entities of the kind are read.
    """
    holds = Entity.payload.like(f"%{escape_like(text)}%", escape="\\")
    query = select_entities().where(Entity.kind == kind, holds)
    yield from _paged(store, query.order_by(Entity.seq).limit(_PAGE))


@retried
def count_entities(
    store: Store, dataset: str, kind: str, *, states: Sequence[str] | None = None
) -> int:
    """How many entities a dataset has of a kind."""
    query = select(func.count()).select_from(Entity)
    with store.read() as connection:
        found = connection.execute(query.where(*_conditions(dataset, kind, states, None)))
        return found.scalar_one()


def _conditions(
    dataset: str, kind: str, states: Sequence[str] | None, split: str | None
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [Entity.dataset == dataset, Entity.kind == kind]
    if states is not None:
        conditions.append(Entity.state.in_(states))
    if split is not None:
        conditions.append(Entity.split == split)
    return conditions


def find_children(store: Store, parent_id: str, role: Role) -> Iterator[StoredEntity]:
    """The entities that were derived from one in `role`, oldest first, in pages."""
    query = (
        select_entities()
        .join(Derivation, Derivation.child_seq == Entity.seq)
        .join(ParentEntity, ParentEntity.seq == Derivation.parent_seq)
        .where(ParentEntity.id == parent_id, Derivation.role == role)
        .order_by(Entity.seq)
        .limit(_PAGE)
    )
    yield from _paged(store, query)


def _paged(store: Store, query: SelectEntities) -> Iterator[StoredEntity]:
    after = 0
    while True:
        with store.read() as connection:
            page = _stored(connection.execute(query.where(Entity.seq > after)).all())
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].seq


@retried
def find_in_groups(
    store: Store, dataset: str, kind: str, groups: Iterable[str]
) -> list[StoredEntity]:
    """The entities of a dataset and kind that belong to `groups`, oldest first."""
    found: list[StoredEntity] = []
    with store.read() as connection:
        for page in pages(groups):
            query = select_entities().where(Entity.group_key.in_(page)).order_by(Entity.seq)
            # dataset and kind are compared here, so that no planner prefers their index
            found.extend(
                entity
                for entity in _stored(connection.execute(query).all())
                if entity.dataset == dataset and entity.kind == kind
            )
    return found


def parents_of(store: Store, ids: Iterable[str], role: Role) -> dict[str, list[str]]:
    """For each id the ids that it was derived from in `role`, in order of id."""
    return _related(store, ids, role, ChildEntity, ParentEntity)


def children_of(store: Store, ids: Iterable[str], role: Role) -> dict[str, list[str]]:
    """For each id the ids that were derived from it in `role`, in order of id."""
    return _related(store, ids, role, ParentEntity, ChildEntity)


@retried
def _related(
    store: Store, ids: Iterable[str], role: Role, own: type[Entity], other: type[Entity]
) -> dict[str, list[str]]:
    query = (
        select(own.id, other.id)
        .select_from(Derivation)
        .join(ChildEntity, Derivation.child_seq == ChildEntity.seq)
        .join(ParentEntity, Derivation.parent_seq == ParentEntity.seq)
        .where(Derivation.role == role)
        .order_by(other.id)
    )
    related: dict[str, list[str]] = defaultdict(list)
    with store.read() as connection:
        for page in pages(ids):
            for own_id, other_id in connection.execute(query.where(own.id.in_(page))):
                related[own_id].append(other_id)
    return related


def insert_derivations(connection: Connection, entities: Iterable[NewEntity]) -> None:
    """Stores the links of `entities` (stored already) to their parents.

    Raises:
        IntegrityError: a parent is not stored.
    """
    links = [(role, entity.id, parent) for entity in entities for role, parent in entity.parents]
    if not links:
        return
    into = "INSERT INTO derivation (role, child_seq, parent_seq)"
    if connection.dialect.name == "postgresql":
        inserted = connection.exec_driver_sql(
            f"{into} SELECT role, child.seq, parent.seq "  # noqa: S608 no foreign text
            "FROM unnest(%s::text[], %s::text[], %s::text[]) AS link (role, child_id, parent_id) "
            "JOIN entity AS child ON child.id = child_id "
            "JOIN entity AS parent ON parent.id = parent_id ON CONFLICT DO NOTHING",
            tuple(map(list, zip(*links, strict=True))),
        )
    else:
        inserted = connection.exec_driver_sql(
            f"{into} SELECT ?, child.seq, parent.seq "  # noqa: S608 no foreign text
            "FROM entity AS child, entity AS parent "
            "WHERE child.id = ? AND parent.id = ? ON CONFLICT DO NOTHING",
            links,
        )
    if inserted.rowcount < len(links):  # linked before, or a parent is missing
        _require_parents(connection, links)


def _require_parents(connection: Connection, links: Sequence[tuple[str, str, str]]) -> None:
    stored: set[str] = set()
    for page in pages({parent for _, _, parent in links}):
        stored.update(connection.execute(select(Entity.id).where(Entity.id.in_(page))).scalars())
    for role, child, parent in links:
        if parent not in stored:
            raise IntegrityError(
                f"entity {child} names {parent} as its '{role}', but no such entity is stored"
            )
