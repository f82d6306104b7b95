"""The work of plans: claims on their pending inputs, results and checkpoints."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    true,
)

from db.decisions import NewDecision, append_decisions
from db.engine import insert_into, insert_new, insert_new_text
from db.entities import (
    AgentRef,
    NewEntity,
    StoredEntity,
    insert_derivations,
    pages,
    register_agents,
    rows_in,
    select_entities,
)
from db.pending import Pending, is_pending, reset_marks
from db.store import Store, retried
from db.tables.provenance import Activity, Association, Entity, Plan
from db.tables.work import Checkpoint, Claim, Work
from db.withdrawals import withdraw_late_children
from schemas.base import canonical_json, digest_of
from schemas.records import Rejection


@retried
def count_plans(store: Store, stage: str, inputs: Iterable[int]) -> dict[int, int]:
    """Count the plans of a stage that processed each input; inputs without any are left out."""
    plans = select(Plan.id).where(Plan.stage == stage)
    query = select(Work.input, func.count()).where(Work.plan_id.in_(plans)).group_by(Work.input)
    with store.read() as connection:
        return dict(rows_in(connection, query, Work.input, inputs))


@retried
def rejections_of(store: Store, plan_id: int, inputs: Iterable[int]) -> dict[int, Rejection]:
    """Return the rejections of inputs by a plan; inputs that it did not reject are left out."""
    query = select(Work.input, Work.rejection).where(
        Work.plan_id == plan_id, Work.status == "rejected"
    )
    with store.read() as connection:
        return {
            input_: Rejection.model_validate_json(text or "{}")
            for input_, text in rows_in(connection, query, Work.input, inputs)
        }


@retried
def drop_rejections(store: Store, plan_id: int, inputs: Iterable[int]) -> int:
    """Delete a plan's rejections of these inputs, which are pending again; return their number."""
    taken = 0
    with store.write() as connection:
        for page in pages(inputs):
            rejected = delete(Work).where(
                Work.plan_id == plan_id, Work.status == "rejected", Work.input.in_(page)
            )
            taken += connection.execute(rejected).rowcount
        reset_marks(connection, [plan_id])
    return taken


# Concurrent runs share the pending inputs of a plan by claims on chunks (`db.claims`).

_ENTITY_COLUMNS = (
    *("id", "dataset", "kind", "payload", "split", "group_key"),
    *("model_call_key", "state", "activity_id"),
)
_WORK_COLUMNS = ("plan_id", "input", "status", "activity_id", "reason", "rejection")


class ClaimedChunk(NamedTuple):
    """Inputs that only this process works on until its claim ends."""

    claim_id: str
    inputs: tuple[StoredEntity, ...]


class WorkResult(NamedTuple):
    """The result of one input: new entities and decisions, or a rejection."""

    input: int
    entities: tuple[NewEntity, ...] = ()
    decisions: tuple[NewDecision, ...] = ()
    rejection: Rejection | None = None


class ActivityRecord(NamedTuple):
    """The run of a plan over one chunk, and its agents."""

    plan_id: int
    dataset: str
    code_revision: str
    flow_run: str
    started_at: datetime
    agents: tuple[AgentRef, ...] = ()


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
    subject = _subject(plan_id, pending.dataset)
    is_wanted = and_(is_pending(plan_id, pending), _is_not_in(passed_over), Entity.seq > after)
    while True:
        with store.read() as connection:
            ended = [*store.claims.ended(connection)]
            claimed = exists().where(
                Claim.subject == subject, Claim.upper > after, Claim.process_id.not_in(ended)
            )
            query = select_entities().where(is_wanted).order_by(Entity.seq).limit(size)
            if connection.execute(select(claimed)).scalar():
                query = query.where(~claimed.where(Entity.seq.between(Claim.lower, Claim.upper)))
            found = list(map(StoredEntity._make, connection.execute(query)))
        if not found:
            return None
        with store.write() as connection:
            _lock_plan(connection, plan_id)
            store.claims.drop_ended(connection)
            inputs = _still_free(connection, plan_id, subject, found)
            if inputs:
                claim_id = store.claims.take(connection, subject, inputs[0].seq, inputs[-1].seq)
                return ClaimedChunk(claim_id, inputs) if claim_id else None


