"""Plans the tasks of a queue and sends them to Label Studio."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple

from annotate.answers import ReviewAnswer
from annotate.assignment import Assignment, Item, Worker, assign
from annotate.audits import wanted
from annotate.backend import AnnotationBackend, DeskUnavailableError, NewTask
from annotate.candidates import candidates, needs_review
from annotate.decisions import outcomes
from annotate.gold import (
    Seen,
    answers_to_qualify,
    gold_in_batch,
    mix,
    qualification_round,
)
from annotate.interfaces.adjudication import adjudication_data
from annotate.interfaces.page import TaskContent, returned_content
from annotate.interfaces.registry import interface_of
from annotate.projects import Desks, Seat, project_spec, settle
from annotate.queues import HOUSE, Purpose, Queue
from db.annotations import (
    annotations_of,
    answer_counts,
    counted_answers,
    entity_states,
    send_back,
    unclear_annotations,
)
from db.annotators import Role as AnnotatorRole
from db.annotators import active_annotators, annotators, paused_annotators
from db.entities import StoredEntity, children_of, fetch, pages, parents_of
from db.gold import (
    IN_FORCE,
    Revocation,
    all_checks,
    gold_items,
    revocations,
    suspended_annotators,
)
from db.reviews import (
    WAITING,
    StoredTask,
    announce_tasks,
    close_tasks,
    first_tasks,
    load_cursor,
    place_tasks,
    priorities,
    project_of_tasks,
    review_tasks,
    tasks_by_key,
)
from db.store import Store
from schemas.base import Record
from schemas.errors import ServiceError, UsageError
from schemas.provenance import Role
from schemas.records import Caption, Image


class PushReport(Record):
    """What a push did.

    Attributes:
        queue: the queue.
        pushed: tasks that are new on the desk.
        known: tasks that were there before and still wait.
        gold: those among `pushed` whose answer is known.
        conflicts: those among `pushed` that an adjudicator has to settle.
        duplicates: tasks that were there twice and are there once now.
        closed: tasks that were taken off the desk, because no answer is needed any more.
        sent_back: unclear answers whose authors have their task again, with the reason.
        short: items that wait for the next batch, for more people, or for tomorrow where there is
            a daily cap.
        projects: the numbers of the projects with open tasks, by assignee.
    """

    queue: str
    pushed: int = 0
    known: int = 0
    gold: int = 0
    conflicts: int = 0
    duplicates: int = 0
    closed: int = 0
    sent_back: int = 0
    short: int = 0
    projects: tuple[tuple[str, int], ...] = ()


# Descriptions of one image should be independent of each other. Only the first person who gets an
# image sees a model's draft; the others start without one, even if the first one skips.


_OUT = ("rejected", "inactive", "withdrawn")


def offered_drafts(
    store: Store, queue: Queue, tasks: Sequence[StoredTask]
) -> dict[str, StoredEntity]:
    """For each of the tasks whose page opens with a draft, by key, the draft.

    It is the first one of the image that was not rejected or withdrawn.
    """
    if queue.kind != Image.kind:
        return {}
    first = first_tasks(store, queue.name, {task.entity_id for task in tasks})
    asked = {task.key for task in tasks}
    images = {image: key for image, key in first.items() if key in asked}
    described = children_of(store, images, Role.DESCRIBES)
    captions = fetch(store, {one for found in described.values() for one in found})
    drafted = parents_of(store, captions, Role.PROMPTED_BY)
    drafts = {
        images[image]: [
            captions[one] for one in found if one in drafted and captions[one].state not in _OUT
        ]
        for image, found in described.items()
    }
    return {
        key: min(found, key=lambda draft: (draft.record(Caption).position, draft.seq))
        for key, found in drafts.items()
        if found
    }


# The plan of a push, made before anything is sent.

_COUNTING = (*WAITING, "answered")


class Plan(NamedTuple):
    """New tasks in the order to send them in, and open tasks that are obsolete.

    `short` counts the items that wait for the next batch, more people, or tomorrow (a daily cap).
    """

    new: tuple[StoredTask, ...] = ()
    obsolete: tuple[StoredTask, ...] = ()
    short: int = 0


class People(NamedTuple):
    """The annotators and adjudicators of a queue.

    Without annotators the house is the only one, unless the queue wants more than one.
    """

    annotators: tuple[str, ...]
    adjudicators: tuple[str, ...]

    def may(self, purpose: str) -> frozenset[str]:
        """Who may have tasks of that purpose; the house may settle conflicts."""
        if purpose == "adjudication":
            return frozenset((HOUSE, *self.adjudicators))
        return frozenset(self.annotators)


def people_of(store: Store, queue: Queue) -> People:
    """The people who get work from the queue now, by pseudonym.

    Raises:
        UsageError: the queue names an unknown person.
    """
    annotators, adjudicators = (
        _named(store, queue, "annotator"),
        _named(store, queue, "adjudicator"),
    )
    paused = paused_annotators(store)
    with store.read() as connection:
        out = suspended_annotators(connection, queue.name) | paused
    working = tuple(name for name in annotators if name not in out)
    is_alone = not (working or paused.intersection(annotators) or queue.annotators)
    alone = (HOUSE,) if is_alone and queue.overlap == 1 else ()
    return People(working or alone, tuple(name for name in adjudicators if name not in paused))


def _named(store: Store, queue: Queue, role: AnnotatorRole) -> tuple[str, ...]:
    """The active and paused people that a queue names for a role; everybody if it names nobody."""
    names = queue.annotators if role == "annotator" else queue.adjudicators
    people = active_annotators(store, role)
    by_name = {person.name: person.pseudonym for person in people}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"queue {queue.name} names {', '.join(map(repr, unknown))}, who must be among the "
            f"active people with that role: {', '.join(sorted(by_name)) or 'nobody'}"
        )
    return tuple(by_name[name] for name in names or sorted(by_name))


def make_plan(store: Store, queue: Queue, server: str, tasks: Mapping[str, StoredTask]) -> Plan:
    """The tasks that a push of the queue should send and remove, given its tasks.

    Raises:
        UsageError: the queue names an unknown person, or items wait in it and it wants more people
            than there are.
    """
    waiting = [
        candidate.entity.id
        for candidate in candidates(store, queue)
        if needs_review(queue, candidate)
    ]
    named = len(_named(store, queue, "annotator"))
    if waiting and max(1, named) < queue.overlap:
        raise UsageError(
            f"queue {queue.name} wants {queue.overlap} people for each item, but has {named}; add "
            "annotators with: loupe annotator add NAME"
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
    """Open tasks of people who get no work now, and of items that need no answer."""
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
        if not needed or task.assignee not in people.may(task.purpose):
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
        self._by_entity: dict[str, list[StoredTask]] = defaultdict(list)
        for task in tasks.values():
            self._by_entity[task.entity_id].append(task)

    def plan(self, waiting: Sequence[str]) -> Plan:
        """Tasks for annotators mixed with gold items, and tasks for adjudicators."""
        workers = self._workers()
        to_settle = self._to_settle(waiting)
        items = [
            item
            for item in map(self._item, waiting)
            if item.entity_id not in to_settle and item.active < self._queue.overlap
        ]
        queue = self._queue
        given, mixed = self._first_opinions(items, workers)
        more = Counter(assignment.pseudonym for assignment in mixed)
        busier = [one._replace(open=one.open + more[one.pseudonym]) for one in workers]
        looks = assign(wanted(self._store, queue), busier, 1, queue.daily_cap, queue.name)
        got = Counter(assignment.entity_id for assignment in given)
        short = [item for item in items if item.active + got[item.entity_id] < queue.overlap]
        new = (
            *(self._task(one.entity_id, one.pseudonym, gold=one.gold) for one in mixed),
            *(self._task(one.entity_id, one.pseudonym, "audit") for one in looks),
            *self._adjudications(sorted(to_settle)),
        )
        return Plan(new, short=len(short))

    def _first_opinions(
        self, items: Sequence[Item], workers: Sequence[Worker]
    ) -> tuple[list[Assignment], list[Assignment]]:
        """The ordinary items of everybody's next batch, and these mixed with gold items."""
        queue, rate = self._queue, self._queue.gold_rate
        gold, seen = gold_items(self._store, queue.name), self._seen()

        def gold_among(size: int, name: str) -> int:
            return gold_in_batch(size, gold, rate, seen.get(name, Seen()), name, queue.name)

        testing = answers_to_qualify(self._store, queue, self._people.annotators)
        if workers and len(testing) == len(workers) and len(gold) < queue.qualification:
            raise UsageError(too_little_gold(queue, len(gold)))
        rooms = {
            worker.pseudonym: room
            for worker in workers
            if (room := _room(queue, worker)) is not None
        } | dict.fromkeys(testing, 0)
        planned = {name: gold_among(room, name) for name, room in rooms.items()}
        limited = [
            one._replace(room=rooms[one.pseudonym] - planned[one.pseudonym])
            if one.pseudonym in rooms
            else one
            for one in workers
        ]
        given = assign(items, limited, queue.overlap, None, queue.name)
        got = Counter(assignment.pseudonym for assignment in given)
        for name, room in rooms.items():
            if got[name] + planned[name] < room:  # nothing is left to fill the batch with
                size = round(got[name] / (1 - rate))
                planned[name] = min(planned[name], gold_among(size, name))
        mixed = mix(given, gold, rate, seen, queue.name, planned)
        for worker in workers:
            name = worker.pseudonym
            count = testing.get(name, 0) - worker.open
            if count > 0:
                mixed += qualification_round(
                    name, count, gold.keys(), seen.get(name, Seen()), queue.name
                )
        return given, mixed

    def _to_settle(self, waiting: Sequence[str]) -> set[str]:
        """Items on which people disagree, or that everybody already had."""
        with self._store.read() as connection:
            answers = counted_answers(connection, self._queue.name, waiting)
        found = outcomes(self._queue, answers)
        to_settle = set()
        for item in map(self._item, waiting):
            tasks = self._by_entity[item.entity_id]
            is_asked = any(task.state in WAITING and not task.gold for task in tasks)
            nobody_left = item.past and item.past.issuperset(self._people.annotators)
            is_stuck = nobody_left and item.active < self._queue.overlap and not is_asked
            outcome = found.get(item.entity_id)
            is_settled = any(
                task.purpose == "adjudication" and task.state in _COUNTING for task in tasks
            )
            if not is_settled and (is_stuck or (outcome and outcome.state == "conflict")):
                to_settle.add(item.entity_id)
        return to_settle

    def _adjudications(self, entity_ids: Sequence[str]) -> Iterable[StoredTask]:
        """Tasks for the least busy adjudicators without a part in the item, else for the house."""
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
        past = frozenset(task.assignee for task in tasks)
        return Item(entity_id, past, active, self._priorities.get(entity_id, 0))

    def _workers(self) -> list[Worker]:
        waiting = Counter(
            task.assignee
            for task in self._tasks.values()
            if task.purpose == "review" and task.state in WAITING
        )
        today = answer_counts(self._store, self._queue.name, _midnight())
        return [Worker(name, waiting[name], today.get(name, 0)) for name in self._people.annotators]

    def _seen(self) -> dict[str, Seen]:
        ordinary: dict[str, set[str]] = defaultdict(set)
        gold: dict[str, set[str]] = defaultdict(set)
        for task in self._tasks.values():
            if task.purpose == "review":
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


