"""Annotations as they come back from the desk: recognised, read, and turned into decisions."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from annotate.answers import AnnotationRecord, ReviewAnswer, UnclearAnswer
from annotate.desk import RemoteAnnotation, RemoteTask
from annotate.interfaces.registry import interface_of
from annotate.items import ANNOTATED_BY, EDITED_FROM, REWRITE_OF
from annotate.queues import Queue
from db.agents import AgentRef
from db.entities import NewEntity, StoredEntity, fetch, new_entity, parents_of
from db.reviews import (
    NewReview,
    StoredAnnotation,
    StoredTask,
    annotations_of,
    pseudonyms,
    record_reviews,
)
from db.store import Store
from db.work import ActivityRecord, register_plan
from schemas.base import Record, canonical_json, digest_of

VERSION = "1"
_REGION_FIELDS = ("from_name", "to_name", "type", "value")


class Notice(Record):
    """Something about one annotation that people should know."""

    entity_id: str
    annotation_id: int
    detail: str


class Reading(NamedTuple):
    """What was found in the annotations of some tasks; `PullReport` explains the words."""

    accepted: int = 0
    edited: int = 0
    rejected: int = 0
    known: int = 0
    skipped: int = 0
    unclear: tuple[Notice, ...] = ()
    remarks: tuple[Notice, ...] = ()
    too_late: tuple[Notice, ...] = ()

    def plus(self, other: "Reading") -> "Reading":
        """Both together."""
        pairs: zip[tuple[Any, Any]] = zip(self, other, strict=True)
        return Reading._make(mine + theirs for mine, theirs in pairs)


class Received(NamedTuple):
    """An annotation of ours, with what is needed to read it."""

    key: str
    task: StoredTask
    shown: StoredEntity
    agent: AgentRef
    regions: list[dict[str, Any]]
    remote: RemoteAnnotation

    def notice(self, detail: str) -> Notice:
        """A notice about it."""
        return Notice(entity_id=self.shown.id, annotation_id=self.remote.id, detail=detail)


class Reader:
    """Reads annotations of one queue and stores what is new in them, a page in one transaction."""

    def __init__(
        self, store: Store, queue: Queue, server: str, code_revision: str, flow_run: str
    ) -> None:
        self._store = store
        self._queue = queue
        self._server = server
        self._interface = interface_of(queue)
        self._code_revision = code_revision
        self._flow_run = flow_run
        self._plan_id = register_plan(
            store, "review", VERSION, {"queue": queue.name, "interface": queue.interface}
        )

    def read(self, page: Sequence[tuple[StoredTask, RemoteTask]]) -> Reading:
        """What the annotations of these tasks say; what is new in them is decided now."""
        before = annotations_of(self._store, [task.key for task, _ in page])
        captions = parents_of(self._store, [task.entity_id for task, _ in page], REWRITE_OF)
        reading = Reading()
        reviews: list[tuple[NewReview, Received]] = []
        for received in self._received(page):
            found = self._read_one(received, before.get(received.task.key, ()), captions)
            if isinstance(found, NewReview):
                reviews.append((found, received))
            else:
                reading = reading.plus(found)
        too_late = set(record_reviews(self._store, [review for review, _ in reviews]))
        return reading.plus(_tally(reviews, too_late))

    def _received(self, page: Sequence[tuple[StoredTask, RemoteTask]]) -> Iterator[Received]:
        """The annotations of these tasks, each task's oldest first: the last one decides."""
        users = [annotation.user_id for _, task in page for annotation in task.annotations]
        names = pseudonyms(self._store, self._server, users)
        shown = fetch(self._store, [task.entity_id for task, _ in page])
        for task, remote_task in page:
            for remote in sorted(remote_task.annotations, key=_by_time):
                agent = AgentRef("person", names[remote.user_id])
                regions = _content(remote)
                key = _annotation_key(task, remote, agent, regions)
                yield Received(key, task, shown[task.entity_id], agent, regions, remote)

    def _read_one(
        self,
        received: Received,
        before: Sequence[StoredAnnotation],
        captions: Mapping[str, Sequence[str]],
    ) -> NewReview | Reading:
        same = [stored for stored in before if stored.remote_id == received.remote.id]
        if received.remote.cancelled:
            retracted = received.notice("skipped after it had been answered; the answer stands")
            return Reading(skipped=1, remarks=(retracted,) if same else ())
        if _is_known(received, same):
            return Reading(known=1)
        answer = self._interface.read_annotation(received.regions, received.shown)
        if isinstance(answer, UnclearAnswer):
            return Reading(unclear=(received.notice(answer.problem),))
        return self._review(received, answer, captions.get(received.shown.id, ()))

    def _review(
        self, received: Received, answer: ReviewAnswer, captions: Sequence[str]
    ) -> NewReview:
        remote = received.remote
        annotation, successor = self._entities(received, answer, captions)
        started_at = remote.updated_at - timedelta(seconds=remote.lead_time_seconds or 0)
        return NewReview(
            key=received.key,
            task=received.task,
            activity=ActivityRecord(
                plan_id=self._plan_id,
                dataset=received.shown.dataset,
                code_revision=self._code_revision,
                flow_run=self._flow_run,
                started_at=started_at,
                agents=(received.agent,),
            ),
            agent=received.agent,
            remote_id=remote.id,
            result={"regions": received.regions},
            lead_time_seconds=remote.lead_time_seconds,
            annotated_at=remote.updated_at,
            verdict=answer.verdict,
            reason=answer.reason or answer.remark,
            entities=(annotation,) if successor is None else (annotation, successor),
            successor=successor,
        )

    def _entities(
        self, received: Received, answer: ReviewAnswer, captions: Sequence[str]
    ) -> tuple[NewEntity, NewEntity | None]:
        """The annotation and, for an edit, the entity that takes the place of what was shown."""
        shown, author = received.shown, received.agent.name
        record = AnnotationRecord(
            queue=self._queue.name,
            author=author,
            verdict=answer.verdict,
            text=answer.text,
            reason=answer.reason,
        )
        annotation = new_entity(
            record, shown.dataset, parents=[("annotates", shown.id)], group=shown.group
        )
        if answer.verdict != "edit":
            return annotation, None
        parents = [
            (EDITED_FROM, shown.id),
            (ANNOTATED_BY, annotation.id),
            *((REWRITE_OF, caption) for caption in captions),
        ]
        edited = self._interface.edited(shown, answer.text, author)
        return annotation, new_entity(
            edited, shown.dataset, parents=parents, split=shown.split, group=shown.group
        )