def _still_free(
    connection: Connection, plan_id: int, subject: str, found: Sequence[StoredEntity]
) -> tuple[StoredEntity, ...]:
    """Return the inputs that no other run has claimed or processed since they were found."""
    first, last = found[0].seq, found[-1].seq
    free = found
    between = select(Work.input).where(Work.plan_id == plan_id, Work.input.between(first, last))
    if connection.execute(between.limit(1)).first() is not None:
        done = _worked(connection, plan_id, [one.seq for one in found])
        free = [one for one in free if one.seq not in done]
    claims = select(Claim.lower, Claim.upper).where(
        Claim.subject == subject, Claim.lower <= last, Claim.upper >= first
    )
    for lower, upper in connection.execute(claims):
        free = [one for one in free if not lower <= one.seq <= upper]
    return tuple(free)


def _is_not_in(inputs: Collection[int]) -> ColumnElement[bool]:
    """Numbers are part of the statement, as databases limit the number of parameters."""
    if not inputs:
        return true()
    listed: BindParameter[Any] = bindparam(
        "inputs", sorted(inputs), expanding=True, literal_execute=True
    )
    return Entity.seq.not_in(listed)


def _lock_plan(connection: Connection, plan_id: int) -> None:
    """Lock the claims of one plan; SQLite has one writer and needs no lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(plan_id)))


def _subject(plan_id: int, dataset: str) -> str:
    """Return the subject of claims on a plan's work on a dataset."""
    return f"plan/{plan_id}/{dataset}"


@retried
def claim_whole(store: Store, plan_id: int, dataset: str) -> str | None:
    """Claim a plan's work on a dataset as a whole; None while another claims any of it."""
    subject = _subject(plan_id, dataset)
    with store.write() as connection:
        _lock_plan(connection, plan_id)
        if store.claims.is_taken(connection, subject):
            return None
        return store.claims.take(connection, subject)


@retried
def live_claims(store: Store, plan_id: int, dataset: str) -> bool:
    """Return whether a run, this or another, has a claim on inputs of this plan."""
    with store.read() as connection:
        return store.claims.is_taken(connection, _subject(plan_id, dataset))


@retried
def drop_claims(store: Store, *claim_ids: str) -> None:
    """Release claims on unfinished work."""
    if claim_ids:
        with store.write() as connection:
            connection.execute(delete(Claim).where(Claim.id.in_(claim_ids)))


@retried
def worked_inputs(store: Store, plan_id: int, inputs: Sequence[int]) -> set[int]:
    """Return those of `inputs` that the plan has processed."""
    with store.read() as connection:
        return _worked(connection, plan_id, inputs)


def _worked(connection: Connection, plan_id: int, inputs: Sequence[int]) -> set[int]:
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
    if insert_new_text(connection, Work, _WORK_COLUMNS, rows, short=True) == len(rows):
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
    row = connection.execute(
        insert(Activity).returning(Activity.id),
        {
            "plan_id": activity.plan_id,
            "dataset": activity.dataset,
            "code_revision": activity.code_revision,
            "flow_run": activity.flow_run,
            "started_at": activity.started_at,
            "ended_at": datetime.now(UTC),
        },
    )
    activity_id = row.scalar_one()
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


@retried
def load_checkpoint(store: Store, plan_id: int, input_: int) -> StoredCheckpoint | None:
    """Return the checkpoint of an input of a plan; None if it has to start from the beginning."""
    query = select(Checkpoint.position, Checkpoint.state).where(
        Checkpoint.plan_id == plan_id, Checkpoint.input == input_
    )
    with store.read() as connection:
        row = connection.execute(query).one_or_none()
    return StoredCheckpoint(row.position, row.state) if row else None


@retried
def save_checkpoint(
    store: Store,
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
    with store.write() as connection:
        if entities:
            store_activity(connection, activity, entities)
        new = insert_into(connection, Checkpoint).values(**row)
        connection.execute(
            new.on_conflict_do_update(
                index_elements=[Checkpoint.plan_id, Checkpoint.input],
                set_={"position": new.excluded.position, "state": new.excluded.state},
                where=new.excluded.position > Checkpoint.position,
            )
        )


@retried
def drop_finished_checkpoints(store: Store, plan_id: int) -> None:
    """Delete the checkpoints of a plan's inputs whose work is finished."""
    finished = exists().where(Work.plan_id == plan_id, Work.input == Checkpoint.input)
    with store.write() as connection:
        connection.execute(delete(Checkpoint).where(Checkpoint.plan_id == plan_id, finished))