def _midnight() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def too_little_gold(queue: Queue, gold: int) -> str:
    """That nobody can qualify with so few gold items, and what to do."""
    return (
        f"queue {queue.name} asks {queue.qualification} gold items of everybody first "
        f"(qualification), and has {gold}; add some with: loupe queue gold add {queue.name} FILE"
    )


def _room(queue: Queue, worker: Worker) -> int | None:
    """How many tasks an annotator may get now, gold ones included; None for no limit.

    The next batch comes when half of the last one is done: were each answer followed by a task,
    an additional one would be known for gold.
    """
    rooms = []
    if queue.daily_cap is not None:
        rooms.append(max(0, queue.daily_cap - worker.open - worker.today))
    if queue.batch_size is not None:
        due = worker.open <= queue.batch_size // 2
        rooms.append(queue.batch_size - worker.open if due else 0)
    return min(rooms, default=None)


# Sends tasks to Label Studio and removes obsolete ones.
#
# It can be killed and repeated at any moment. A task carries our own key in its data, so that it is
# recognised even if the response to its import was lost.

PUSH_ATTEMPTS = 4
PAUSE_SECONDS = 0.5
_PAGE = 500


def push(
    store: Store,
    desks: Desks,
    queue: Queue,
    images_url: str,
    pause_seconds: float = PAUSE_SECONDS,
) -> PushReport:
    """Sends the waiting tasks of a queue that are not in Label Studio yet.

    Args:
        store: the provenance store.
        desks: the workspaces in which people answer.
        queue: which entities, who looks at them, and how many of them.
        images_url: where the annotator's browser finds an image: `<images_url>/<sha256>`.
        pause_seconds: how long to wait after a fault.

    Raises:
        UsageError: the queue names an unknown person, or wants more people than there are.
        ServiceError: the desk refuses, or stays unavailable.
    """
    sent_back = _take_back_unclear(store, desks, queue)
    stored = review_tasks(store, queue.name)
    plan = make_plan(store, queue, desks(HOUSE).server_name, stored)
    announce_tasks(store, plan.new, {})  # so that an interrupted push does not plan again
    pusher = _Pusher(store, desks, queue, images_url, pause_seconds, _notes(store, queue))
    projects = tuple(
        (seat.assignee, pusher.send(seat, tasks)) for seat, tasks in _by_seat(stored, plan.new)
    )
    _explain_suspensions(store, desks, queue)
    obsolete = tasks_by_key(store, [task.key for task in plan.obsolete])
    closed = sum(
        close_tasks(store, [task.key for task in tasks])
        for tasks in _taken_off(store, desks, obsolete.values())
    )
    return PushReport(
        queue=queue.name,
        gold=sum(task.gold for task in plan.new),
        conflicts=sum(task.purpose == "adjudication" for task in plan.new),
        closed=closed,
        sent_back=sent_back,
        short=plan.short,
        projects=projects,
        pushed=pusher.counts["pushed"],
        known=pusher.counts["known"],
        duplicates=pusher.counts["duplicates"],
    )


