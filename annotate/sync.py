"""The exchange with a review desk: push what waits for people, pull what they said, compare both.

Each can be repeated, or killed, at any moment. A task carries our own key in its data, so that what
is on the desk is recognised whoever put it there and however the answer got lost; an annotation is
known by its content. What the desk notifies is a hint at most: every push and pull looks for
itself.
"""

import time
from collections.abc import Mapping, Sequence
from itertools import count

from annotate.desk import DeskUnavailableError, NewTask, ReviewDesk
from annotate.interfaces.registry import interface_of
from annotate.queues import Queue, candidates, goes_to_people
from annotate.received import Notice, Reader, Reading
from annotate.standing import settle
from db.entities import fetch, pages
from db.reviews import StoredTask, annotations_of, announce_tasks, review_tasks
from db.store import Store
from schemas.base import Record
from schemas.errors import ServiceError

PUSH_ATTEMPTS = 4
_PAUSE_SECONDS = 0.5
_PAGE = 500


class PushReport(Record):
    """What a push did: `pushed` tasks are new on the desk, `known` ones were there before.

    `duplicates` were there twice and are there once now. `project_id` is None where nothing waits.
    """

    queue: str
    project_id: int | None = None
    pushed: int = 0
    known: int = 0
    duplicates: int = 0


class PullReport(Record):
    """What a pull found, in annotations.

    `accepted`, `edited` and `rejected` ones are new decisions, `known` ones were received before,
    `skipped` ones decide nothing. `unclear` ones are no answer: their tasks stay open. `remarks`
    tell of answers that were understood otherwise than their form says. `deleted` ones are gone
    from the desk, but what they decided stands: only a decision undoes a decision. `too_late` ones
    are about something that was withdrawn meanwhile. `foreign` tasks are none of ours.
    """

    queue: str
    project_id: int | None = None
    accepted: int = 0
    edited: int = 0
    rejected: int = 0
    known: int = 0
    skipped: int = 0
    unclear: tuple[Notice, ...] = ()
    remarks: tuple[Notice, ...] = ()
    deleted: tuple[Notice, ...] = ()
    too_late: tuple[Notice, ...] = ()
    foreign: tuple[int, ...] = ()


class ReconcileReport(Record):
    """How store and desk compare.

    `adopted` tasks were on the desk without our knowing where; `missing` ones are open here, but
    not on the desk: the next push sends them. `duplicates` were removed from the desk, `foreign`
    ones there are none of ours.
    """

    queue: str
    project_id: int | None = None
    on_desk: int = 0
    adopted: int = 0
    missing: tuple[str, ...] = ()
    duplicates: int = 0
    foreign: tuple[int, ...] = ()


def push(store: Store, desk: ReviewDesk, queue: Queue, images_url: str) -> PushReport:
    """Sends to the desk what waits in the queue for a person and is not there yet.

    Args:
        store: the provenance store.
        desk: where people answer.
        queue: which entities, and which of them go to people.
        images_url: where the annotator's browser finds an image: `<images_url>/<sha256>`.

    Raises:
        ServiceError: the desk refuses, or stays unavailable.
    """
    wanted = _wanted_tasks(store, desk, queue)
    if not wanted:
        return PushReport(queue=queue.name)
    project_id = desk.ensure_project(queue, interface_of(queue))
    # Announced before they are sent: their images are served from the moment they are seen.
    announce_tasks(store, [task._replace(project_id=project_id) for task in wanted.values()])
    stored = review_tasks(store, queue.name)
    standing = settle(store, desk, project_id, stored)
    known = sum(key in standing.there for key in wanted)
    duplicates = standing.duplicates
    fault: DeskUnavailableError | None = None
    for attempt in count(1):
        absent = [task for key, task in wanted.items() if key not in standing.there]
        if not absent:
            break
        if attempt > PUSH_ATTEMPTS:
            raise ServiceError(
                f"{len(absent)} tasks of queue {queue.name} are not at {desk.url} after "
                f"{PUSH_ATTEMPTS} attempts; the next push goes on ({fault or 'no fault was told'})"
            ) from fault
        fault = _send(store, desk, queue, project_id, absent, images_url)
        standing = settle(store, desk, project_id, stored)
        duplicates += standing.duplicates
    return PushReport(
        queue=queue.name,
        project_id=project_id,
        pushed=len(wanted) - known,
        known=known,
        duplicates=duplicates,
    )


