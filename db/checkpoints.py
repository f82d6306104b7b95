"""Checkpoints: how far the work on one long input has come, so that a killed run goes on there."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from db.entities import NewEntity
from db.store import Store, retried
from db.tables.work import Checkpoint, Work
from db.work import ActivityRecord, store_activity


class StoredCheckpoint(NamedTuple):
    """Where to go on: the first position that is not worked on yet, and what was known there."""

    position: int
    state: bytes


@retried
def load_checkpoint(store: Store, plan_id: int, input_: int) -> StoredCheckpoint | None:
    """The checkpoint of an input of a plan, or None where its work is to begin anew."""
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
    """Stores what was finished up to a checkpoint together with it: both, or neither.

    A run that was taken for dead and overtaken leaves the further checkpoint of the other as it is.
    What it finished has the same ids as what the other one did, and is stored once.

    Raises:
        IntegrityError: an entity names a parent that is not stored; nothing was stored.
    """
    row = {"plan_id": activity.plan_id, "input": input_, **checkpoint._asdict()}
    with store.write() as connection:
        if entities:
            store_activity(connection, activity, entities)
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        new = dialect.insert(Checkpoint).values(**row)
        connection.execute(
            new.on_conflict_do_update(
                index_elements=[Checkpoint.plan_id, Checkpoint.input],
                set_={"position": new.excluded.position, "state": new.excluded.state},
                where=new.excluded.position > Checkpoint.position,
            )
        )


@retried
def drop_finished_checkpoints(store: Store, plan_id: int) -> None:
    """Forgets the checkpoints of a plan's inputs whose work is finished."""
    finished = exists().where(Work.plan_id == plan_id, Work.input == Checkpoint.input)
    with store.write() as connection:
        connection.execute(delete(Checkpoint).where(Checkpoint.plan_id == plan_id, finished))