def _by_seat(
    stored: Mapping[str, StoredTask], new: Sequence[StoredTask]
) -> list[tuple[Seat, list[StoredTask]]]:
    """All tasks of each seat that has open ones, new ones last and in their order."""
    again = {task.key for task in new}
    before = [task for key, task in stored.items() if key not in again]
    by_seat: dict[Seat, list[StoredTask]] = defaultdict(list)
    for task in (*before, *new):
        by_seat[Seat(task.assignee, task.purpose)].append(task)
    return [
        (seat, tasks)
        for seat, tasks in sorted(by_seat.items())
        if any(task.state in WAITING for task in tasks)
    ]


def _taken_off(
    store: Store, desks: Desks, tasks: Iterable[StoredTask]
) -> Iterator[list[StoredTask]]:
    """Removes tasks from Label Studio; gives those of each project, as far as they were removed.

    Tasks with an answer since the last pull stay, so that the next pull reads it.
    """
    by_project: dict[tuple[str, str, int], list[StoredTask]] = defaultdict(list)
    for task in tasks:
        by_project[task.assignee, task.server, task.project_id].append(task)
    for (assignee, server, project_id), found in sorted(by_project.items()):
        desk = desks(assignee)
        numbers = {task.key: task.task_id for task in found if task.task_id is not None}
        unread: set[str] = set()
        if numbers and server == desk.server_name:
            unread = _unread(store, desk, project_id, numbers)
            desk.delete_tasks(project_id, sorted({numbers[key] for key in numbers.keys() - unread}))
        yield [task for task in found if task.key not in unread]


