"""Tasks, answers and decisions written directly to the store, without a server or a sync."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import select, update

from loupe.db.annotations import NewAnnotation, insert_annotations
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, NewEntity, new_entity
from loupe.db.gold import NewCheck, record_checks
from loupe.db.reviews import StoredTask, announce_tasks, change_tasks
from loupe.db.store import Store
from loupe.db.tables import ReviewTask
from loupe.schemas.base import digest_of
from loupe.schemas.records import Rewrite
from tests.db.samples import store_entities

QUEUE = "people-rewrites"
START = datetime(2026, 1, 1, tzinfo=UTC)
Verdict = Literal["accept", "edit", "reject"]


def rewrite(number: int, source: str = "street", split: str | None = "test") -> NewEntity:
    """Return a rewrite whose text contains `number`."""
    record = Rewrite(source=source, text=f"in a coat of colour {number}", author="m@1")
    return new_entity(record, "people", split=split)


def store_rewrites(store: Store, count: int, source: str = "street", first: int = 0) -> list[str]:
    """Store rewrites and return their ids."""
    rewrites = [rewrite(number, source) for number in range(first, first + count)]
    store_entities(store, rewrites)
    return [entity.id for entity in rewrites]


class Desk:
    """Create tasks and answers; each answer is one minute later than the one before."""

    def __init__(self, store: Store, queue: str = QUEUE) -> None:
        self.store = store
        self.queue = queue
        self._now = START
        self._number = 0

    def give(
        self, entity_id: str, assignee: str, purpose: str = "review", *, gold: bool = False
    ) -> StoredTask:
        """Create an open task."""
        key = digest_of("task", self.queue, entity_id, assignee, purpose)
        task = StoredTask(
            key, self.queue, entity_id, assignee, purpose, gold, "http://desk", 1, None, "open"
        )
        announce_tasks(self.store, [task], {})
        return task

    def answer(
        self,
        entity_id: str,
        assignee: str,
        verdict: Verdict = "accept",
        purpose: str = "review",
        *,
        gold: bool = False,
        at: datetime | None = None,
        seconds: float = 1.0,
        number: int | None = None,
        **answer: Any,
    ) -> str:
        """Create an answered task and return the key of its annotation."""
        task = self.give(entity_id, assignee, purpose, gold=gold)
        self._now += timedelta(minutes=1)
        self._number += 1
        key = digest_of("annotation", task.key, str(self._number))
        new = NewAnnotation(
            key=key,
            task=task,
            agent=AgentRef("person", assignee),
            remote_id=number or self._number,
            result={},
            answer={"verdict": verdict, **answer},
            lead_time_seconds=seconds,
            annotated_at=at or self._now,
        )
        with self.store.write() as connection:
            insert_annotations(connection, [new])
            change_tasks(connection, [task.key], state="answered")
        return key

    def decide(
        self,
        entity_id: str,
        verdict: Verdict,
        annotation_key: str | None,
        successor_id: str | None = None,
        person: str = "a",
    ) -> None:
        """Append a decision, optionally with the annotation it is based on."""
        decision = NewDecision(
            entity_id, verdict, AgentRef("person", person), "", successor_id, annotation_key
        )
        with self.store.write() as connection:
            append_decisions(connection, [decision])

    def check(self, entity_id: str, assignee: str, *, correct: bool) -> None:
        """Create an answered gold item and record whether the answer is correct."""
        key = self.answer(entity_id, assignee, gold=True)
        with self.store.write() as connection:
            record_checks(connection, [NewCheck(key, self.queue, assignee, correct, self._now)])

    def task_state(self, entity_id: str, assignee: str, purpose: str = "review") -> str:
        """Return the state of an annotator's task."""
        query = select(ReviewTask.state).filter_by(
            queue=self.queue, entity_id=entity_id, assignee=assignee, purpose=purpose
        )
        with self.store.read() as connection:
            return connection.execute(query).scalar_one()

    def close(self, entity_id: str, assignee: str) -> None:
        """Close an annotator's tasks for an entity."""
        chosen = ReviewTask.entity_id == entity_id, ReviewTask.assignee == assignee
        with self.store.write() as connection:
            connection.execute(update(ReviewTask).where(*chosen).values(state="closed"))
