"""The work of plans: their pending inputs, claims on them, results and checkpoints.

A *plan* is (stage, version, configuration). An input is pending while the plan has no work row for
it. Finished inputs are not read again: each search begins at a low-water mark, up to which nothing
is pending.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    true,
    update,
)

from loupe.db.decisions import append_decisions
from loupe.db.entities import (
    ActivityRecord,
    NewEntity,
    WorkResult,
    change_in,
    insert_derivations,
    register_agents,
    rows_in,
)
from loupe.db.store import Store, acquire_lock, reads, retried, writes
from loupe.db.tables import (
    Activation,
    Activity,
    Association,
    Checkpoint,
    Claim,
    Decision,
    Derivation,
    Entity,
    LowWaterMark,
    ParentEntity,
    Plan,
    Work,
    insert_into,
    insert_new,
    insert_new_text,
)
from loupe.db.withdrawals import withdraw_late_children
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.records import Rejection

_STEP = 500
"""Number of finished inputs, or changes, that a search reads before it moves the mark."""

_CHANGES = (Decision.id, Activation.id)
_INPUTS_A_CHANGE = 16
"""Number of finished inputs that are read in the time of one change."""


class ParentFilter(NamedTuple):
    """Selects entities whose parent in a role is in one of these states."""

    role: str
    states: tuple[str, ...]


class Pending(NamedTuple):
    """The entities that a stage takes as inputs.

    `group` selects the members of a group, `parent` those with such a parent.
    """

    dataset: str
    kind: str
    states: tuple[str, ...]
    group: str | None = None
    parent: ParentFilter | None = None


def _is_pending(plan_id: int, pending: Pending) -> ColumnElement[bool]:
    """Return the condition that an entity is an input without a work row."""
    return and_(_is_of_kind(pending), _is_unworked(plan_id, pending))


def _is_unworked(plan_id: int, pending: Pending) -> ColumnElement[bool]:
    worked = exists().where(Work.plan_id == plan_id, Work.input == Entity.seq)
    return and_(
        Entity.state.in_(pending.states),
        true() if pending.group is None else Entity.group_key == pending.group,
        true() if pending.parent is None else _has_parent(pending.parent),
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
    query = select(func.count()).select_from(Entity).where(_is_pending(plan_id, pending), above)
    with store.read() as connection:
        return connection.execute(query).scalar_one()


# The low-water mark of a plan. What makes an input below it pending again:
#
# - a decision on the input, or an activation: the mark names the last ones that it knows of, and
#   those that came later are looked through;
# - a rejection that is dropped: the plan counts how often that happened, and its marks with an
#   earlier count no longer hold;
# - another group, or a decision on its parent: inputs selected by these have no mark.


class Mark(NamedTuple):
    """The mark of a plan: up to `seq` nothing was pending after this decision and activation.

    Of a completed stream (`finish_stream`), `seq` is the number of items.
    """

    seq: int = 0
    decision: int = 0
    activation: int = 0
    resets: int = 0


@retried
def low_water(store: Store, plan_id: int, pending: Pending) -> int:
    """Return the number up to which nothing is pending, claimed or not.

    Reads at most a few hundred finished inputs; if there are more, the mark is moved past them.
    """
    if pending.group is not None or pending.parent is not None:
        return 0
    with store.read() as connection:
        mark, decision, activation = _read_mark(connection, plan_id, _selection(pending))
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


@reads
def stream_mark(connection: Connection, plan_id: int) -> Mark:
    """Return the mark of the stream of a plan; its `seq` is 0 if some items may be left."""
    return _read_mark(connection, plan_id, _STREAM)[0]


@writes
def finish_stream(connection: Connection, plan_id: int, mark: Mark) -> None:
    """Record that a stream is complete; `mark.resets` is the number of resets before it began."""
    _store_mark(connection, plan_id, _STREAM, mark)


@writes
def begin_stream(connection: Connection, plan_id: int, state: str) -> bool:
    """Forget the results of a stream that was begun in another state of what it reads.

    Returns whether there were any: its items are then processed again.
    """
    selection = digest_of("state", state)
    mark, _, _ = _read_mark(connection, plan_id, selection)
    if mark.seq:
        return False
    forgotten = connection.execute(delete(Work).where(Work.plan_id == plan_id)).rowcount
    reset_marks(connection, [plan_id])
    _store_mark(connection, plan_id, selection, Mark(seq=1, resets=mark.resets + 1))
    return forgotten > 0


def reset_marks(connection: Connection, plan_ids: Iterable[int]) -> None:
    """Make the next search of these plans begin at the first input.

    Call it if work rows are deleted.
    """
    change_in(connection, update(Plan).values(resets=Plan.resets + 1), Plan.id, plan_ids)


def _move_mark(store: Store, plan_id: int, pending: Pending) -> int:
    """Move the mark to before the first pending input and return its new value."""
    with store.read() as connection:
        with store.no_writers():  # PostgreSQL numbers rows before other connections see them
            mark, decision, activation = _read_mark(connection, plan_id, _selection(pending))
        changes = decision + activation - mark.decision - mark.activation
        if changes * _INPUTS_A_CHANGE > mark.seq:
            mark = mark._replace(seq=0)
        first = _first_reopened(connection, plan_id, pending, mark) or _first_pending(
            connection, plan_id, pending, mark.seq
        )
        last = connection.execute(select(func.coalesce(func.max(Entity.seq), 0))).scalar_one()
    seq = last if first is None else first - 1
    moved = Mark(seq, decision, activation, mark.resets)
    with store.write() as connection:
        _store_mark(connection, plan_id, _selection(pending), moved)
    return seq


def _selection(pending: Pending) -> str:
    return digest_of(canonical_json(pending))


def _store_mark(connection: Connection, plan_id: int, selection: str, mark: Mark) -> None:
    key = {"plan_id": plan_id, "selection": selection}
    new = insert_into(connection.dialect.name, LowWaterMark).values(key | mark._asdict())
    connection.execute(new.on_conflict_do_update(index_elements=list(key), set_=mark._asdict()))


def _read_mark(connection: Connection, plan_id: int, selection: str) -> tuple[Mark, int, int]:
    """Return the valid mark, and the numbers of the last decision and the last activation.

    The mark is the beginning if there is none or it was reset.
    """
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
            *(select(func.coalesce(func.max(one), 0)).scalar_subquery() for one in _CHANGES),
        )
        .outerjoin_from(Plan, LowWaterMark, holds)
        .where(Plan.id == plan_id)
    )
    *mark, decision, activation = connection.execute(query).one()
    return Mark._make(mark), decision, activation


def _after(connection: Connection, pending: Pending, seq: int) -> int | None:
    """Return the number of the last of the next entities of that kind; None if there are few."""
    query = select(Entity.seq).where(_is_of_kind(pending), Entity.seq > seq)
    return connection.execute(query.order_by(Entity.seq).offset(_STEP - 1).limit(1)).scalar()


def _first_pending(
    connection: Connection, plan_id: int, pending: Pending, seq: int, last: int | None = None
) -> int | None:
    """Return the first pending input numbered above `seq`, and up to `last` if it is given."""
    up_to_last = true() if last is None else Entity.seq <= last
    query = select(Entity.seq).where(_is_pending(plan_id, pending), Entity.seq > seq, up_to_last)
    return connection.execute(query.order_by(Entity.seq).limit(1)).scalar()


def _first_reopened(
    connection: Connection, plan_id: int, pending: Pending, mark: Mark
) -> int | None:
    """Return the first input up to the mark that is pending because of a later change."""
    if not mark.seq:
        return None
    decided = select(Decision.entity_id).where(Decision.id > mark.decision)
    activated = select(Activation.entity_id).where(Activation.id > mark.activation)
    changed = connection.execute(decided.union(activated)).scalars().all()
    query = select(Entity.seq, Entity.dataset, Entity.kind).where(
        _is_unworked(plan_id, pending), Entity.seq <= mark.seq
    )
    found = rows_in(connection, query, Entity.id, changed)
    # dataset and kind are compared here, so that no query planner prefers their index
    of_kind = (pending.dataset, pending.kind)
    return min((seq for seq, *its in found if tuple(its) == of_kind), default=None)


@reads
def count_plans(connection: Connection, stage: str, inputs: Iterable[int]) -> dict[int, int]:
    """Count the plans of a stage that processed each input; inputs without any are left out."""
    plans = select(Plan.id).where(Plan.stage == stage)
    query = select(Work.input, func.count()).where(Work.plan_id.in_(plans)).group_by(Work.input)
    return dict(rows_in(connection, query, Work.input, inputs))


@reads
def rejections_of(
    connection: Connection, plan_id: int, inputs: Iterable[int]
) -> dict[int, Rejection]:
    """Return the rejections of inputs by a plan; inputs that it did not reject are left out."""
    query = select(Work.input, Work.rejection).where(
        Work.plan_id == plan_id, Work.status == "rejected"
    )
    return {
        input_: Rejection.model_validate_json(text or "{}")
        for input_, text in rows_in(connection, query, Work.input, inputs)
    }


@reads
def rejected_inputs(
    connection: Connection, plan_id: int, dataset: str, kind: str, states: Collection[str]
) -> list[tuple[str, str]]:
    """Return (id, reason) of the entities in these states that a plan rejected."""
    query = (
        select(Entity.id, Work.reason)
        .join(Entity, Entity.seq == Work.input)
        .where(
            Work.plan_id == plan_id,
            Work.status == "rejected",
            Entity.dataset == dataset,
            Entity.kind == kind,
            Entity.state.in_(states),
        )
    )
    return [(id_, str(reason)) for id_, reason in connection.execute(query)]


@reads
def rejected_work(
    connection: Connection, dataset: str, stages: Collection[str]
) -> list[tuple[str, Rejection]]:
    """Return (id, rejection) of the entities of a dataset that these stages rejected."""
    query = (
        select(Entity.id, Work.rejection)
        .join(Entity, Entity.seq == Work.input)
        .join(Plan, Plan.id == Work.plan_id)
        .where(Work.status == "rejected", Entity.dataset == dataset, Plan.stage.in_(stages))
        .order_by(Entity.seq)
    )
    return [
        (id_, Rejection.model_validate_json(text or "{}"))
        for id_, text in connection.execute(query)
    ]


@writes
def drop_rejections(connection: Connection, plan_id: int, inputs: Iterable[int]) -> int:
    """Delete a plan's rejections of these inputs, which are pending again; return their number."""
    rejected = delete(Work).where(Work.plan_id == plan_id, Work.status == "rejected")
    dropped = change_in(connection, rejected, Work.input, inputs)
    reset_marks(connection, [plan_id])
    return dropped


