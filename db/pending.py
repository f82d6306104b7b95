"""Pending inputs: the entities that a stage takes and that its plan has not processed.

A *plan* is (stage, version, configuration). An input is pending while the plan has no work row for
it. Finished inputs are not read again: each search begins at a low-water mark, up to which nothing
is pending.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, select, true, update

from db.engine import insert_into
from db.entities import pages, rows_in
from db.store import Store, retried
from db.tables.provenance import Activation, Decision, Derivation, Entity, ParentEntity, Plan
from db.tables.work import LowWaterMark, Work
from schemas.base import canonical_json, digest_of

_STEP = 500
"""Number of finished inputs, or changes, that a search reads before it moves the mark."""

_INPUTS_A_CHANGE = 16
"""Number of finished inputs that are read in the time of one change."""


class ParentFilter(NamedTuple):
    """Selects entities whose parent in a role is in one of these states."""

    role: str
    states: tuple[str, ...]


class Pending(NamedTuple):
    """The entities that a stage takes as inputs.

    `group` selects those that belong to it, `beneath` those with such a parent.
    """

    dataset: str
    kind: str
    states: tuple[str, ...]
    group: str | None = None
    beneath: ParentFilter | None = None


def is_pending(plan_id: int, pending: Pending) -> ColumnElement[bool]:
    """Return the condition that an entity is an input without a work row."""
    worked = exists().where(Work.plan_id == plan_id, Work.input == Entity.seq)
    return and_(
        _is_of_kind(pending),
        Entity.state.in_(pending.states),
        true() if pending.group is None else Entity.group_key == pending.group,
        true() if pending.beneath is None else _has_parent(pending.beneath),
        ~worked,
    )


def _is_of_kind(pending: Pending) -> ColumnElement[bool]:
    return and_(Entity.dataset == pending.dataset, Entity.kind == pending.kind)


def _has_parent(wanted: ParentFilter) -> ColumnElement[bool]:
    return exists().where(
        Derivation.child_seq == Entity.seq,
        Derivation.role == wanted.role,
        Derivation.parent_seq == ParentEntity.seq,
        ParentEntity.state.in_(wanted.states),
    )


@retried
def count_pending(store: Store, plan_id: int, pending: Pending) -> int:
    """Count the inputs that the plan has not processed yet, claimed or not."""
    above = Entity.seq > low_water(store, plan_id, pending)
    query = select(func.count()).select_from(Entity).where(is_pending(plan_id, pending), above)
    with store.read() as connection:
        return connection.execute(query).scalar_one()


# The low-water mark of a plan. What makes an input below it pending again:
#
# - a decision on the input or its parent, or an activation: the mark names the last ones that it
#   knows of, and those that came later are looked through;
# - a rejection that is dropped: the plan counts how often that happened, and its marks with an
#   earlier count no longer hold;
# - another group: inputs of one group have no mark.


class _Mark(NamedTuple):
    """The mark of a plan: up to `seq` nothing was pending after this decision and activation."""

    seq: int
    decision: int
    activation: int
    resets: int


@retried
def low_water(store: Store, plan_id: int, pending: Pending) -> int:
    """Return the number up to which nothing is pending, claimed or not.

    Reads at most a few hundred finished inputs; if there are more, the mark is moved past them.
    """
    if pending.group is not None:
        return 0
    with store.read() as connection:
        mark = _read_mark(connection, plan_id, _selection(pending))
        decision, activation = _last_changes(connection)
        if decision + activation <= mark.decision + mark.activation + _STEP:
            reopened = _first_reopened(connection, plan_id, pending, mark)
            near = _after(connection, pending, mark.seq)
            first = _first_pending(connection, plan_id, pending, mark.seq, near)
            if first is not None or near is None:
                return (reopened or first or mark.seq + 1) - 1
    return _move_mark(store, plan_id, pending)


# The mark of a completed stream of a plan, such as the rows of a file. It selects no entities, and
# is reset like any other mark.

_STREAM = digest_of("stream")


class StreamMark(NamedTuple):
    """The number of items in a plan's stream, 0 if some may be left, and the number of resets."""

    items: int = 0
    resets: int = 0


@retried
def stream_mark(store: Store, plan_id: int) -> StreamMark:
    """Return the mark of the stream of a plan."""
    with store.read() as connection:
        mark = _read_mark(connection, plan_id, _STREAM)
    return StreamMark(mark.seq, mark.resets)


@retried
def finish_stream(store: Store, plan_id: int, mark: StreamMark) -> None:
    """Record that a stream is complete; `mark.resets` is the number of resets before it began."""
    with store.write() as connection:
        _store_mark(connection, plan_id, _STREAM, _Mark(mark.items, 0, 0, mark.resets))