def _wanted_tasks(store: Store, desk: ReviewDesk, queue: Queue) -> dict[str, StoredTask]:
    keys = {
        queue.task_key(candidate.entity.id): candidate.entity.id
        for candidate in candidates(store, queue)
        if goes_to_people(queue, candidate)
    }
    return {
        key: StoredTask(key, queue.name, entity_id, desk.url, 0, None, "open")
        for key, entity_id in keys.items()
    }


def _send(
    store: Store,
    desk: ReviewDesk,
    queue: Queue,
    project_id: int,
    tasks: Sequence[StoredTask],
    images_url: str,
) -> DeskUnavailableError | None:
    """Imports tasks; gives the fault after which it is not known whether they are there."""
    interface = interface_of(queue)
    for page in pages(tasks, _PAGE):
        stored = fetch(store, [task.entity_id for task in page])
        contents = interface.contents(store, [stored[task.entity_id] for task in page], images_url)
        new = [
            NewTask(task.key, {**content.data, "key": task.key}, content.predictions)
            for task, content in zip(page, contents, strict=True)
        ]
        try:
            desk.import_tasks(project_id, new)
        except DeskUnavailableError as error:
            time.sleep(_PAUSE_SECONDS)
            return error
    return None


def pull(
    store: Store, desk: ReviewDesk, queue: Queue, code_revision: str = "", flow_run: str = ""
) -> PullReport:
    """Turns what people answered into decisions, those of a page in one transaction.

    Args:
        store: the provenance store.
        desk: where people answer.
        queue: whose tasks.
        code_revision: the revision of our code, for provenance.
        flow_run: the flow run in which this happens, for provenance.

    Raises:
        ServiceError: the desk refuses, or stays unavailable.
    """
    project_id = desk.find_project(queue)
    if project_id is None:
        return PullReport(queue=queue.name)
    stored = review_tasks(store, queue.name)
    reader = Reader(store, queue, desk.url, code_revision, flow_run)
    reading = Reading()
    foreign: list[int] = []
    seen: set[int] = set()
    for page in pages(desk.list_tasks(project_id), _PAGE):
        seen.update(annotation.id for task in page for annotation in task.annotations)
        foreign += [task.id for task in page if task.key not in stored]
        ours = [(stored[task.key], task) for task in page if task.key in stored]
        reading = reading.plus(reader.read(ours))
    return PullReport(
        queue=queue.name,
        project_id=project_id,
        foreign=tuple(foreign),
        deleted=_deleted(store, desk, stored, seen),
        **reading._asdict(),
    )


def _deleted(
    store: Store, desk: ReviewDesk, stored: Mapping[str, StoredTask], seen: set[int]
) -> tuple[Notice, ...]:
    """The annotations that were received from this desk and are no longer on it."""
    answered = [task.key for task in stored.values() if task.server == desk.url]
    gone = {
        annotation.remote_id: stored[key].entity_id
        for key, annotations in annotations_of(store, answered).items()
        for annotation in annotations
        if annotation.remote_id not in seen
    }
    detail = "deleted on the desk; what it decided stands"
    return tuple(
        Notice(entity_id=entity_id, annotation_id=remote_id, detail=detail)
        for remote_id, entity_id in sorted(gone.items())
    )


def reconcile(store: Store, desk: ReviewDesk, queue: Queue) -> ReconcileReport:
    """Compares the tasks in the store with those on the desk, and mends what can be mended here.

    Raises:
        ServiceError: the desk refuses, or stays unavailable.
    """
    stored = review_tasks(store, queue.name)
    project_id = desk.find_project(queue)
    if project_id is None:
        missing = tuple(task.entity_id for task in stored.values() if task.state == "open")
        return ReconcileReport(queue=queue.name, missing=missing)
    standing = settle(store, desk, project_id, stored)
    return ReconcileReport(
        queue=queue.name,
        project_id=project_id,
        on_desk=len(standing.there),
        adopted=standing.adopted,
        missing=tuple(
            task.entity_id
            for task in stored.values()
            if task.state == "open" and task.key not in standing.there
        ),
        duplicates=standing.duplicates,
        foreign=standing.foreign,
    )
