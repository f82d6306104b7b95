"""Sample records, entities and activities to store."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import func, insert, select, update

from loupe.db.entities import ActivityRecord, AgentRef, NewEntity, WorkResult, new_entity
from loupe.db.store import Store
from loupe.db.tables import Base, Claim, Process
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption

DATASET = "people"
SOFTWARE = AgentRef("software", "loupe", "0.1.0")


def caption(number: int = 0, parents: Sequence[tuple[Role, str]] = ()) -> NewEntity:
    """Return a caption whose text and group contain `number`."""
    record = Caption(source="test", text=f"a person in coat {number}", position=0)
    return new_entity(record, DATASET, parents=parents, split="test", group=f"image {number}")


def activity_of(plan_id: int) -> ActivityRecord:
    """Return an activity of a plan that starts now."""
    return ActivityRecord(plan_id, DATASET, "revision", "a run", datetime.now(UTC), (SOFTWARE,))


def store_entities(store: Store, entities: Sequence[NewEntity]) -> None:
    """Store entities in the given order, as an import does; parents must come first."""
    plan_id = register_plan(store, "import", "1", {"ids": [entity.id for entity in entities]})
    results = [WorkResult(number, entities=(entity,)) for number, entity in enumerate(entities)]
    commit_chunk(store, activity_of(plan_id), results)


def row_count(store: Store, table: type[Base]) -> int:
    """Return the number of rows of a table."""
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def hand_over_claims(store: Store, place: str = "", other: str = "another process") -> None:
    """Assign all claims to another process that sends no more heartbeats.

    `place` is the place of that process; the default is a place that is not ours.
    """
    row = {"id": other, "place": place, "beats": 1, "beat_at": datetime.now(UTC)}
    with store.write() as connection:
        connection.execute(insert(Process), row)
        connection.execute(update(Claim).values(process_id=other))
