"""Turns what people answered into decisions, and compares the desk with the store.

Both can be repeated, or killed, at any moment: an annotation is known by its content. How far a
project was read is kept, so that looking again costs next to nothing; what the desk notifies is a
hint at most. Where a project holds less than it did (somebody deleted, or the desk was set back to
an older state), all of it is read anew.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from annotate.desk import ProjectCounts, RemoteTask, ReviewDesk
from annotate.projects import Desks, Seat, find_project
from annotate.queues import HOUSE, Queue
from annotate.received import Notice, Reader, Reading
from annotate.reports import PullReport, ReconcileReport
from annotate.standing import settle
from db.annotations import annotations_of, unclear_annotations, undecided_items
from db.entities import pages
from db.reviews import (
    WAITING,
    Cursor,
    StoredTask,
    assignments,
    load_cursor,
    review_tasks,
    save_cursor,
    tasks_by_key,
)
from db.store import Store

_PAGE = 500
# Changes become visible in the order in which they are committed, not in that of their times.
OVERLAP = timedelta(seconds=30)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def pull(
    store: Store, desks: Desks, queue: Queue, code_revision: str = "", flow_run: str = ""
) -> PullReport:
    """Stores new answers with the decisions that follow, those of a page in one transaction.

    Args:
        store: the provenance store.
        desks: the workspaces in which people answer.
        queue: whose tasks.
        code_revision: the revision of our code, for provenance.
        flow_run: the flow run in which this happens, for provenance.

    Raises:
        ServiceError: the desk refuses, or stays unavailable.
    """
    reader = Reader(store, queue, desks(HOUSE).server_name, code_revision, flow_run)
    found = _Found()
    for seat in _seats(store, queue):
        project_id = find_project(desks, queue, seat)
        if project_id is not None:
            found = found.plus(_pull_project(store, desks(seat.assignee), project_id, reader))
    late = _decide_the_rest(store, queue, reader)
    return PullReport(
        queue=queue.name,
        unclear=_unclear(store, queue),
        deleted=found.deleted,
        foreign=found.foreign,
        **found.reading.plus(Reading(decided=late))._asdict(),
    )


def reconcile(
    store: Store, desks: Desks, queue: Queue, code_revision: str = "", flow_run: str = ""
) -> ReconcileReport:
    """Compares all tasks and answers on the desk with the store, and mends what can be mended here.

    Raises:
        ServiceError: the desk refuses, or stays unavailable.
    """
    reader = Reader(store, queue, desks(HOUSE).server_name, code_revision, flow_run)
    stored = review_tasks(store, queue.name)
    report = ReconcileReport(queue=queue.name)
    missing = {key for key, task in stored.items() if task.state in WAITING}
    for seat in _seats(store, queue):
        project_id = find_project(desks, queue, seat)
        ours = {key: task for key, task in stored.items() if _seat(task) == seat}
        if project_id is None:
            gone = _deleted(store, ours, set())
            report = report.model_copy(update={"deleted": report.deleted + gone})
            continue
        desk = desks(seat.assignee)
        standing = settle(store, desk, project_id, ours)
        missing -= standing.there.keys()
        found = _read(store, reader, standing.there.values(), all_of=ours)
        new = found.reading
        report = report.model_copy(
            update={
                "on_desk": report.on_desk + len(standing.there),
                "adopted": report.adopted + standing.adopted,
                "duplicates": report.duplicates + standing.duplicates,
                "foreign": report.foreign + standing.foreign,
                "recovered": report.recovered + new.accepted + new.edited + new.rejected,
                "deleted": report.deleted + found.deleted,
                "decided": report.decided + new.decided,
            }
        )
    entity_ids = sorted(stored[key].entity_id for key in missing)
    decided = report.decided + _decide_the_rest(store, queue, reader)
    return report.model_copy(update={"missing": tuple(entity_ids), "decided": decided})


def _decide_the_rest(store: Store, queue: Queue, reader: Reader) -> int:
    """Decides on items that have had enough answers before, and gives how many it were.

    That is so when fewer people are wanted now than when the answers came.
    """
    ids = undecided_items(store, queue.name, queue.overlap)
    return sum(reader.decide_again(page).decided for page in pages(ids, _PAGE))


class _Found(NamedTuple):
    """What was found in a project."""

    reading: Reading = Reading()
    deleted: tuple[Notice, ...] = ()
    foreign: tuple[int, ...] = ()
    newest: datetime = _BEGINNING

    def plus(self, other: "_Found") -> "_Found":
        """Both together."""
        return _Found(
            self.reading.plus(other.reading),
            self.deleted + other.deleted,
            self.foreign + other.foreign,
            max(self.newest, other.newest),
        )


def _seats(store: Store, queue: Queue) -> list[Seat]:
    return [Seat(*pair) for pair in assignments(store, queue.name)]


def _seat(task: StoredTask) -> Seat:
    return Seat(task.assignee, task.purpose)


def _pull_project(store: Store, desk: ReviewDesk, project_id: int, reader: Reader) -> _Found:
    """Reads what changed since the last time, or everything where something is gone."""
    now = datetime.now(UTC)
    counts = desk.count(project_id)
    cursor = load_cursor(store, desk.server_name, project_id)
    if cursor is not None and _shrank(cursor, counts):
        cursor = None
    since = cursor.read_from if cursor is not None else None
    found = _read(store, reader, desk.list_tasks(project_id, since))
    new = moved(cursor, found.newest, now)._replace(**counts._asdict())
    if new != cursor:
        save_cursor(store, desk.server_name, project_id, new)
    return found


def moved(cursor: Cursor | None, newest: datetime, now: datetime) -> Cursor:
    """The cursor after a reading whose newest change is of `newest`.

    A change is read again until it is sure that none of before it is still to become visible.
    """
    if cursor is None or newest > cursor.newest:
        return Cursor(newest, now, newest - OVERLAP, 0, 0)
    if now - cursor.found_at >= OVERLAP:
        return cursor._replace(read_from=cursor.newest)
    return cursor


def _shrank(cursor: Cursor, counts: ProjectCounts) -> bool:
    return counts.tasks < cursor.tasks or counts.annotations < cursor.annotations


def _read(
    store: Store,
    reader: Reader,
    tasks: Iterable[RemoteTask],
    all_of: Mapping[str, StoredTask] | None = None,
) -> _Found:
    """Reads the annotations of tasks; with `all_of`, what is not among `tasks` was deleted."""
    found = _Found()
    seen: set[tuple[str, int]] = set()
    for page in pages(tasks, _PAGE):
        stored = tasks_by_key(store, [task.key for task in page])
        ours = [(stored[task.key], task) for task in page if task.key in stored]
        here = {(task.key, annotation.id) for _, task in ours for annotation in task.annotations}
        seen |= here
        found = found.plus(
            _Found(
                reader.read(ours),
                () if all_of is not None else _deleted(store, dict(_keyed(ours)), here),
                tuple(task.id for task in page if task.key not in stored),
                max(task.updated_at for task in page),
            )
        )
    if all_of is not None:
        found = found.plus(_Found(deleted=_deleted(store, all_of, seen)))
    return found


def _keyed(ours: Iterable[tuple[StoredTask, RemoteTask]]) -> Iterable[tuple[str, StoredTask]]:
    return ((task.key, task) for task, _ in ours)


def _deleted(
    store: Store, tasks: Mapping[str, StoredTask], seen: set[tuple[str, int]]
) -> tuple[Notice, ...]:
    """The annotations of these tasks that were received and are no longer there.

    A desk that was set back gives the number of one annotation to another: `seen` holds them with
    the keys of their tasks.
    """
    detail = "deleted on the desk; what it decided stands"
    gone = {
        (annotation.remote_id, tasks[key].entity_id)
        for key, annotations in annotations_of(store, tasks).items()
        for annotation in annotations
        if (key, annotation.remote_id) not in seen
    }
    return tuple(
        Notice(entity_id=entity_id, annotation_id=remote_id, detail=detail)
        for remote_id, entity_id in sorted(gone)
    )


def _unclear(store: Store, queue: Queue) -> tuple[Notice, ...]:
    return tuple(
        Notice(entity_id=entity_id, annotation_id=remote_id, detail=problem)
        for entity_id, remote_id, problem in unclear_annotations(store, queue.name)
    )
