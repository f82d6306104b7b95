"""Plan the tasks of a queue, before anything is sent."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from loupe.annotate.assignment import Assignment, Item, Worker, assign
from loupe.annotate.audits import wanted
from loupe.annotate.decisions import outcomes
from loupe.annotate.gold import Seen, answers_to_qualify, gold_in_batch, mix, qualification_round
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.pool import (
    Hand,
    conflicts_to_move,
    for_those_without_work,
    idle_people,
    in_the_way,
    out_of_turn,
)
from loupe.annotate.queues import SHARED, Purpose, Queue, candidates, needs_review
from loupe.db.annotations import answer_counts, counted_answers, entity_states
from loupe.db.gold import gold_items, suspended_annotators
from loupe.db.reviews import WAITING, StoredTask, active_annotators, paused_annotators, priorities
from loupe.db.reviews import Role as AnnotatorRole
from loupe.db.store import Store
from loupe.schemas.errors import UsageError
from loupe.schemas.grouping import grouped

ADDING = "loupe annotator add NAME"
"""The command that adds a person, where nothing is known of the Label Studio."""
_COUNTING = (*WAITING, "answered")


class Plan(NamedTuple):
    """New tasks in the order to send them in, and open tasks that are obsolete.

    `short` counts the items that wait for the next batch, more people, or tomorrow (a daily cap).
    `movable` are open tasks that others should get, or that should come later, if nobody has opened
    them: the plan is made again after they were taken back.
    """

    new: tuple[StoredTask, ...] = ()
    obsolete: tuple[StoredTask, ...] = ()
    short: int = 0
    movable: tuple[StoredTask, ...] = ()


class People(NamedTuple):
    """The annotators and adjudicators of a queue, and its annotators who are paused.

    Without annotators, the installation's own account is the only one, unless the queue requires
    more than one.
    """

    annotators: tuple[str, ...]
    adjudicators: tuple[str, ...]
    paused: frozenset[str]

    def may(self, purpose: str) -> frozenset[str]:
        """Return who may have tasks of that purpose; the own account may settle conflicts."""
        if purpose == "adjudication":
            return frozenset((SHARED, *self.adjudicators))
        return frozenset(self.annotators)


def people_of(store: Store, queue: Queue) -> People:
    """Return the people who get tasks of the queue now, by pseudonym.

    Raises:
        UsageError: the queue names an unknown person.
    """
    annotators, adjudicators = (
        _named(store, queue, "annotator"),
        _named(store, queue, "adjudicator"),
    )
    paused = frozenset(paused_annotators(store))
    with store.read() as connection:
        out = suspended_annotators(connection, queue.name) | paused
    working = tuple(name for name in annotators if name not in out)
    paused_here = paused.intersection(annotators)
    is_alone = not (working or paused_here or queue.annotators)
    alone = (SHARED,) if is_alone and queue.overlap == 1 else ()
    settling = tuple(name for name in adjudicators if name not in paused)
    return People(working or alone, settling, paused_here)


def _named(store: Store, queue: Queue, role: AnnotatorRole) -> tuple[str, ...]:
    """Return the active and paused people that a queue names for a role; all if it names none."""
    names = queue.annotators if role == "annotator" else queue.adjudicators
    people = active_annotators(store, role)
    by_name = {person.name: person.pseudonym for person in people}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"queue {queue.name} names {', '.join(map(repr, unknown))}, who must be among the "
            f"active people with that role: {', '.join(sorted(by_name)) or 'none'}"
        )
    return tuple(by_name[name] for name in names or sorted(by_name))


def make_plan(store: Store, queue: Queue, server: str, tasks: Mapping[str, StoredTask]) -> Plan:
    """Return the tasks that a push of the queue should send and remove, given its tasks.

    Raises:
        UsageError: the queue names an unknown person, or items wait in it and it requires more
            people than there are.
    """
    waiting = [one.entity.id for one in candidates(store, queue) if needs_review(queue, one)]
    named = len(_named(store, queue, "annotator"))
    if waiting and max(1, named) < queue.overlap:
        raise UsageError(
            f"queue {queue.name} wants {queue.overlap} people for each item, but has {named}; add "
            f"annotators with: {ADDING}"
        )
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
    """Return open tasks of people who get no tasks now, and of items that need no answer.

    Those of paused annotators that were sent are not among them: they may be open or begun.
    """
    answered = Counter(
        task.entity_id
        for task in tasks.values()
        if task.state == "answered" and not task.gold and task.purpose == "review"
    )
    gold = gold_items(store, queue.name).keys()
    asking = set(waiting)
    open_tasks = [task for task in tasks.values() if task.state in WAITING]
    with store.read() as connection:
        audited = (task.entity_id for task in open_tasks if task.purpose == "audit")
        states = entity_states(connection, audited)
    for task in open_tasks:
        if task.gold:
            needed = task.entity_id in gold
        elif task.purpose == "audit":
            needed = states[task.entity_id] != "withdrawn"
        else:
            enough = task.purpose == "review" and answered[task.entity_id] >= queue.overlap
            needed = task.entity_id in asking and not enough
        may_stay = task.purpose == "review" and task.task_id and task.assignee in people.paused
        if not needed or not (may_stay or task.assignee in people.may(task.purpose)):
            yield task


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
        self._priorities = priorities(store, queue.name)
        self._by_entity = grouped((task.entity_id, task) for task in tasks.values())

    def plan(self, waiting: Sequence[str]) -> Plan:
        """Return tasks for annotators mixed with gold items, and tasks for adjudicators."""
        workers = self._workers()
        to_settle = self._conflicting_items(waiting)
        queue = self._queue
        items = []
        for entity_id in waiting:
            item = self._item(entity_id)
            if entity_id not in to_settle and item.active < queue.overlap:
                items.append(item)
        given, mixed = self._first_opinions(items, workers)
        more = Counter(assignment.pseudonym for assignment in mixed)
        busier = [_with_more(one, more[one.pseudonym]) for one in workers]
        looks = assign(wanted(self._store, queue), busier, 1, queue.name)
        got = Counter(assignment.entity_id for assignment in given)
        short = []
        for item in items:
            active = item.active + got[item.entity_id]
            if active < queue.overlap:
                short.append(item._replace(active=active))
        new = [self._task(one.entity_id, one.pseudonym, gold=one.gold) for one in mixed]
        new += [self._task(one.entity_id, one.pseudonym, "audit") for one in looks]
        new += self._adjudications(sorted(to_settle))
        movable = self._movable(workers, mixed, short)
        return Plan(tuple(new), short=len(short), movable=tuple(movable))

    def _movable(
        self, workers: Sequence[Worker], new: Sequence[Assignment], short: Sequence[Item]
    ) -> list[StoredTask]:
        """Return the open tasks that others should get, or that should come later."""
        coming = grouped((one.pseudonym, one.entity_id) for one in new)
        testing = answers_to_qualify(self._store, self._queue, self._people.annotators)
        hands = []
        for worker in workers:
            name = worker.pseudonym
            has_room = worker.room is None or worker.room > len(coming[name])
            mine = self._open_in_order("review", name)
            takes = has_room and name not in testing
            hands.append(Hand(name, mine, tuple(coming[name]), worker.idle, takes))
        urgent = [item for item in short if item.priority > 0]
        found = [
            *out_of_turn(hands, self._priorities),
            *in_the_way(hands, self._priorities, urgent, self._queue.overlap),
            *self._before_first_gold(hands),
            *(one for name in self._people.paused for one in self._open_in_order("review", name)),
            *for_those_without_work(hands, lambda one: self._item(one).past),
            *conflicts_to_move(
                self._open_in_order("adjudication"), self._people.adjudicators, self._had
            ),
        ]
        return list(dict.fromkeys(found))

    def _open_in_order(
        self, purpose: Purpose, assignee: str | None = None
    ) -> tuple[StoredTask, ...]:
        """Return the open tasks on the server in the order in which they open."""
        found = []
        for task in self._tasks.values():
            is_theirs = assignee is None or task.assignee == assignee
            is_here = task.task_id is not None and task.server == self._server
            if task.purpose == purpose and task.state in WAITING and is_theirs and is_here:
                found.append(task)
        return tuple(sorted(found, key=lambda task: task.task_id or 0))

    def _before_first_gold(self, hands: Sequence[Hand]) -> list[StoredTask]:
        """Return the tasks of those without any gold item, if the queue has some now."""
        queue, seen = self._queue, self._seen()
        gold = gold_items(self._store, queue.name) if queue.gold_rate else {}
        found: list[StoredTask] = []
        for hand in hands:
            name, later = hand.pseudonym, hand.unopened
            known = seen.get(name, Seen())
            if later and not known.gold and gold:
                before = known._replace(
                    ordinary=known.ordinary - {task.entity_id for task in later}
                )
                size = max(len(later), queue.batch - len(hand.open) + len(later))
                if gold_in_batch(size, gold, queue.gold_rate, before, name, queue.name):
                    found += later
        return found

    def _had(self, entity_id: str) -> set[str]:
        """Return who has a part in an item."""
        return {task.assignee for task in self._by_entity[entity_id] if task.state != "closed"}

    def _first_opinions(
        self, items: Sequence[Item], workers: Sequence[Worker]
    ) -> tuple[list[Assignment], list[Assignment]]:
        """Return the ordinary items of all next batches, and these mixed with gold items."""
        queue, rate = self._queue, self._queue.gold_rate
        gold, seen = gold_items(self._store, queue.name), self._seen()

        def gold_among(size: int, name: str) -> int:
            return gold_in_batch(size, gold, rate, seen.get(name, Seen()), name, queue.name)

        testing = answers_to_qualify(self._store, queue, self._people.annotators)
        if workers and len(testing) == len(workers) and len(gold) < queue.qualification:
            raise UsageError(too_little_gold(queue, len(gold)))
        rooms: dict[str, int] = {}
        for worker in workers:
            room = _room(queue, worker)
            if room is not None:
                rooms[worker.pseudonym] = room
        rooms |= dict.fromkeys(testing, 0)
        planned = {name: gold_among(room, name) for name, room in rooms.items()}
        limited = []
        for worker in workers:
            name = worker.pseudonym
            if name in rooms:
                limited.append(worker._replace(room=rooms[name] - planned[name]))
            else:
                limited.append(worker)
        given = assign(items, limited, queue.overlap, queue.name)
        got = Counter(assignment.pseudonym for assignment in given)
        for name, room in rooms.items():
            if got[name] + planned[name] < room:  # nothing is left to fill the batch with
                size = round(got[name] / (1 - rate))
                planned[name] = min(planned[name], gold_among(size, name))
        mixed = mix(given, gold, planned, seen, queue.name, self._priorities)
        for worker in workers:
            name = worker.pseudonym
            count = testing.get(name, 0) - worker.open
            if count > 0:
                mixed += qualification_round(
                    name, count, gold.keys(), seen.get(name, Seen()), queue.name
                )
        return given, mixed

    def _conflicting_items(self, waiting: Sequence[str]) -> set[str]:
        """Return items on which people disagree, or that nobody is left to answer."""
        people = self._people.paused.union(self._people.annotators)
        with self._store.read() as connection:
            answers = counted_answers(connection, self._queue.name, waiting)
        found = outcomes(self._queue, interface_of(self._queue), answers)
        to_settle = set()
        for item in map(self._item, waiting):
            tasks = self._by_entity[item.entity_id]
            is_asked = any(task.state in WAITING and not task.gold for task in tasks)
            nobody_left = item.past and item.past >= people
            is_stuck = nobody_left and item.active < self._queue.overlap and not is_asked
            outcome = found.get(item.entity_id)
            settling = [task.state for task in tasks if task.purpose == "adjudication"]
            is_settled = any(state in _COUNTING for state in settling)
            if not is_settled and (is_stuck or (outcome and outcome.state == "conflict")):
                to_settle.add(item.entity_id)
        return to_settle

    def _adjudications(self, entity_ids: Sequence[str]) -> Iterable[StoredTask]:
        """Return tasks for the least busy adjudicators without a part in the item.

        If there are none, the installation's own account gets them.
        """
        load = Counter(
            task.assignee
            for task in self._tasks.values()
            if task.purpose == "adjudication" and task.state in WAITING
        )
        for entity_id in entity_ids:
            had = self._had(entity_id)
            free = [name for name in self._people.adjudicators if name not in had]
            chosen = min(free, key=lambda name: (load[name], name), default=SHARED)
            load[chosen] += 1
            yield self._task(entity_id, chosen, purpose="adjudication")

    def _item(self, entity_id: str) -> Item:
        active = 0
        past = set()
        for task in self._by_entity[entity_id]:
            if task.purpose == "review" and (task.gold or task.state != "closed"):
                active += task.state in _COUNTING and not task.gold
                past.add(task.assignee)
        return Item(entity_id, frozenset(past), active, self._priorities.get(entity_id, 0))

    def _workers(self) -> list[Worker]:
        """Return the annotators with their open reviews, and what is left of the daily cap."""
        waiting = [task for task in self._tasks.values() if task.state in WAITING]
        reviews = Counter(task.assignee for task in waiting if task.purpose == "review")
        people, cap = self._people.annotators, self._queue.daily_cap
        idle = idle_people(self._store, self._queue, people, datetime.now(UTC))
        taken: Counter[str] = Counter()
        if cap is not None:
            taken.update(task.assignee for task in waiting)
            taken.update(answer_counts(self._store, self._queue.name, midnight()))
        workers = []
        for name in people:
            room = None if cap is None else max(0, cap - taken[name])
            workers.append(Worker(name, reviews[name], room, name in idle))
        return workers

    def _seen(self) -> dict[str, Seen]:
        ordinary: dict[str, set[str]] = defaultdict(set)
        gold: dict[str, set[str]] = defaultdict(set)
        for task in self._tasks.values():
            if task.purpose == "review" and task.state != "closed":
                (gold if task.gold else ordinary)[task.assignee].add(task.entity_id)
        return {
            name: Seen(frozenset(ordinary[name]), frozenset(gold[name]), self._queue.qualification)
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


def midnight() -> datetime:
    """Return the beginning of the current day in UTC."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def too_little_gold(queue: Queue, gold: int) -> str:
    """Return that the gold items are too few for a qualification, and what to do."""
    return (
        f"queue {queue.name} requires {queue.qualification} gold items of everybody first "
        f"(qualification), and has {gold}; add some with: loupe queue gold add {queue.name} FILE"
    )


def _with_more(worker: Worker, tasks: int) -> Worker:
    """Return an annotator who has got so many more tasks."""
    room = None if worker.room is None else max(0, worker.room - tasks)
    return worker._replace(open=worker.open + tasks, room=room)


def _room(queue: Queue, worker: Worker) -> int | None:
    """Return how many tasks an annotator may get now, gold ones included; None for no limit.

    The next batch is sent when half of the last one is done. If each answer were followed by a
    task, an additional one would be recognised as gold.
    """
    if worker.pseudonym == SHARED:
        return worker.room
    batch = queue.batch - worker.open if worker.open <= queue.batch // 2 else 0
    return batch if worker.room is None else min(batch, worker.room)
