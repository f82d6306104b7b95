"""Turn answers into decisions, and compare Label Studio with the store.

Both can be killed and repeated at any time: an annotation is identified by its content. A cursor
records up to where a project was read, so that polling is cheap; webhooks only trigger it. If a
project contains less than before (tasks were deleted, or a backup was restored), all of it is read
again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from loupe.annotate.backend import Desks, LabelStudioDesk, RemoteTask
from loupe.annotate.projects import Seat, find_project, remove_tasks, settle
from loupe.annotate.queues import SHARED, Queue
from loupe.annotate.received import Notice, Reader, Reading
from loupe.db.annotations import (
    UnclearAnnotation,
    annotations_of,
    discard_annotations,
    entity_states,
    unclear_annotations,
)
from loupe.db.entities import pages
from loupe.db.review_audits import undecided_items
from loupe.db.reviews import (
    WAITING,
    Cursor,
    StoredTask,
    assignments,
    load_cursor,
    review_tasks,
    save_cursor,
    tasks_by_key,
)
from loupe.db.store import Store
from loupe.schemas.errors import ServiceError, UsageError

_PAGE = 500
# Changes become visible in the order in which they are committed, not in that of their times.
OVERLAP = timedelta(seconds=30)
_REMOVED = ("discarded", "sent_back")
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class PullReport(Reading):
    """The annotations that a pull or a comparison found, and the items that they decided.

    Attributes:
        queue: the queue.
        unclear: unclear answers (their tasks stay open) and quarantined ones, which are not the
            assignee's; reported until corrected or discarded.
        unreached: workspaces that could not be read now, and why; their tasks are not `missing`.
    """

    queue: str
    unclear: tuple[Notice, ...] = ()
    unreached: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The counts in one line."""
        return (
            f"{self.accepted:,} accepted, {self.edited:,} edited, {self.rejected:,} rejected, "
            f"{self.skipped:,} skipped; items: {self.decided:,} decided, {self.conflicts:,} in "
            f"conflict; answers revoked: {self.returned:,}"
        )


def pull(
    store: Store, desks: Desks, queue: Queue, code_revision: str = "", flow_run: str = ""
) -> PullReport:
    """Store new answers with the decisions that follow, those of a page in one transaction.

    If a workspace cannot be read, the answers of others are still stored.

    Args:
        store: the provenance store.
        desks: the workspaces in which people answer.
        queue: the queue of the tasks.
        code_revision: the revision of our code, for provenance.
        flow_run: the present flow run, for provenance.

    Raises:
        ServiceError: no workspace can be read.
    """
    reader = Reader(store, queue, desks(SHARED).server_name, code_revision, flow_run)

    def read(seat: Seat) -> Reading:
        project_id = find_project(store, desks, queue, seat)
        if project_id is None:
            return Reading()
        return _pull_project(store, desks(seat.assignee), project_id, reader)

    return _read_seats(store, queue, reader, read)


def reconcile(
    store: Store, desks: Desks, queue: Queue, code_revision: str = "", flow_run: str = ""
) -> PullReport:
    """Compare all tasks and answers in Label Studio with the store, and repair the store.

    Raises:
        ServiceError: no workspace can be read.
    """
    reader = Reader(store, queue, desks(SHARED).server_name, code_revision, flow_run)
    stored = review_tasks(store, queue.name)

    def compare(seat: Seat) -> Reading:
        ours = {key: task for key, task in stored.items() if (task.assignee, task.purpose) == seat}
        project_id = find_project(store, desks, queue, seat)
        there, found = dict[str, RemoteTask](), Reading()
        if project_id is not None:
            settled = settle(store, desks(seat.assignee), project_id, ours)
            there = settled.there
            found = Reading(
                on_desk=len(there),
                adopted=settled.adopted,
                duplicates=settled.duplicates,
                foreign=settled.foreign,
            )
        read, _ = _read(store, reader, there.values(), all_of=ours)
        waiting = {key for key, task in ours.items() if task.state in WAITING}
        missing = tuple(ours[key].entity_id for key in waiting - there.keys())
        return found.plus(read).plus(Reading(missing=missing))

    report = _read_seats(store, queue, reader, compare)
    return report.model_copy(update={"missing": tuple(sorted(report.missing))})


def _read_seats(
    store: Store, queue: Queue, reader: Reader, read: Callable[[Seat], Reading]
) -> PullReport:
    """Read each seat of a queue, then decide on items that have enough answers.

    Raises:
        ServiceError: none could be read.
    """
    found = Reading()
    faults: dict[Seat, ServiceError] = {}
    seats = [Seat(*pair) for pair in assignments(store, queue.name)]
    for seat in seats:
        try:
            found = found.plus(read(seat))
        except ServiceError as error:
            faults[seat] = error
    if faults and len(faults) == len(seats):
        raise next(iter(faults.values()))
    # The rule on gold answers may be stricter now than when these were stored.
    found = found.plus(Reading(returned=reader.judge_again()))
    # Fewer people may be required now than when the answers were stored.
    for page in pages(undecided_items(store, queue.name, queue.overlap), _PAGE):
        found = found.plus(Reading(decided=reader.decide_again(page)))
    return PullReport(
        queue=queue.name,
        unclear=tuple(map(_notice, unclear_annotations(store, queue.name))),
        unreached=tuple(f"{seat.shown}: {error}" for seat, error in faults.items()),
        **dict(found),
    )


