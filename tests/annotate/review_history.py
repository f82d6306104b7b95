"""A queue with a history: the work of scripted annotators over days, written to the tables.

The careless annotator answers quickly and at random; gold items reveal it, and one day the rule
revokes the work. Everything is drawn from a seed, so the expected results are known.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sqlalchemy import insert, update

from loupe.annotate.answers import ReviewAnswer, Verdict
from loupe.annotate.queues import Queue, load_queues
from loupe.db.entities import ActivityRecord, AgentRef, NewEntity, new_entity, register_agents
from loupe.db.store import Store
from loupe.db.tables import (
    Annotation,
    Annotator,
    Base,
    Entity,
    GoldCheck,
    GoldItem,
    ReviewTask,
    TaskReturn,
)
from loupe.db.work import register_plan, store_activity
from loupe.schemas.base import digest_of
from loupe.schemas.records import Caption

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""A Monday."""

_COLOURS = ("red", "blue", "green", "black")


@dataclass(frozen=True)
class Person:
    """A reviewer with a share of right answers (0 to 1) and a typical time per answer."""

    pseudonym: str
    name: str
    skill: float
    seconds: float


CAREFUL = Person("reviewer-0a1b2c3d", "Ada Careful", 0.95, 40)
STEADY = Person("reviewer-4e5f6a7b", "Bo Steady", 0.9, 55)
CARELESS = Person("reviewer-8c9d0e1f", "Cy Careless", 0.35, 9)
SETTLER = Person("reviewer-aabbccdd", "Di Settler", 1.0, 70)