def reset_marks(connection: Connection, plan_ids: Iterable[int]) -> None:
    """Make the next search of these plans begin at the first input.

    Call it if work rows are deleted.
    """
    for page in pages(plan_ids):
        counted = update(Plan).where(Plan.id.in_(page)).values(resets=Plan.resets + 1)
        connection.execute(counted)


def _move_mark(store: Store, plan_id: int, pending: Pending) -> int:
    """Move the mark to before the first pending input and return its new value."""
    with store.read() as connection:
        with store.no_writers():  # PostgreSQL numbers rows before other connections see them
            mark = _read_mark(connection, plan_id, _selection(pending))
        decision, activation = _last_changes(connection)
        changes = decision + activation - mark.decision - mark.activation
        if changes * _INPUTS_A_CHANGE > mark.seq:
            mark = mark._replace(seq=0)
        first = _first_reopened(connection, plan_id, pending, mark) or _first_pending(
            connection, plan_id, pending, mark.seq
        )
        last = connection.execute(select(func.coalesce(func.max(Entity.seq), 0))).scalar_one()
    seq = last if first is None else first - 1
    moved = _Mark(seq, decision, activation, mark.resets)
    with store.write() as connection:
        _store_mark(connection, plan_id, _selection(pending), moved)
    return seq


def _selection(pending: Pending) -> str:
    return digest_of(canonical_json(pending))


def _store_mark(connection: Connection, plan_id: int, selection: str, mark: _Mark) -> None:
    key = {"plan_id": plan_id, "selection": selection}
    new = insert_into(connection, LowWaterMark).values(key | mark._asdict())
    connection.execute(new.on_conflict_do_update(index_elements=list(key), set_=mark._asdict()))


def _read_mark(connection: Connection, plan_id: int, selection: str) -> _Mark:
    """Return the valid mark: the beginning if there is none or it was reset."""
    holds = and_(
        LowWaterMark.plan_id == Plan.id,
        LowWaterMark.selection == selection,
        LowWaterMark.resets == Plan.resets,
    )
    query = (
        select(
            func.coalesce(LowWaterMark.seq, 0),
            func.coalesce(LowWaterMark.decision, 0),
            func.coalesce(LowWaterMark.activation, 0),
            Plan.resets,
        )
        .outerjoin_from(Plan, LowWaterMark, holds)
        .where(Plan.id == plan_id)
    )
    return _Mark._make(connection.execute(query).one())


def _last_changes(connection: Connection) -> tuple[int, int]:
    """Return the numbers of the last decision and of the last activation."""
    last = [select(func.coalesce(func.max(one), 0)) for one in (Decision.id, Activation.id)]
    decision, activation = (connection.execute(query).scalar_one() for query in last)
    return decision, activation


def _after(connection: Connection, pending: Pending, seq: int) -> int | None:
    """Return the number of the last of the next entities of that kind; None if there are few."""
    query = select(Entity.seq).where(_is_of_kind(pending), Entity.seq > seq)
    return connection.execute(query.order_by(Entity.seq).offset(_STEP - 1).limit(1)).scalar()


def _first_pending(
    connection: Connection, plan_id: int, pending: Pending, seq: int, last: int | None = None
) -> int | None:
    """Return the first pending input numbered above `seq`, and up to `last` if it is given."""
    up_to_last = true() if last is None else Entity.seq <= last
    query = select(Entity.seq).where(is_pending(plan_id, pending), Entity.seq > seq, up_to_last)
    return connection.execute(query.order_by(Entity.seq).limit(1)).scalar()


def _first_reopened(
    connection: Connection, plan_id: int, pending: Pending, mark: _Mark
) -> int | None:
    """Return the first input up to the mark that is pending because of a later change."""
    if not mark.seq:
        return None
    query = select(func.min(Entity.seq)).where(is_pending(plan_id, pending), Entity.seq <= mark.seq)
    found = rows_in(connection, query, Entity.seq, _changed_after(connection, pending, mark))
    return min(filter(None, (seq for (seq,) in found)), default=None)


def _changed_after(connection: Connection, pending: Pending, mark: _Mark) -> Iterator[int]:
    """Return the numbers of entities whose state changed after the mark, and of their children."""
    decided = select(Decision.entity_id).where(Decision.id > mark.decision)
    activated = select(Activation.entity_id).where(Activation.id > mark.activation)
    for ids in pages(connection.execute(decided.union(activated)).scalars().all()):
        seqs = connection.execute(select(Entity.seq).where(Entity.id.in_(ids))).scalars().all()
        yield from seqs
        if pending.beneath is not None:
            children = select(Derivation.child_seq).where(
                Derivation.parent_seq.in_(seqs), Derivation.role == pending.beneath.role
            )
            yield from connection.execute(children).scalars().all()
