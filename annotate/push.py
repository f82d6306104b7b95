"""Send the tasks of a queue to Label Studio."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, count

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.backend import Desks, DeskUnavailableError, LabelStudioDesk, NewTask
from loupe.annotate.gold import answers_to_qualify
from loupe.annotate.instructions import additions
from loupe.annotate.interfaces.page import (
    TaskContent,
    adjudication_config,
    adjudication_data,
    returned_content,
)
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.planning import make_plan, midnight, people_of
from loupe.annotate.projects import Seat, project_spec, remove_tasks, settle, take_back
from loupe.annotate.queues import SHARED, Queue
from loupe.db.annotations import (
    annotations_of,
    answer_counts,
    counted_answers,
    send_back,
    unclear_annotations,
)
from loupe.db.entities import StoredEntity, children_of, fetch, pages, parents_of
from loupe.db.gold import IN_FORCE, Revocation, all_checks, revocations
from loupe.db.reviews import (
    WAITING,
    StoredTask,
    annotators,
    announce_tasks,
    close_tasks,
    place_tasks,
    project_of_tasks,
    review_tasks,
    tasks_by_key,
)
from loupe.db.store import Store, claimed
from loupe.schemas.base import Record
from loupe.schemas.errors import ServiceError
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.wording import many


class PushReport(Record):
    """The results of a push.

    Attributes:
        queue: the queue.
        pushed: tasks that are new on the server.
        known: tasks that were on the server before and still wait.
        gold: those among `pushed` that are gold items.
        conflicts: those among `pushed` that an adjudicator has to settle.
        duplicates: tasks that existed twice; one copy was removed.
        closed: tasks that were removed because no answer is needed any more.
        moved: tasks that nobody had opened and that were taken back, for others or for items that
            come first.
        sent_back: unclear answers whose authors have their task again, with the reason.
        short: items that wait for the next batch, for more people, or for tomorrow if there is
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
    moved: int = 0
    sent_back: int = 0
    short: int = 0
    projects: tuple[tuple[str, int], ...] = ()

    @property
    def summary(self) -> str:
        """The counts in one line."""
        more = {
            "gold": self.gold,
            "conflicts for an adjudicator": self.conflicts,
            "duplicates removed": self.duplicates,
            "closed": self.closed,
            "taken back unopened": self.moved,
            "unclear answers sent back to their authors": self.sent_back,
            "items wait for the next batch, more annotators or tomorrow": self.short,
        }
        parts = [f"{self.pushed:,} tasks sent", f"{self.known:,} already there"]
        return ", ".join(parts + [f"{count:,} {what}" for what, count in more.items() if count])


# Descriptions of one image should be independent of each other. Only the first person who gets an
# image sees a model's draft; the others start without one, even if the first one skips.


_OUT = ("rejected", "inactive", "withdrawn")


def _offered_drafts(
    store: Store, queue: Queue, tasks: Sequence[StoredTask]
) -> dict[str, StoredEntity]:
    """Return the draft of each task whose page opens with one, by key.

    It is the first draft of the image that was not rejected or withdrawn.
    """
    if queue.kind != Image.kind:
        return {}
    first: dict[str, str] = {}  # which does not change with later tasks
    for task in review_tasks(store, queue.name, purpose="review", gold=False).values():
        first.setdefault(task.entity_id, task.key)
    asked = {task.key for task in tasks}
    images = {image: key for image, key in first.items() if key in asked}
    described = children_of(store, images, Role.DESCRIBES)
    captions = fetch(store, set(chain.from_iterable(described.values())))
    drafted = parents_of(store, captions, Role.PROMPTED_BY)
    drafts: dict[str, list[StoredEntity]] = {}
    for image, found in described.items():
        of_models = [captions[one] for one in found if one in drafted]
        drafts[images[image]] = [one for one in of_models if one.state not in _OUT]
    return {
        key: min(found, key=lambda draft: (draft.record(Caption).position, draft.seq))
        for key, found in drafts.items()
        if found
    }


# Send tasks to Label Studio and remove obsolete ones.
#
# This can be killed and repeated at any time. A task has our own key in its data, so that it is
# recognised even if the response to its import was lost.

PUSH_ATTEMPTS = 4
_PAUSE_SECONDS = 0.5
_PAGE = 500


def push(
    store: Store,
    desks: Desks,
    queue: Queue,
    images_url: str,
    pause_seconds: float = _PAUSE_SECONDS,
) -> PushReport:
    """Send the waiting tasks of a queue that are not in Label Studio yet.

    Two pushes of a queue do not run at the same time; the second waits.

    Args:
        store: the provenance store.
        desks: the workspaces in which people answer.
        queue: the queue, with its policy and its annotators.
        images_url: the address of images for the annotator's browser: `<images_url>/<sha256>`.
        pause_seconds: how long to wait after a fault.

    Raises:
        UsageError: the queue names an unknown person, or requires more people than there are.
        ServiceError: the server refuses, or stays unavailable.
    """
    with claimed(store, f"push of {queue.name}"):
        return _push(store, desks, queue, images_url, pause_seconds)