@dataclass
class History:
    """Writes the events of one queue. Items differ only in their numbers."""

    store: Store
    queue: Queue
    seed: int = 1
    text_of: Callable[[int], str] = lambda number: (
        f"A person in a {_COLOURS[number % 4]} coat, number {number}."
    )
    _rows: dict[type[Base], list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self._keys = 0

    def people(self, *people: Person, roles: str = "annotator") -> None:
        """Add annotators."""
        rows = [
            {
                "pseudonym": person.pseudonym,
                "name": person.name,
                "server": "http://desk",
                "user_id": number,
                "roles": roles,
                "state": "active",
                "added_at": START,
            }
            for number, person in enumerate(people)
        ]
        with self.store.write() as connection:
            connection.execute(insert(Annotator), rows)
            register_agents(connection, [_agent(person.pseudonym) for person in people])

    def items(self, count: int, first: int = 0) -> list[str]:
        """Store items and return their ids, in order."""
        items = [self._item(number) for number in range(first, first + count)]
        plan_id = register_plan(self.store, "history", "1", {"first": first})
        activity = ActivityRecord(plan_id, self.queue.dataset, "", "", START)
        with self.store.write() as connection:
            store_activity(connection, activity, items)
        return [item.id for item in items]

    def _item(self, number: int) -> NewEntity:
        record = Caption(source="street", text=self.text_of(number), position=0)
        return new_entity(record, self.queue.dataset, group=f"image {number}")

    def task(
        self,
        entity_id: str,
        person: str,
        state: str = "open",
        purpose: str = "review",
        gold: bool = False,
    ) -> str:
        """Create a task and return its key."""
        key = self._key()
        self._add(
            ReviewTask,
            key=key,
            queue=self.queue.name,
            entity_id=entity_id,
            assignee=person,
            purpose=purpose,
            gold=gold,
            server="http://desk",
            project_id=1,
            task_id=self._keys,
            state=state,
            pushed_at=START,
        )
        return key

    def annotate(
        self,
        task_key: str,
        person: str,
        answer: ReviewAnswer | dict[str, Any],
        at: datetime,
        seconds: float | None = 30.0,
        state: str = "clear",
    ) -> str:
        """Create an annotation and return its key."""
        key = self._key()
        self._add(
            Annotation,
            key=key,
            review_task_key=task_key,
            agent_id=_agent(person).id,
            remote_id=self._keys,
            state=state,
            result={"regions": []},
            answer=answer.model_dump(mode="json") if isinstance(answer, ReviewAnswer) else answer,
            lead_time_seconds=seconds,
            annotated_at=at,
            received_at=at,
        )
        return key

    def answer(
        self,
        entity_id: str,
        person: Person,
        verdict: Verdict,
        at: datetime,
        *,
        purpose: str = "review",
        gold: bool = False,
        text: str = "",
        state: str = "answered",
    ) -> str:
        """Create a task with an answer, and return the key of the annotation."""
        task = self.task(entity_id, person.pseudonym, state, purpose, gold)
        seconds = person.seconds * self.random.uniform(0.5, 1.8)
        return self.annotate(task, person.pseudonym, said(verdict, text), at, seconds)

    def check(self, annotation_key: str, person: Person, correct: bool, at: datetime) -> None:
        """Record whether an answer to a gold item is correct."""
        self._add(
            GoldCheck,
            annotation_key=annotation_key,
            queue=self.queue.name,
            assignee=person.pseudonym,
            correct=correct,
            answered_at=at,
        )

    def gold(self, entity_id: str) -> None:
        """Add a gold item."""
        self._add(
            GoldItem,
            queue=self.queue.name,
            entity_id=entity_id,
            answer=said("accept").model_dump(mode="json"),
            origin="given",
            added_at=START,
        )

    def returned(self, person: Person, accuracy: float, tasks: int, at: datetime) -> None:
        """Record that the rule revoked the work of an annotator."""
        self._add(
            TaskReturn,
            queue=self.queue.name,
            assignee=person.pseudonym,
            rule={"floor": self.queue.accuracy_floor, "window": 20, "least": 5},
            accuracy=accuracy,
            answers=20,
            tasks=tasks,
            state="in force",
            returned_at=at,
        )

    def decide(self, entity_ids: list[str], state: str) -> None:
        """Set the state of items, as decisions do."""
        with self.store.write() as connection:
            for start in range(0, len(entity_ids), 500):
                chosen = Entity.id.in_(entity_ids[start : start + 500])
                connection.execute(update(Entity).where(chosen).values(state=state))

    def write(self) -> None:
        """Store the history so far."""
        with self.store.write() as connection:
            for table in (ReviewTask, Annotation, GoldItem, GoldCheck, TaskReturn):
                if rows := self._rows.get(table):
                    connection.execute(insert(table), rows)
        self._rows.clear()

    def _key(self) -> str:
        self._keys += 1
        return digest_of(self.queue.name, str(self._keys))

    def _add(self, table: type[Base], **row: Any) -> None:
        self._rows.setdefault(table, []).append(row)


def said(verdict: Verdict, text: str = "") -> ReviewAnswer:
    """Return an answer with a verdict and, if given, a text."""
    texts = {"text": text} if text else {}
    return ReviewAnswer(verdict=verdict, choices={"verdict": (verdict,)}, texts=texts)


def captions_queue(dataset: str = "street", **changes: Any) -> Queue:
    """Return a queue of captions with an overlap of two."""
    queue = load_queues().queue(dataset, "captions")
    return queue.model_copy(update={"overlap": 2, "gold_rate": 0.1, **changes})


def weeks_of_work(
    store: Store, queue: Queue, items: int = 240, per_day: int = 12, seed: int = 1
) -> datetime:
    """Fill a queue with weeks of work of three annotators and an adjudicator; return its end.

    One of the three is careless. Nine tenths of the items were assigned; nobody works on weekends.
    """
    history = History(store, queue, seed)
    history.people(CAREFUL, STEADY, CARELESS, SETTLER)
    ids = history.items(items)
    gold = history.items(max(5, items // 10), first=items)
    for entity_id in gold:
        history.gold(entity_id)
    history.decide(gold, "accepted")
    _Script(history, ids, gold, per_day).play()
    history.write()
    return START + timedelta(days=24, hours=6)


@dataclass
class _Script:
    """Assigns items to pairs of annotators, day by day."""

    history: History
    ids: list[str]
    gold: list[str]
    per_day: int

    def play(self) -> None:
        pairs = ((CAREFUL, STEADY), (STEADY, CARELESS), (CAREFUL, CARELESS))
        states: dict[str, list[str]] = {}
        assigned = len(self.ids) * 9 // 10
        self._gold_answers: Counter[Person] = Counter()
        for number, entity_id in enumerate(self.ids[:assigned]):
            one, other = pairs[number % 3]
            if number >= assigned * 9 // 10:
                self._unfinished(entity_id, one, other, number)
                continue
            state = self._reviewed(entity_id, one, other, number)
            if state:
                states.setdefault(state, []).append(entity_id)
        for state, entity_ids in states.items():
            self.history.decide(entity_ids, state)
        self.history.returned(CARELESS, 0.35, 7, _moment(14, 0))

    def _reviewed(self, entity_id: str, one: Person, other: Person, number: int) -> str:
        """Create two answers and, if they differ, an adjudication; return the resulting state."""
        right = self.history.random.choice(_RIGHT)
        at = self._time(number)
        verdicts = {person: self._opinion(entity_id, person, right, at) for person in (one, other)}
        if number % 10 == 0:
            for person in (one, other):
                self._gold(person, at + timedelta(minutes=3))
        if verdicts[one] == verdicts[other]:
            return _STATES[verdicts[one]]
        if number % 4 == 0:
            self.history.task(entity_id, SETTLER.pseudonym, "open", "adjudication")
            return ""
        self.history.answer(
            entity_id, SETTLER, right, at + timedelta(hours=2), purpose="adjudication"
        )
        return _STATES[right]

    def _opinion(self, entity_id: str, person: Person, right: Verdict, at: datetime) -> Verdict:
        random = self.history.random
        verdict = right if random.random() < person.skill else random.choice(_VERDICTS)
        text = ""
        if verdict == "edit":
            colour = "red" if random.random() < person.skill else random.choice(_COLOURS)
            text = f"A person in a {colour} coat with a black bag."
        self.history.answer(entity_id, person, verdict, at, text=text)
        return verdict

    def _gold(self, person: Person, at: datetime) -> None:
        entity_id = self.gold[self._gold_answers[person] % len(self.gold)]
        self._gold_answers[person] += 1
        if self._gold_answers[person] > len(self.gold):
            return
        correct = self.history.random.random() < person.skill
        verdict: Verdict = "accept" if correct else "reject"
        key = self.history.answer(entity_id, person, verdict, at, gold=True)
        self.history.check(key, person, correct, at)

    def _unfinished(self, entity_id: str, one: Person, other: Person, number: int) -> None:
        """Create an item that is open, half answered, skipped by one, or revoked from one."""
        match number % 4:
            case 0:
                self.history.task(entity_id, one.pseudonym)
                self.history.task(entity_id, other.pseudonym)
            case 1:
                self.history.answer(entity_id, one, "accept", self._time(number))
                self.history.task(entity_id, other.pseudonym)
            case 2:
                self.history.task(entity_id, one.pseudonym, "skipped")
                self.history.task(entity_id, other.pseudonym)
            case _:
                self.history.answer(
                    entity_id, CARELESS, "accept", self._time(number), state="returned"
                )
                self.history.task(entity_id, one.pseudonym)

    def _time(self, number: int) -> datetime:
        working_day, place = divmod(number, self.per_day)
        weeks, weekday = divmod(working_day, 5)
        return _moment(7 * weeks + weekday, place * 30 + self.history.random.randrange(25))


_VERDICTS: tuple[Verdict, ...] = ("accept", "edit", "reject")
_RIGHT: tuple[Verdict, ...] = (*("accept",) * 7, "edit", "edit", "reject")
_STATES = {"accept": "accepted", "edit": "superseded", "reject": "rejected"}


def _moment(days: int, minutes: int) -> datetime:
    return START + timedelta(days=days, minutes=minutes)


def _agent(pseudonym: str) -> AgentRef:
    return AgentRef("person", pseudonym)