def _explain_suspensions(store: Store, desks: Desks, queue: Queue) -> None:
    """Says on the project of each suspended annotator why their items were taken back."""
    for one in revocations(store, queue.name):
        if one.state != IN_FORCE:
            continue
        desk, seat = desks(one.assignee), Seat(one.assignee, "review")
        known = project_of_tasks(store, desk.server_name, queue.name, *seat)
        if known is not None:
            spec = project_spec(queue, seat)._replace(note=_suspension_note(one, queue))
            desk.ensure_project(spec, known)


def _notes(store: Store, queue: Queue) -> dict[str, str]:
    """What annotators read on the card of their project: how far they are, and how well it goes.

    It speaks of earlier days only, so that nobody learns which answer of today was compared.
    """
    checks = all_checks(store, queue.name)
    midnight = _midnight()
    in_all = answer_counts(store, queue.name)
    today = answer_counts(store, queue.name, midnight)
    notes = {
        name: progress_note(
            count - today.get(name, 0),
            [check.correct for check in checks.get(name, ()) if check.answered_at < midnight],
        )
        for name, count in in_all.items()
        if count > today.get(name, 0)
    }
    testing = answers_to_qualify(store, queue, [one.pseudonym for one in annotators(store)])
    return notes | dict.fromkeys(testing, qualification_note(queue))