def _push(
    store: Store, desks: Desks, queue: Queue, images_url: str, pause_seconds: float
) -> PushReport:
    sent_back = _send_back(store, desks, _unclear_tasks(store, desks, queue))
    stored = review_tasks(store, queue.name)
    server = desks(SHARED).server_name
    plan = make_plan(store, queue, server, stored)
    moved = take_back(store, desks, plan.movable)
    if moved:
        stored = review_tasks(store, queue.name)
        plan = make_plan(store, queue, server, stored)
    known = (stored[task.key] for task in plan.new if task.key in stored)
    _send_back(store, desks, [task for task in known if task.state == "returned"])
    announce_tasks(store, plan.new, {})  # so that an interrupted push does not plan again
    pusher = _Pusher(store, desks, queue, images_url, pause_seconds, _progress_notes(store, queue))
    obsolete = {task.key for task in plan.obsolete}
    obsolete |= {
        key
        for key, task in stored.items()
        if task.state == "closed" and task.task_id is not None and task.server == server
    }
    obsolete -= {task.key for task in plan.new}
    projects = tuple(
        (seat.assignee, pusher.send(seat, tasks))
        for seat, tasks in _by_seat(stored, plan.new, obsolete)
    )
    _explain_absences(store, desks, queue)
    closed = sum(
        close_tasks(store, [task.key for task in tasks], server)
        for tasks in remove_tasks(store, desks, tasks_by_key(store, obsolete).values())
    )
    return PushReport(
        queue=queue.name,
        gold=sum(task.gold for task in plan.new),
        conflicts=sum(task.purpose == "adjudication" for task in plan.new),
        closed=closed,
        moved=moved,
        sent_back=sent_back,
        short=plan.short,
        projects=projects,
        pushed=pusher.counts["pushed"],
        known=pusher.counts["known"],
        duplicates=pusher.counts["duplicates"],
    )


def _by_seat(
    stored: Mapping[str, StoredTask], new: Sequence[StoredTask], obsolete: Collection[str]
) -> list[tuple[Seat, list[StoredTask]]]:
    """Return all tasks of each seat that has open or obsolete ones, new ones last and in order."""
    again = {task.key for task in new}
    before = [task for key, task in stored.items() if key not in again]
    by_seat = grouped((Seat(task.assignee, task.purpose), task) for task in (*before, *new))
    busy = []
    for seat, tasks in sorted(by_seat.items()):
        if any(task.state in WAITING or task.key in obsolete for task in tasks):
            busy.append((seat, tasks))
    return busy


def _explain_absences(store: Store, desks: Desks, queue: Queue) -> None:
    """Explain on the project of each suspended or paused annotator why they get no tasks."""
    notes = dict.fromkeys(people_of(store, queue).paused, _PAUSE_NOTE)
    for one in revocations(store, queue.name):
        if one.state == IN_FORCE:
            notes[one.assignee] = _suspension_note(one, queue)
    for assignee, note in notes.items():
        desk, seat = desks(assignee), Seat(assignee, "review")
        known = project_of_tasks(store, desk.server_name, queue.name, *seat)
        if known is not None:
            spec = project_spec(queue, seat, additions(store, queue))
            desk.ensure_project(spec._replace(note=note), known)


def _progress_notes(store: Store, queue: Queue) -> dict[str, str]:
    """Return the note on each annotator's project: their progress and accuracy.

    It covers earlier days only, so that it does not reveal which answers of today were compared.
    """
    checks = all_checks(store, queue.name)
    today_began = midnight()
    in_all = answer_counts(store, queue.name)
    today = answer_counts(store, queue.name, today_began)
    notes = {}
    for name, answers in in_all.items():
        earlier = answers - today.get(name, 0)
        compared = [one for one in checks.get(name, ()) if one.answered_at < today_began]
        if earlier > 0:
            notes[name] = _progress_note(earlier, [one.correct for one in compared])
    testing = answers_to_qualify(store, queue, [one.pseudonym for one in annotators(store)])
    return notes | dict.fromkeys(testing, _qualification_note(queue))


def _progress_note(answers: int, correct: Sequence[bool]) -> str:
    """Return a note on an annotator's answers before today, and on correct gold answers."""
    said = f"Until yesterday you answered {many(answers, 'item')}."
    if not correct:
        return said
    return (
        f"{said} {sum(correct):,} of {len(correct):,} answers to items with a known answer were "
        "right; the lead of this queue can show you the others, and why they are wrong."
    )


def _qualification_note(queue: Queue) -> str:
    """Return the note for annotators who are not qualified yet."""
    return (
        f"Qualification: the first {queue.qualification} items have a known answer. You get the "
        f"queue's other items once at least {queue.accuracy_floor:.0%} of your answers are right."
    )