def _by_time(remote: RemoteAnnotation) -> tuple[Any, int]:
    return (remote.updated_at, remote.id)


def _content(remote: RemoteAnnotation) -> list[dict[str, Any]]:
    """The regions without what Label Studio adds for itself (its ids change at every save)."""
    regions = [
        {field: region[field] for field in _REGION_FIELDS if field in region}
        for region in remote.result
    ]
    return sorted(regions, key=canonical_json)


def _annotation_key(
    task: StoredTask, remote: RemoteAnnotation, agent: AgentRef, regions: list[dict[str, Any]]
) -> str:
    """Holds the time of the change: who says A, then B, then A again has said three things."""
    return digest_of(
        "annotation",
        task.key,
        str(remote.id),
        agent.id,
        canonical_json(regions),
        remote.updated_at.isoformat(),
    )


def _is_known(received: Received, before: Sequence[StoredAnnotation]) -> bool:
    """Whether it was received before, or was saved again since without a change.

    The first covers a server that was set back to an older state, too.
    """
    if any(stored.key == received.key for stored in before):
        return True
    if not before:
        return False
    last = before[-1]
    content = {"regions": received.regions}
    return last.agent_id == received.agent.id and last.result == content


def _tally(reviews: Sequence[tuple[NewReview, Received]], too_late: set[str]) -> Reading:
    reading = Reading()
    for review, received in reviews:
        if review.key in too_late:
            late = received.notice("what it is about was withdrawn before the answer came")
            reading = reading.plus(Reading(too_late=(late,)))
            continue
        remark = "" if review.verdict == "reject" else review.reason
        counted = Reading(
            accepted=int(review.verdict == "accept"),
            edited=int(review.verdict == "edit"),
            rejected=int(review.verdict == "reject"),
            remarks=(received.notice(remark),) if remark else (),
        )
        reading = reading.plus(counted)
    return reading