def progress_note(answers: int, correct: Sequence[bool]) -> str:
    """How many answers an annotator gave before today, and how many known ones were right."""
    said = f"Until yesterday you answered {answers:,} item{'' if answers == 1 else 's'}."
    if not correct:
        return said
    return (
        f"{said} {sum(correct):,} of {len(correct):,} answers to items with a known answer agreed "
        "with it; the lead of this queue can show you which did not, and why."
    )


def qualification_note(queue: Queue) -> str:
    """What annotators read who are not qualified yet."""
    return (
        f"Qualification: the first {queue.qualification} items have a known answer. You get the "
        f"queue's other items once at least {queue.accuracy_floor:.0%} of your answers agree."
    )


def _suspension_note(revocation: Revocation, queue: Queue) -> str:
    agreed = round(revocation.accuracy * revocation.answers)
    return (
        f"Paused: {agreed} of your last {revocation.answers} answers to items with a known answer "
        f"agreed with it; this queue asks for {queue.accuracy_floor:.0%}. Items that only you had "
        "answered go to other people now. Please read the instructions again and talk to the lead "
        "of this queue, who can let you continue."
    )


def _take_back_unclear(store: Store, desks: Desks, queue: Queue) -> int:
    """Removes tasks with unclear answers from Label Studio; returns how many.

    They still wait, so that the push sends them again, with the reason and what their authors had
    answered.
    """
    tasks = {
        one.task.key: one.task
        for one in unclear_annotations(store, queue.name)
        if one.state == "unclear" and one.task.task_id is not None
        if one.task.server == desks(one.task.assignee).server_name
    }
    count = 0
    for removed in _taken_off(store, desks, tasks.values()):
        send_back(store, [task.key for task in removed])
        count += len(removed)
    return count


def _unread(
    store: Store, desk: AnnotationBackend, project_id: int, keys: Collection[str]
) -> set[str]:
    """The tasks with an answer in Label Studio that no pull has seen."""
    cursor = load_cursor(store, desk.server_name, project_id)
    since = cursor.read_from if cursor else None
    changed = [task for task in desk.list_tasks(project_id, since) if task.key in keys]
    received = annotations_of(store, [task.key for task in changed])
    return {
        task.key
        for task in changed
        if {(one.id, one.updated_at) for one in task.annotations if not one.cancelled}
        - {(one.remote_id, one.annotated_at) for one in received.get(task.key, ())}
    }