_PAUSE_NOTE = (
    "Paused: the lead of your team stopped new tasks for you until further notice. What you have "
    "begun stays yours, with its draft."
)


def _suspension_note(revocation: Revocation, queue: Queue) -> str:
    right = round(revocation.accuracy * revocation.answers)
    return (
        f"Suspended: {right} of your last {revocation.answers} answers to items with a known "
        f"answer were right; this queue requires {queue.accuracy_floor:.0%}. Items that only you "
        "had answered go to other people now. Please read the instructions again and talk to the "
        "lead of this queue, who can let you continue."
    )


def _unclear_tasks(store: Store, desks: Desks, queue: Queue) -> Iterable[StoredTask]:
    """Return the tasks on the server with unclear answers."""
    tasks = {}
    for one in unclear_annotations(store, queue.name):
        if one.state == "unclear" and one.task.task_id is not None:
            is_here = one.task.server == desks(one.task.assignee).server_name
            if is_here:
                tasks[one.task.key] = one.task
    return tasks.values()


def _send_back(store: Store, desks: Desks, tasks: Iterable[StoredTask]) -> int:
    """Remove tasks whose answers do not count from Label Studio; return their number.

    They wait, so that the push sends them again; after an unclear answer with it and the reason.
    """
    count = 0
    for removed in remove_tasks(store, desks, tasks):
        send_back(store, [task.key for task in removed])
        count += len(removed)
    return count


class _Pusher:
    """Sends the tasks of one queue, seat by seat, and counts them.

    `counts` are those of new tasks (`pushed`), of existing tasks that are still open (`known`), and
    of duplicates that were removed.
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
        self._progress_notes = notes
        self._added = additions(store, queue)
        self.counts: Counter[str] = Counter()

    def send(self, seat: Seat, tasks: Sequence[StoredTask]) -> int:
        """Make the project of a seat contain its open tasks once each; return its number.

        Raises:
            ServiceError: the server refuses the request, or stays unavailable.
        """
        desk = self._desks(seat.assignee)
        known = project_of_tasks(self._store, desk.server_name, self._queue.name, *seat)
        spec = project_spec(self._queue, seat, self._added)
        if seat.purpose == "review" and seat.assignee in self._progress_notes:
            spec = spec._replace(note=self._progress_notes[seat.assignee])
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
                    f"{PUSH_ATTEMPTS} attempts; the next push continues ({fault})"
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
        self, desk: LabelStudioDesk, project_id: int, tasks: Sequence[StoredTask]
    ) -> set[str]:
        found = settle(self._store, desk, project_id, {task.key: task for task in tasks})
        self.counts.update(duplicates=found.duplicates)
        return set(found.there)

    def _import(
        self, desk: LabelStudioDesk, project_id: int, tasks: Sequence[StoredTask]
    ) -> set[str]:
        """Send tasks and record their places, preparing a batch while the last one is sent.

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
        desk: LabelStudioDesk,
        project_id: int,
        tasks: Sequence[StoredTask],
        numbers: Future[list[int]],
    ) -> None:
        keys = [task.key for task in tasks]
        places = dict(zip(keys, numbers.result(), strict=True))
        place_tasks(self._store, desk.server_name, project_id, places)

    def _contents(self, tasks: Sequence[StoredTask]) -> list[TaskContent]:
        """Return the pages of tasks, in order.

        A page opens with its draft, if it has one. A task that comes back opens with the reason and
        the earlier answer. An adjudicator's page also shows the answers.
        """
        store, interface = self._store, self._interface
        shown = fetch(store, [task.entity_id for task in tasks])
        entities = [shown[task.entity_id] for task in tasks]
        drafts = _offered_drafts(store, self._queue, tasks)
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
                config = interface.config
                if task.purpose == "adjudication":
                    config = adjudication_config(interface)
                content = returned_content(content, config, problem, regions)
            if task.purpose == "adjudication":
                given = {
                    one.annotation_key: ReviewAnswer.model_validate(one.answer)
                    for one in answers.get(entity.id, ())
                }
                panel = adjudication_data(interface, entity, given)
                content = content._replace(data={**content.data, **panel})
            filled.append(content)
        return filled


def _holds(desk: LabelStudioDesk, project_id: int, placed: Mapping[int, str]) -> bool:
    """Return whether the project has as many tasks as were sent, and the newest among them.

    A restored project may have as many tasks, as removed ones exist again.

    Args:
        desk: the workspace of the project.
        project_id: the number of the project.
        placed: our keys by the numbers of the tasks.
    """
    if desk.count(project_id).tasks != len(placed):
        return False
    newest = max(placed, default=0)
    listed = desk.list_tasks(project_id, after=newest - 1) if placed else ()
    return [task.key for task in listed] == ([placed[newest]] if placed else [])
