"""Stores one entity that no chunk brings: a source, a prompt, a sample."""

from collections.abc import Sequence
from datetime import UTC, datetime

from db.entities import NewEntity, new_entity
from db.work import ActivityRecord, WorkResult, commit_chunk, register_plan, worked_inputs
from flows.context import RunContext
from schemas.base import EntityRecord

VERSION = "1"


def store_entity(
    context: RunContext,
    record: EntityRecord,
    dataset: str,
    parents: Sequence[tuple[str, str]] = (),
) -> NewEntity:
    """`record` as an entity of `dataset`; stored already, it stays as it is."""
    entity = new_entity(record, dataset, parents=parents)
    plan_id = register_plan(
        context.store, f"register_{record.kind}", VERSION, {"dataset": dataset, "id": entity.id}
    )
    if worked_inputs(context.store, plan_id, [0]):
        return entity
    activity = ActivityRecord(
        plan_id=plan_id,
        dataset=dataset,
        code_revision=context.code_revision,
        flow_run=context.flow_run,
        started_at=datetime.now(UTC),
        agents=(context.software,),
    )
    commit_chunk(context.store, activity, [WorkResult(0, entities=(entity,))])
    return entity