# Concurrent runs share the pending inputs of a plan by claims on chunks (`loupe.db.store`).

_ENTITY_COLUMNS = (
    *("id", "dataset", "kind", "payload", "split", "group_key"),
    *("model_call_key", "state", "activity_id"),
)
_HIGHEST = (1 << 63) - 1  # of the numbers that databases store
_WORK_COLUMNS = ("plan_id", "input", "status", "activity_id", "reason", "rejection")


class ClaimedChunk(NamedTuple):
    """Inputs that are processed together, and the claim on them if other runs could take them.

    Claimed inputs are the numbers of entities.
    """

    claim_id: str | None
    inputs: Sequence[Any]


@retried
def register_plan(store: Store, stage: str, version: str, configuration: dict[str, Any]) -> int:
    """Store the plan and return its number; the same three values have the same number."""
    key = digest_of(stage, version, canonical_json(configuration))
    number = select(Plan.id).where(Plan.key == key)
    with store.read() as connection:
        known = connection.execute(number).scalar_one_or_none()
    if known is not None:
        return known
    row = {"key": key, "stage": stage, "version": version, "configuration": configuration}
    with store.write() as connection:
        insert_new(connection, Plan, [row])
        return connection.execute(number).scalar_one()


@retried
def claim_chunk(
    store: Store,
    plan_id: int,
    pending: Pending,
    size: int,
    after: int = 0,
    passed_over: Collection[int] = (),
) -> ClaimedChunk | None:
    """Claim up to `size` pending inputs numbered above `after`; return None if there are none.

    Inputs in `passed_over` are left for other runs. Inputs are searched while others write; the
    transaction that writes the claim only checks those that were found.
    """

    def free(connection: Connection, ended: Iterable[str], lower: int, upper: int) -> Sequence[int]:
        query = _free(plan_id, pending, tuple(ended)).where(_is_not_in(passed_over))
        limits = {"lower": lower, "upper": upper, "size": size}
        return connection.execute(query, limits).scalars().all()

    store.claims.delete_given_up()
    while True:
        with store.read() as connection:
            ended = store.claims.ended(connection)
            found = free(connection, ended, after + 1, _HIGHEST)
        if not found:
            return None
        with store.write() as connection:
            acquire_lock(connection, f"plan {plan_id}")
            if ended:
                store.claims.drop_ended(connection)
            still_free = set(free(connection, (), found[0], found[-1]))
            inputs = tuple(one for one in found if one in still_free)
            if inputs:
                subject = _subject(plan_id, pending.dataset)
                claim_id = store.claims.take(connection, subject, inputs[0], inputs[-1])
                return ClaimedChunk(claim_id, inputs) if claim_id else None


