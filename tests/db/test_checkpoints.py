"""Checkpoints are stored with finished results, only move forward and end with the work."""

from collections.abc import Sequence

import pytest
from sqlalchemy import select

from loupe.db.entities import NewEntity, WorkResult, fetch
from loupe.db.store import Store
from loupe.db.tables import Activity, Checkpoint, Entity
from loupe.db.work import (
    Pending,
    StoredCheckpoint,
    commit_chunk,
    count_pending,
    drop_finished_checkpoints,
    load_checkpoint,
    register_plan,
    save_checkpoint,
)
from loupe.schemas.errors import IntegrityError
from loupe.schemas.provenance import Role
from tests.db.samples import DATASET, activity_of, caption, row_count, store_entities

VIDEO = 7
HALF = StoredCheckpoint(500, bytes(range(256)) * 40)


@pytest.fixture
def plan_id(store: Store) -> int:
    return register_plan(store, "track_people", "1", {})


def save(
    store: Store, plan_id: int, checkpoint: StoredCheckpoint, entities: Sequence[NewEntity] = ()
) -> None:
    save_checkpoint(store, activity_of(plan_id), VIDEO, checkpoint, entities)


@pytest.mark.usefixtures("database_url")
def test_a_checkpoint_is_replaced_only_by_a_later_one(store: Store, plan_id: int) -> None:
    finished, later = caption(1), StoredCheckpoint(1000, b"later")
    save(store, plan_id, HALF, [finished])
    assert load_checkpoint(store, plan_id, VIDEO) == HALF
    assert set(fetch(store, [finished.id])) == {finished.id}
    other = register_plan(store, "track_people", "2", {})
    assert load_checkpoint(store, plan_id, VIDEO + 1) is None
    assert load_checkpoint(store, other, VIDEO) is None
    save(store, plan_id, later)
    assert load_checkpoint(store, plan_id, VIDEO) == later
    save(store, plan_id, HALF, [finished])  # a run that was overtaken
    assert load_checkpoint(store, plan_id, VIDEO) == later
    assert (row_count(store, Checkpoint), row_count(store, Entity)) == (1, 1)


def test_a_checkpoint_is_not_stored_if_its_entities_cannot_be_stored(
    store: Store, plan_id: int
) -> None:
    orphan = caption(1, parents=[(Role.TRACKED_IN, "0" * 32)])
    with pytest.raises(IntegrityError):
        save(store, plan_id, HALF, [orphan])
    assert load_checkpoint(store, plan_id, VIDEO) is None
    assert row_count(store, Activity) == 0


def test_checkpoints_of_finished_work_are_dropped(store: Store, plan_id: int) -> None:
    save(store, plan_id, HALF)
    drop_finished_checkpoints(store, plan_id)
    assert load_checkpoint(store, plan_id, VIDEO) == HALF
    commit_chunk(store, activity_of(plan_id), [WorkResult(VIDEO)])
    drop_finished_checkpoints(store, plan_id)
    with store.read() as connection:
        assert connection.execute(select(Checkpoint.input)).all() == []


def test_pending_inputs_can_be_limited_to_one_group(store: Store, plan_id: int) -> None:
    store_entities(store, [caption(number) for number in range(3)])
    one = Pending(DATASET, "caption", ("proposed",), group="image 1")
    assert count_pending(store, plan_id, one) == 1
    assert count_pending(store, plan_id, one._replace(group=None)) == 3