def discard(
    store: Store, desks: Desks, queue: Queue, annotation_ids: Sequence[int]
) -> tuple[Notice, ...]:
    """Discard unclear or quarantined answers by their numbers and return them.

    A task that waits for a clear answer is removed from Label Studio with its unclear answers; the
    next push sends it again. Discarded answers stay in the store.

    Raises:
        UsageError: a number is not that of an unclear or quarantined answer of the queue, or its
            task has an answer that no pull has read; the others are discarded.
        ServiceError: the server refuses, or stays unavailable; nothing is discarded.
    """
    found = [
        one for one in unclear_annotations(store, queue.name) if one.remote_id in annotation_ids
    ]
    if unknown := sorted(set(annotation_ids) - {one.remote_id for one in found}):
        raise UsageError(
            f"queue {queue.name} has no unclear answer with the number "
            f"{', '.join(map(str, unknown))}; loupe queue stats {queue.name} shows which it has"
        )
    tasks = {one.task.key: one.task for one in found if one.task.state == "unclear"}
    removed = {task.key for page in remove_tasks(store, desks, tasks.values()) for task in page}
    unread = tasks.keys() - removed
    discarded = [one for one in found if one.task.key not in unread]
    discard_annotations(store, discarded)
    if kept := sorted(one.remote_id for one in found if one.task.key in unread):
        raise UsageError(
            f"kept, as there are newer answers: {', '.join(map(str, kept))}; read these with: "
            f"loupe queue pull {queue.name}"
        )
    return tuple(map(_notice, discarded))


def _pull_project(store: Store, desk: LabelStudioDesk, project_id: int, reader: Reader) -> Reading:
    """Read the changes since the last pull, or everything if something is missing."""
    now = datetime.now(UTC)
    counts = desk.count(project_id)
    cursor = load_cursor(store, desk.server_name, project_id)
    if cursor is not None and (
        counts.tasks < cursor.tasks or counts.annotations < cursor.annotations
    ):
        cursor = None
    since = cursor.read_from if cursor is not None else None
    found, newest = _read(store, reader, desk.list_tasks(project_id, since))
    new = moved(cursor, newest, now)._replace(**counts._asdict())
    if new != cursor:
        save_cursor(store, desk.server_name, project_id, new)
    return found


def moved(cursor: Cursor | None, newest: datetime, now: datetime) -> Cursor:
    """Return the cursor after a reading whose newest change has the time `newest`.

    A change is read again until no earlier change can still become visible.
    """
    if cursor is None or newest > cursor.newest:
        return Cursor(newest, now, newest - OVERLAP, 0, 0)
    if now - cursor.found_at >= OVERLAP:
        return cursor._replace(read_from=cursor.newest)
    return cursor


def _read(
    store: Store,
    reader: Reader,
    tasks: Iterable[RemoteTask],
    all_of: Mapping[str, StoredTask] | None = None,
) -> tuple[Reading, datetime]:
    """Read the annotations of tasks; return the results and the time of the newest change.

    With `all_of`, annotations that are not among `tasks` were deleted.
    """
    found, newest = Reading(), _BEGINNING
    seen: set[tuple[str, int]] = set()
    for page in pages(tasks, _PAGE):
        stored = tasks_by_key(store, [task.key for task in page])
        ours = [(stored[task.key], task) for task in page if task.key in stored]
        here = {(task.key, annotation.id) for _, task in ours for annotation in task.annotations}
        found = found.plus(reader.read(ours))
        newest = max(newest, *(task.updated_at for task in page))
        if all_of is None:
            deleted = _deleted(store, stored, here)
            foreign = tuple(task.id for task in page if task.key not in stored)
            found = found.plus(Reading(deleted=deleted, foreign=foreign))
        seen |= here
    if all_of is not None:
        found = found.plus(Reading(deleted=_deleted(store, all_of, seen)))
    return found, newest


def _deleted(
    store: Store, tasks: Mapping[str, StoredTask], seen: set[tuple[str, int]]
) -> tuple[Notice, ...]:
    """Return the received annotations of these tasks that no longer exist.

    Annotations of withdrawn items are deleted on purpose. A restored Label Studio gives the same
    number to another annotation, so `seen` contains the numbers with the keys of their tasks.
    """
    detail = "deleted in Label Studio; its decision stays"
    with store.read() as connection:
        states = entity_states(connection, {task.entity_id for task in tasks.values()})
    live = [key for key, task in tasks.items() if states[task.entity_id] != "withdrawn"]
    gone = set()
    for key, annotations in annotations_of(store, live).items():
        for annotation in annotations:
            is_there = (key, annotation.remote_id) in seen
            if not is_there and annotation.state not in _REMOVED:
                gone.add((annotation.remote_id, tasks[key].entity_id))
    return tuple(
        Notice(entity_id=entity_id, annotation_id=remote_id, detail=detail)
        for remote_id, entity_id in sorted(gone)
    )


def _notice(found: UnclearAnnotation) -> Notice:
    return Notice(
        entity_id=found.task.entity_id, annotation_id=found.remote_id, detail=found.problem
    )