@lru_cache(64)  # building it takes longer than the query
def _free(plan_id: int, pending: Pending, ended: tuple[str, ...]) -> Select[int]:
    """Return a query for the first `size` pending inputs from `lower` to `upper` without a claim.

    Claims of the processes `ended` do not count.
    """
    is_free = and_(
        _is_pending(plan_id, pending),
        _is_unclaimed(_subject(plan_id, pending.dataset), ended),
        Entity.seq.between(bindparam("lower"), bindparam("upper")),
    )
    return select(Entity.seq).where(is_free).order_by(Entity.seq).limit(bindparam("size"))


def _is_unclaimed(subject: str, ended: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that an entity has no claim, except by ended processes."""
    claimed = exists().where(
        Claim.subject == subject,
        Entity.seq.between(Claim.lower, Claim.upper),
        Claim.process_id.not_in(ended),
    )
    return ~claimed


def _is_not_in(inputs: Collection[int]) -> ColumnElement[bool]:
    """Numbers are part of the statement, as databases limit the number of parameters."""
    if not inputs:
        return true()
    listed: BindParameter[Any] = bindparam(
        "inputs", sorted(inputs), expanding=True, literal_execute=True
    )
    return Entity.seq.not_in(listed)


def _subject(plan_id: int, dataset: str) -> str:
    """Return the subject of claims on a plan's work on a dataset."""
    return f"plan/{plan_id}/{dataset}"


@retried
def live_claims(store: Store, plan_id: int, dataset: str) -> bool:
    """Return whether a run, this or another, has a claim on inputs of this plan."""
    with store.read() as connection:
        return store.claims.is_taken(connection, _subject(plan_id, dataset))


@reads
def worked_inputs(connection: Connection, plan_id: int, inputs: Sequence[int]) -> set[int]:
    """Return those of `inputs` that the plan has processed."""
    query = select(Work.input).where(Work.plan_id == plan_id)
    return {input_ for (input_,) in rows_in(connection, query, Work.input, inputs)}


@retried
def commit_chunk(
    store: Store,
    activity: ActivityRecord,
    results: Sequence[WorkResult],
    claim_id: str | None = None,
) -> None:
    """Store a chunk's entities, derivations, decisions and work rows in one transaction.

    If another run has processed an input meanwhile (the claim had been taken over), its results are
    kept and those of this run are left out, so that no input has two results. Children of entities
    that were withdrawn meanwhile are stored as withdrawn.

    Raises:
        IntegrityError: an entity names a parent that is not stored; nothing was stored.
    """
    with store.write() as connection:
        activity_id = _insert_activity(connection, activity)
        own = _insert_work(connection, activity.plan_id, activity_id, results)
        entities = [entity for result in own for entity in result.entities]
        _insert_entities(connection, activity_id, entities)
        append_decisions(connection, [d for result in own for d in result.decisions])
        if claim_id is not None:
            store.claims.release(connection, claim_id)


def store_activity(
    connection: Connection, activity: ActivityRecord, entities: Sequence[NewEntity]
) -> int:
    """Store an activity with the entities it made and their links; return its number."""
    activity_id = _insert_activity(connection, activity)
    _insert_entities(connection, activity_id, entities)
    return activity_id


def _insert_work(
    connection: Connection, plan_id: int, activity_id: int, results: Sequence[WorkResult]
) -> list[WorkResult]:
    """Insert the work rows of `results`; return those whose inputs had none before."""
    rows: list[tuple[Any, ...]] = []
    for one in results:
        status, reason, text = "done", None, None
        if (refused := one.rejection) is not None:
            status, reason, text = "rejected", refused.reason, refused.model_dump_json()
        rows.append((plan_id, one.input, status, activity_id, reason, text))
    if insert_new_text(connection, Work, _WORK_COLUMNS, rows) == len(rows):
        return list(results)
    query = select(Work.input).where(Work.plan_id == plan_id, Work.activity_id == activity_id)
    inputs = (result.input for result in results)
    own = {input_ for (input_,) in rows_in(connection, query, Work.input, inputs)}
    return [result for result in results if result.input in own]


def _insert_entities(
    connection: Connection, activity_id: int, entities: Sequence[NewEntity]
) -> None:
    rows = [(*own, model_call, "proposed", activity_id) for *own, _parents, model_call in entities]
    insert_new_text(connection, Entity, _ENTITY_COLUMNS, rows)
    insert_derivations(connection, entities)
    withdraw_late_children(connection, entities)


def _insert_activity(connection: Connection, activity: ActivityRecord) -> int:
    row = activity._asdict() | {"ended_at": datetime.now(UTC)}
    del row["agents"]
    activity_id = connection.execute(insert(Activity).returning(Activity.id), row).scalar_one()
    agent_ids = register_agents(connection, activity.agents)
    insert_new(
        connection,
        Association,
        [{"activity_id": activity_id, "agent_id": agent_id} for agent_id in agent_ids],
    )
    return activity_id


# Checkpoints of long inputs, from which the next run continues after a kill.


class StoredCheckpoint(NamedTuple):
    """Where to continue: the next position, and the state at that position."""

    position: int
    state: bytes


@reads
def load_checkpoint(connection: Connection, plan_id: int, input_: int) -> StoredCheckpoint | None:
    """Return the checkpoint of an input of a plan; None if it has to start from the beginning."""
    query = select(Checkpoint.position, Checkpoint.state).where(
        Checkpoint.plan_id == plan_id, Checkpoint.input == input_
    )
    row = connection.execute(query).one_or_none()
    return StoredCheckpoint(row.position, row.state) if row else None


@writes
def save_checkpoint(
    connection: Connection,
    activity: ActivityRecord,
    input_: int,
    checkpoint: StoredCheckpoint,
    entities: Sequence[NewEntity],
) -> None:
    """Store a checkpoint and the results up to it: both or neither.

    If this run was taken for dead and another run is further on, the other's checkpoint is kept.
    Their results have the same ids and are stored once.

    Raises:
        IntegrityError: an entity names a parent that is not stored; nothing was stored.
    """
    row = {"plan_id": activity.plan_id, "input": input_, **checkpoint._asdict()}
    if entities:
        store_activity(connection, activity, entities)
    new = insert_into(connection.dialect.name, Checkpoint).values(**row)
    connection.execute(
        new.on_conflict_do_update(
            index_elements=[Checkpoint.plan_id, Checkpoint.input],
            set_={"position": new.excluded.position, "state": new.excluded.state},
            where=new.excluded.position > Checkpoint.position,
        )
    )


@writes
def drop_finished_checkpoints(connection: Connection, plan_id: int) -> None:
    """Delete the checkpoints of a plan's inputs whose work is finished."""
    finished = exists().where(Work.plan_id == plan_id, Work.input == Checkpoint.input)
    connection.execute(delete(Checkpoint).where(Checkpoint.plan_id == plan_id, finished))