class _Pusher:
    """Sends the tasks of one queue, seat by seat, and counts them.

    `counts` are those of new tasks (`pushed`), of those that were there and are still open
    (`known`), and of duplicates that were removed.
    """

    def __init__(
        self,
        store: Store,
        desks: Desks,
        queue: Queue,
        images_url: str,
        pause_seconds: float,
        notes: Mapping[str, str],
    ) -> None:
        self._store = store
        self._desks = desks
        self._queue = queue
        self._interface = interface_of(queue)
        self._images_url = images_url
        self._pause_seconds = pause_seconds
        self._notes = notes
        self.counts: Counter[str] = Counter()

    def send(self, seat: Seat, tasks: Sequence[StoredTask]) -> int:
        """Makes the project of a seat hold its open tasks, each once; gives its number.

        Raises:
            ServiceError: the desk refuses, or stays unavailable.
        """
        desk = self._desks(seat.assignee)
        known = project_of_tasks(self._store, desk.server_name, self._queue.name, *seat)
        spec = project_spec(self._queue, seat)
        if seat.purpose == "review" and seat.assignee in self._notes:
            spec = spec._replace(note=self._notes[seat.assignee])
        project_id = desk.ensure_project(spec, known)
        placed = {
            task.task_id: task.key
            for task in tasks
            if task.task_id is not None
            and task.state != "closed"
            and (task.server, task.project_id) == (desk.server_name, project_id)
        }
        there = set(placed.values())
        wanted = [task for task in tasks if task.state in WAITING]
        if not _holds(desk, project_id, placed):  # a push was killed, or tasks were lost
            there = self._settle(desk, project_id, tasks)
        already = sum(task.key in there for task in wanted)
        fault: DeskUnavailableError | None = None
        for attempt in count(1):
            absent = [task for task in wanted if task.key not in there]
            if not absent:
                break
            if attempt > PUSH_ATTEMPTS:
                raise ServiceError(
                    f"{len(absent)} tasks of queue {self._queue.name} are not at {desk.url} after "
                    f"{PUSH_ATTEMPTS} attempts; the next push goes on ({fault})"
                ) from fault
            try:
                there |= self._import(desk, project_id, absent)
            except DeskUnavailableError as error:
                fault = error
                time.sleep(self._pause_seconds)
                there = self._settle(desk, project_id, tasks)
        self.counts.update(pushed=len(wanted) - already, known=already)
        return project_id

    def _settle(
        self, desk: AnnotationBackend, project_id: int, tasks: Sequence[StoredTask]
    ) -> set[str]:
        standing = settle(self._store, desk, project_id, {task.key: task for task in tasks})
        self.counts.update(duplicates=standing.duplicates)
        return set(standing.there)

    def _import(
        self, desk: AnnotationBackend, project_id: int, tasks: Sequence[StoredTask]
    ) -> set[str]:
        """Sends tasks and records their places, preparing a batch while the last one is sent.

        The images of a batch are stored first, so that they are served as soon as people see them.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="import") as sender:
            last: tuple[list[StoredTask], Future[list[int]]] | None = None
            for page in pages(tasks, _PAGE):
                new = self._new_tasks(page)
                if last is not None:
                    self._place(desk, project_id, *last)
                last = page, sender.submit(desk.import_tasks, project_id, new)
            if last is not None:
                self._place(desk, project_id, *last)
        return {task.key for task in tasks}

    def _new_tasks(self, tasks: Sequence[StoredTask]) -> list[NewTask]:
        contents = self._contents(tasks)
        images = {task.key: found.images for task, found in zip(tasks, contents, strict=True)}
        announce_tasks(self._store, tasks, images)
        return [
            NewTask(task.key, {**content.data, "key": task.key}, content.predictions)
            for task, content in zip(tasks, contents, strict=True)
        ]

    def _place(
        self,
        desk: AnnotationBackend,
        project_id: int,
        tasks: Sequence[StoredTask],
        numbers: Future[list[int]],
    ) -> None:
        keys = [task.key for task in tasks]
        places = dict(zip(keys, numbers.result(), strict=True))
        place_tasks(self._store, desk.server_name, project_id, places)

    def _contents(self, tasks: Sequence[StoredTask]) -> list[TaskContent]:
        """The pages of tasks, in order.

        A page opens with its draft, if it has one; one that comes back with the reason and the
        earlier answer; that of an adjudicator also shows the answers.
        """
        store, interface = self._store, self._interface
        shown = fetch(store, [task.entity_id for task in tasks])
        entities = [shown[task.entity_id] for task in tasks]
        drafts = offered_drafts(store, self._queue, tasks)
        earlier = annotations_of(store, [task.key for task in tasks if task.state == "unclear"])
        conflicts = [task.entity_id for task in tasks if task.purpose == "adjudication"]
        with store.read() as connection:
            answers = counted_answers(connection, self._queue.name, conflicts)
        contents = interface.contents(store, entities, self._images_url)
        filled = []
        for task, entity, content in zip(tasks, entities, contents, strict=True):
            if draft := drafts.get(task.key):
                content = interface.with_draft(content, draft)
            if back := [one for one in earlier.get(task.key, ()) if one.state == "sent_back"]:
                problem, regions = back[-1].answer["problem"], back[-1].result.get("regions")
                content = returned_content(content, interface.config, problem, regions)
            if task.purpose == "adjudication":
                given = {
                    one.annotation_key: ReviewAnswer.model_validate(one.answer)
                    for one in answers.get(entity.id, ())
                }
                panel = adjudication_data(interface, entity, given)
                content = content._replace(data={**content.data, **panel})
            filled.append(content)
        return filled


def _holds(desk: AnnotationBackend, project_id: int, placed: Mapping[int, str]) -> bool:
    """Whether the project holds as many tasks as were sent, and the newest among them.

    A restored project may hold as many tasks, as removed ones are back.

    Args:
        desk: where the project is.
        project_id: the number of the project.
        placed: our keys by the numbers of the tasks.
    """
    if desk.count(project_id).tasks != len(placed):
        return False
    newest = max(placed, default=0)
    listed = desk.list_tasks(project_id, after=newest - 1) if placed else ()
    return [task.key for task in listed] == ([placed[newest]] if placed else [])
