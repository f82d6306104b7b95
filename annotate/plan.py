"""Who is to be asked about what, before anything is sent: the plan of a push."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from annotate.assignment import Assignment, Item, Worker, assign, exhausted
from annotate.candidates import candidates, goes_to_people
from annotate.deciding import outcomes
from annotate.gold import Seen, mix
from annotate.queues import HOUSE, Purpose, Queue
from annotate.second_look import wanted
from db.annotations import answered_since, counted_answers, entity_states
from db.annotators import StoredAnnotator, active_annotators
from db.gold import gold_items
from db.returns import barred
from db.reviews import WAITING, StoredTask
from db.store import Store
from schemas.errors import UsageError

_COUNTING = (*WAITING, "answered")


class Plan(NamedTuple):
    """New tasks in the order to send them in, and open ones that nobody needs any more.

    `short` counts the items that wait for more people, or for tomorrow where there is a daily cap.
    """

    new: tuple[StoredTask, ...] = ()
    obsolete: tuple[StoredTask, ...] = ()
    short: int = 0


class People(NamedTuple):
    """Who works in a queue: annotators, and those who settle what they disagree on.

    Where there are no annotators the house is the only one, unless more than one is wanted.
    """

    annotators: tuple[str, ...]
    adjudicators: tuple[str, ...]

    def may(self, purpose: str) -> frozenset[str]:
        """Who may have tasks of that purpose; the house settles what nobody else can."""
        if purpose == "adjudication":
            return frozenset((HOUSE, *self.adjudicators))
        return frozenset(self.annotators)


def people_of(store: Store, queue: Queue) -> People:
    """Those who get work from the queue now, by pseudonym.

    Raises:
        UsageError: the queue names somebody whom nobody knows.
    """
    annotators = _named(queue, queue.annotators, active_annotators(store, "annotator"))
    adjudicators = _named(queue, queue.adjudicators, active_annotators(store, "adjudicator"))
    with store.read() as connection:
        out = barred(connection, queue.name)
    working = tuple(name for name in annotators if name not in out)
    alone = () if working or queue.annotators or queue.overlap > 1 else (HOUSE,)
    return People(working or alone, adjudicators)


def _refuse_too_few(queue: Queue, store: Store) -> None:
    named = _named(queue, queue.annotators, active_annotators(store, "annotator"))
    if max(1, len(named)) < queue.overlap:
        raise UsageError(
            f"queue {queue.name} wants {queue.overlap} people for each item, but has "
            f"{len(named)}; add annotators with: loupe annotator add NAME"
        )


def _named(
    queue: Queue, names: Sequence[str], people: Iterable[StoredAnnotator]
) -> tuple[str, ...]:
    by_name = {person.name: person.pseudonym for person in people}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"queue {queue.name} names {', '.join(map(repr, unknown))}, who must be among the "
            f"active people with that role: {', '.join(sorted(by_name)) or 'nobody'}"
        )
    return tuple(by_name[name] for name in names or sorted(by_name))


def make_plan(store: Store, queue: Queue, server: str, tasks: Mapping[str, StoredTask]) -> Plan:
    """What a push of the queue should send and take back, given its tasks.

    Raises:
        UsageError: the queue names somebody whom nobody knows, or something waits in it and it
            wants more people than there are.
    """
    waiting = [
        candidate.entity.id
        for candidate in candidates(store, queue)
        if goes_to_people(queue, candidate)
    ]
    if waiting:
        _refuse_too_few(queue, store)
    people = people_of(store, queue)
    obsolete = tuple(_obsolete(store, queue, tasks, people, waiting))
    closed = {task.key: task._replace(state="closed") for task in obsolete}
    planner = _Planner(store, queue, server, {**tasks, **closed}, people)
    return planner.plan(waiting)._replace(obsolete=obsolete)


def _obsolete(
    store: Store,
    queue: Queue,
    tasks: Mapping[str, StoredTask],
    people: People,
    waiting: Sequence[str],
) -> Iterable[StoredTask]:
    """Open tasks of people who get nothing now, and about items that need no answer."""
    answered = Counter(
        task.entity_id
        for task in tasks.values()
        if task.state == "answered" and not task.gold and task.purpose == "review"
    )
    gold = gold_items(store, queue.name).keys()
    asking = set(waiting)
    open_tasks = [task for task in tasks.values() if task.state in WAITING]
    withdrawn = _withdrawn(store, open_tasks)
    for task in open_tasks:
        if task.gold:
            needed = task.entity_id in gold
        elif task.purpose == "second-look":
            needed = task.entity_id not in withdrawn
        else:
            enough = task.purpose == "review" and answered[task.entity_id] >= queue.overlap
            needed = task.entity_id in asking and not enough
        if not needed or task.assignee not in people.may(task.purpose):
            yield task


def _withdrawn(store: Store, tasks: Iterable[StoredTask]) -> set[str]:
    looked_at = {task.entity_id for task in tasks if task.purpose == "second-look"}
    with store.read() as connection:
        states = entity_states(connection, looked_at)
    return {entity_id for entity_id, state in states.items() if state == "withdrawn"}


class _Planner:
    """Plans one push."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        server: str,
        tasks: Mapping[str, StoredTask],
        people: People,
    ) -> None:
        self._store = store
        self._queue = queue
        self._server = server
        self._people = people
        self._tasks = tasks
        self._by_entity: dict[str, list[StoredTask]] = defaultdict(list)
        for task in tasks.values():
            self._by_entity[task.entity_id].append(task)

    def plan(self, waiting: Sequence[str]) -> Plan:
        """Tasks for annotators with gold among them, and what an adjudicator has to settle."""
        workers = self._workers()
        to_settle = self._to_settle(waiting, workers)
        items = [
            item
            for item in map(self._item, waiting)
            if item.entity_id not in to_settle and item.active < self._queue.overlap
        ]
        queue = self._queue
        cap = _room_beside_gold(queue)
        given = assign(items, workers, queue.overlap, cap, queue.name)
        mixed = mix(
            given, gold_items(self._store, queue.name), queue.gold_rate, self._seen(), queue.name
        )
        busier = _busier(workers, mixed)
        looks = assign(wanted(self._store, queue), busier, 1, queue.daily_cap, queue.name)
        got = Counter(assignment.entity_id for assignment in given)
        short = [item for item in items if item.active + got[item.entity_id] < queue.overlap]
        new = (
            *(self._task(one.entity_id, one.pseudonym, gold=one.gold) for one in mixed),
            *(self._task(one.entity_id, one.pseudonym, "second-look") for one in looks),
            *self._adjudications(sorted(to_settle)),
        )
        return Plan(new, short=len(short))

    def _to_settle(self, waiting: Sequence[str], workers: Sequence[Worker]) -> set[str]:
        """Items on which people disagree, or for which nobody is left to ask."""
        with self._store.read() as connection:
            answers = counted_answers(connection, self._queue.name, waiting)
        found = outcomes(self._queue, answers)
        conflicts = {entity for entity, outcome in found.items() if outcome.state == "conflict"}
        names = {worker.pseudonym for worker in workers}
        stuck = {
            item.entity_id
            for item in exhausted(map(self._item, waiting), workers, self._queue.overlap)
            if item.past and not names - item.past and not self._is_asked(item.entity_id)
        }
        return {
            entity_id
            for entity_id in conflicts | stuck
            if not any(
                task.purpose == "adjudication" and task.state in _COUNTING
                for task in self._by_entity[entity_id]
            )
        }

    def _is_asked(self, entity_id: str) -> bool:
        """Whether somebody has the item and has not answered yet."""
        return any(task.state in WAITING and not task.gold for task in self._by_entity[entity_id])

    def _adjudications(self, entity_ids: Sequence[str]) -> Iterable[StoredTask]:
        """A task for each: for the least busy adjudicator who had no part in it, else the house."""
        load = Counter(
            task.assignee
            for task in self._tasks.values()
            if task.purpose == "adjudication" and task.state in WAITING
        )
        for entity_id in entity_ids:
            had = {task.assignee for task in self._by_entity[entity_id] if task.state != "closed"}
            free = [name for name in self._people.adjudicators if name not in had]
            chosen = min(free, key=lambda name: (load[name], name), default=HOUSE)
            load[chosen] += 1
            yield self._task(entity_id, chosen, purpose="adjudication")

    def _item(self, entity_id: str) -> Item:
        tasks = [
            task
            for task in self._by_entity[entity_id]
            if task.purpose == "review" and (task.gold or task.state != "closed")
        ]
        active = sum(task.state in _COUNTING and not task.gold for task in tasks)
        return Item(entity_id, frozenset(task.assignee for task in tasks), active)

    def _workers(self) -> list[Worker]:
        waiting = Counter(
            task.assignee
            for task in self._tasks.values()
            if task.purpose == "review" and task.state in WAITING
        )
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        today = answered_since(self._store, self._queue.name, midnight)
        return [Worker(name, waiting[name], today.get(name, 0)) for name in self._people.annotators]

    def _seen(self) -> dict[str, Seen]:
        ordinary: dict[str, set[str]] = defaultdict(set)
        gold: dict[str, set[str]] = defaultdict(set)
        for task in self._tasks.values():
            if task.purpose == "review":
                (gold if task.gold else ordinary)[task.assignee].add(task.entity_id)
        return {
            name: Seen(frozenset(ordinary[name]), frozenset(gold[name]))
            for name in ordinary.keys() | gold.keys()
        }

    def _task(
        self, entity_id: str, assignee: str, purpose: Purpose = "review", *, gold: bool = False
    ) -> StoredTask:
        key = self._queue.task_key(entity_id, assignee, purpose)
        name = self._queue.name
        return StoredTask(
            key, name, entity_id, assignee, purpose, gold, self._server, 0, None, "open"
        )


def _room_beside_gold(queue: Queue) -> int | None:
    """How many ordinary items an annotator may get in a day, so that gold has its share of it."""
    if queue.daily_cap is None:
        return None
    return max(1, int(queue.daily_cap * (1 - queue.gold_rate)))


def _busier(workers: Sequence[Worker], given: Sequence[Assignment]) -> list[Worker]:
    """The workers as busy as they are once they have what was just given to them."""
    more = Counter(assignment.pseudonym for assignment in given)
    return [worker._replace(open=worker.open + more[worker.pseudonym]) for worker in workers]
