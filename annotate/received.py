"""Recognise, parse and store annotations from Label Studio, and decide by them."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from loupe.annotate.answers import Parsed, QuarantinedAnswer, ReviewAnswer, UnclearAnswer
from loupe.annotate.backend import RemoteAnnotation, RemoteTask
from loupe.annotate.decisions import (
    Answer,
    DecisionResolver,
    ReviewBatch,
    annotation_entity,
    load_shown,
)
from loupe.annotate.gold import drifting, enforce, is_right
from loupe.annotate.instructions import additions, instructions_of, instructions_version
from loupe.annotate.interfaces.page import adjudication_config, malformed, taken_answer
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import SHARED, Queue
from loupe.db.annotations import (
    AnnotationState,
    NewAnnotation,
    StoredAnnotation,
    annotations_numbered,
    annotations_of,
    entity_states,
    first_opinion,
    insert_annotations,
)
from loupe.db.entities import AgentRef, StoredEntity
from loupe.db.gold import NewCheck, gold_items, record_checks
from loupe.db.reviews import (
    WAITING,
    StoredTask,
    acquire_queue_lock,
    annotators,
    change_tasks,
    pseudonyms,
    tasks_by_key,
)
from loupe.db.store import Store
from loupe.db.work import register_plan
from loupe.schemas.base import Record, canonical_json, digest_of

VERSION = "3"
_REGION_FIELDS = ("from_name", "to_name", "type", "value")


class Notice(Record):
    """A message about one annotation."""

    entity_id: str
    annotation_id: int
    detail: str


class Reading(Record):
    """What was found in the annotations of some tasks, and the items that they decided.

    Attributes:
        accepted: new answers that accept.
        edited: new answers that edit the item.
        rejected: new answers that reject.
        known: answers that were received before.
        skipped: tasks that their assignees skipped; others get them.
        decided: items that are decided now, by the new answers or because fewer are needed.
        conflicts: items on which the new answers disagree; an adjudicator gets them.
        returned: revoked answers: their author's accuracy on gold items was too low.
        remarks: ambiguous answers and how they were interpreted.
        deleted: answers deleted in Label Studio; their decisions stay, as only a decision reverses
            a decision.
        late: answers about withdrawn entities.
        foreign: tasks that are not ours.
        on_desk: our tasks in Label Studio, if all were compared; the same applies to the following.
        adopted: tasks with an unknown place.
        duplicates: tasks that existed twice; the unanswered copy was removed.
        missing: entities whose open tasks are not in Label Studio; the next push sends them.
    """

    accepted: int = 0
    edited: int = 0
    rejected: int = 0
    known: int = 0
    skipped: int = 0
    decided: int = 0
    conflicts: int = 0
    returned: int = 0
    remarks: tuple[Notice, ...] = ()
    deleted: tuple[Notice, ...] = ()
    late: tuple[Notice, ...] = ()
    foreign: tuple[int, ...] = ()
    on_desk: int = 0
    adopted: int = 0
    duplicates: int = 0
    missing: tuple[str, ...] = ()

    @property
    def answers(self) -> int:
        """The number of new answers."""
        return self.accepted + self.edited + self.rejected

    def plus(self, other: "Reading") -> "Reading":
        """Return the sum of both."""
        theirs = dict(other)
        return Reading(**{name: mine + theirs[name] for name, mine in self})


class Received(NamedTuple):
    """An annotation of one of our tasks, ready to be parsed.

    `content` is the part that is stored. `problem` says why it cannot be parsed or must not count;
    a `quarantined` one is not the assignee's answer to this task.
    """

    key: str
    task: StoredTask
    agent: AgentRef
    content: dict[str, Any]
    remote: RemoteAnnotation
    opened_with: str
    problem: str = ""
    quarantined: bool = False

    def notice(self, detail: str) -> Notice:
        """Return a notice about the annotation."""
        return Notice(entity_id=self.task.entity_id, annotation_id=self.remote.id, detail=detail)


ParsedAnnotation = tuple[Received, Parsed]
"""A new annotation and its answer."""


class Reader:
    """Reads annotations of one queue and stores the new ones of a page in one transaction.

    The transaction includes the decisions, so that no answer is stored without them.
    """

    def __init__(
        self, store: Store, queue: Queue, server: str, code_revision: str, flow_run: str
    ) -> None:
        self._store = store
        self._queue = queue
        self._server = server
        self._interface = interface_of(queue)
        self._adjudication_config = adjudication_config(self._interface)
        self._colleagues = {one.pseudonym for one in annotators(store) if one.server == server}
        plan = {"queue": queue.name, "interface": queue.interface, "overlap": queue.overlap}
        plan_id = register_plan(store, "review", VERSION, plan)
        self._decider = DecisionResolver(queue, self._interface, plan_id, code_revision, flow_run)
        self._added = additions(store, queue)
        self._same = partial(self._interface.same, text_agreement=queue.text_agreement)

    def read(self, page: Sequence[tuple[StoredTask, RemoteTask]]) -> Reading:
        """Read the annotations of these tasks, and decide by the new ones."""
        before = annotations_of(self._store, [task.key for task, _ in page])
        reading = Reading()
        skipped: set[str] = set()
        new: list[Received] = []
        for received in self._received(page):
            task = received.task
            same = [one for one in before.get(task.key, ()) if one.remote_id == received.remote.id]
            if received.remote.cancelled and not received.quarantined:
                reading = reading.plus(_skip_effect(received, answered=bool(same)))
                if task.assignee != SHARED and task.state in WAITING:
                    skipped.add(task.key)  # others get it; in the own account it stays open
            elif _is_known(received, same):
                reading = reading.plus(Reading(known=1))
            else:
                new.append(received)
        if not new and not skipped:
            return reading
        return reading.plus(self._store_all(new, skipped))

    def judge_again(self) -> int:
        """Apply the present rule on gold answers; return how many answers are revoked."""
        with self._store.read() as connection:
            if not drifting(connection, self._queue):
                return 0
        with self._store.write() as connection:
            acquire_queue_lock(connection, self._queue.name)
            return self._enforce(connection)

    def decide_again(self, entity_ids: Sequence[str]) -> int:
        """Decide on items again by the answers that count now; return how many are decided."""
        shown = load_shown(self._store, entity_ids)
        with self._store.write() as connection:
            acquire_queue_lock(connection, self._queue.name)
            outcomes = self._decider.decide(connection, shown)
        return outcomes["agreed"] + outcomes["settled"]

    def _received(self, page: Sequence[tuple[StoredTask, RemoteTask]]) -> Iterator[Received]:
        """Return the annotations of these tasks, each task's oldest first: the last one counts."""
        remotes = [annotation for _, task in page for annotation in task.annotations]
        users = {user for one in remotes for user in (one.user_id, one.completed_by or one.user_id)}
        names = pseudonyms(self._store, self._server, users)
        elsewhere: dict[int, list[StoredAnnotation]] = defaultdict(list)
        numbers = sorted({one.id for one in remotes})
        for stored in annotations_numbered(self._store, self._server, numbers):
            elsewhere[stored.remote_id].append(stored)
        for task, remote_task in page:
            config = self._interface.config
            if task.purpose == "adjudication":
                config = self._adjudication_config
            settled = [one for one in remote_task.annotations if not one.held]
            for remote in sorted(settled, key=lambda one: (one.updated_at, one.id)):
                people = [names[remote.user_id], names[remote.completed_by or remote.user_id]]
                strange = self._assignee_problem(task, people)
                strange = strange or _moved_problem(task, remote, elsewhere[remote.id])
                problem = remote.fault or malformed(config, remote.result)
                agent = AgentRef("person", people[0])
                content = _content(remote, readable=not problem)
                yield Received(
                    _annotation_key(task, remote, agent, content),
                    task,
                    agent,
                    content,
                    remote,
                    remote_task.data.draft_id,
                    strange or problem,
                    quarantined=bool(strange),
                )

    def _assignee_problem(self, task: StoredTask, people: Sequence[str]) -> str:
        """Return why these people may not answer the task; "" if they may.

        People with their own workspaces may not answer in that of the installation.
        """
        strangers = self._colleagues if task.assignee == SHARED else {*people} - {task.assignee}
        others = sorted(strangers.intersection(people))
        if not others:
            return ""
        whose = "the shared workspace" if task.assignee == SHARED else task.assignee
        return f"made or changed by {' and '.join(others)}, but the task is for {whose} alone"

    def _store_all(self, new: Sequence[Received], skipped: set[str]) -> Reading:
        shown = load_shown(self._store, [received.task.entity_id for received in new])
        read = [
            (received, self._read(received, shown.entities[received.task.entity_id]))
            for received in new
        ]
        with self._store.write() as connection:
            acquire_queue_lock(connection, self._queue.name)
            states = entity_states(connection, shown.entities)
            stored = self._insert(connection, shown, read, states)
            _move(connection, read, skipped)
            returned = self._check_gold(connection, stored)
            asked = {one.task.entity_id for one in new if one.task.purpose != "audit"}
            items = {id_: entity for id_, entity in shown.entities.items() if id_ in asked}
            outcomes = self._decider.decide(connection, shown._replace(entities=items))
        reading = Reading(
            decided=outcomes["agreed"] + outcomes["settled"],
            conflicts=outcomes["conflict"],
            returned=returned,
        )
        return reading.plus(_tally(stored, states))

    def _read(self, received: Received, shown: StoredEntity) -> Parsed:
        if received.quarantined:
            return QuarantinedAnswer(problem=received.problem)
        if received.problem:
            return UnclearAnswer(problem=received.problem)
        regions = received.content["regions"]
        if received.task.purpose == "adjudication" and (key := taken_answer(regions)) is not None:
            given = first_opinion(self._store, self._queue.name, shown.id, key)
            if given is None:
                return UnclearAnswer(problem="the answer you took is not about this item")
            return ReviewAnswer.model_validate(given)
        answer = self._interface.read_annotation(regions, shown)
        if isinstance(answer, ReviewAnswer) and received.opened_with:
            return answer.model_copy(update={"opened_with": received.opened_with})
        return answer

    def _insert(
        self,
        connection: Connection,
        shown: ReviewBatch,
        read: Sequence[ParsedAnnotation],
        states: Mapping[str, str],
    ) -> list[ParsedAnnotation]:
        """Store annotations, and those with counted answers as entities; return the new ones."""
        made, annotations = [], []
        for received, answer in read:
            entity, agent = shown.entities[received.task.entity_id], received.agent
            counts = states[entity.id] != "withdrawn" and not received.task.gold
            moment = received.remote.updated_at
            if isinstance(answer, ReviewAnswer) and counts:
                source = annotation_entity(self._queue, entity, agent.name, answer)
                purpose = received.task.purpose
                made.append((Answer(agent.name, purpose, answer, received.key, moment), source))
            annotations.append(
                NewAnnotation(
                    key=received.key,
                    task=received.task,
                    agent=agent,
                    remote_id=received.remote.id,
                    result=received.content,
                    answer=answer.model_dump(mode="json"),
                    lead_time_seconds=received.remote.lead_time_seconds,
                    annotated_at=moment,
                    state=_state(answer),
                    instructions=self._instructions_at(received.task.purpose, moment),
                )
            )
        self._decider.store(connection, made)
        keys = {annotation.key for annotation in insert_annotations(connection, annotations)}
        return [(received, answer) for received, answer in read if received.key in keys]

    def _instructions_at(self, purpose: str, moment: datetime) -> str:
        """Return the digest of the instructions for a purpose at a time."""
        html = instructions_of(self._queue, purpose, self._added, moment)
        return instructions_version(html)

    def _check_gold(self, connection: Connection, stored: Sequence[ParsedAnnotation]) -> int:
        """Compare gold answers with the known ones; return how many answers are revoked."""
        gold = [
            (received, answer)
            for received, answer in stored
            if received.task.gold and isinstance(answer, ReviewAnswer)
        ]
        items = gold_items(connection, self._queue.name) if gold else {}
        known = {key: ReviewAnswer.model_validate(item.answer) for key, item in items.items()}
        checks = [
            NewCheck(
                received.key,
                self._queue.name,
                received.task.assignee,
                is_right(answer, known[received.task.entity_id], self._same),
                received.remote.updated_at,
            )
            for received, answer in gold
            if received.task.entity_id in known
        ]
        record_checks(connection, checks)
        return self._enforce(connection) if checks else 0

    def _enforce(self, connection: Connection) -> int:
        return sum(work.tasks for work in enforce(connection, self._queue, self._same).values())


def _move(connection: Connection, read: Sequence[ParsedAnnotation], skipped: set[str]) -> None:
    """Set the states of the tasks; a clear answer overrules all others."""
    answered = {received.task.key for received, _ in read}
    clear = {received.task.key for received, answer in read if isinstance(answer, ReviewAnswer)}
    tasks = tasks_by_key(connection, answered | skipped)  # they may have changed meanwhile
    returned = {key for key, task in tasks.items() if task.state == "returned"}
    waiting = {key for key, task in tasks.items() if task.state in WAITING}
    change_tasks(connection, clear - returned, state="answered")
    change_tasks(connection, (answered & waiting) - clear, state="unclear")
    change_tasks(connection, (skipped & waiting) - answered, state="skipped")


def _skip_effect(received: Received, *, answered: bool) -> Reading:
    """Return the effect of a skip; if the task was already assigned to others, it is known."""
    if received.task.assignee != SHARED and received.task.state not in (*WAITING, "answered"):
        return Reading(known=1)
    if received.task.state != "answered":
        return Reading(skipped=1)
    detail = "skipped after an answer, which still counts"
    return Reading(known=1, remarks=(received.notice(detail),) if answered else ())


def _moved_problem(
    task: StoredTask, remote: RemoteAnnotation, earlier: Sequence[StoredAnnotation]
) -> str:
    """Return why an annotation belongs to another task: it was there before. "" if it was not.

    A restored server reuses a number for an annotation that is created later than all with that
    number before.
    """
    for stored in earlier:
        older = remote.created_at is None or remote.created_at <= stored.annotated_at
        if stored.review_task_key != task.key and older:
            return f"it was an answer to another task before ({stored.review_task_key[:12]})"
    return ""


def _content(remote: RemoteAnnotation, *, readable: bool) -> dict[str, Any]:
    """Return the content of an annotation to store: its regions, or whatever came instead.

    The regions are stored without what Label Studio adds itself (its ids change at every save).
    """
    if not readable:
        unread = remote.result if isinstance(remote.result, str) else json.dumps(remote.result)
        return {"unread": ascii(unread)[1:-1] if not unread.isascii() else unread}
    regions = []
    for region in remote.result:
        kept = {field: region[field] for field in _REGION_FIELDS if field in region}
        regions.append(kept)
    return {"regions": sorted(regions, key=canonical_json)}


def _annotation_key(
    task: StoredTask, remote: RemoteAnnotation, agent: AgentRef, content: Mapping[str, Any]
) -> str:
    """The key includes the time of the change: answers A, then B, then A again, are three."""
    return digest_of(
        "annotation",
        task.key,
        str(remote.id),
        agent.id,
        canonical_json(content),
        remote.updated_at.isoformat(),
    )


def _is_known(received: Received, before: Sequence[StoredAnnotation]) -> bool:
    """Return whether it was received before, or was saved again since without a change.

    The former also covers a server that was restored from a backup.
    """
    if any(stored.key == received.key for stored in before):
        return True
    if not before:
        return False
    last = before[-1]
    return last.agent_id == received.agent.id and last.result == received.content


def _state(answer: Parsed) -> AnnotationState:
    if isinstance(answer, QuarantinedAnswer):
        return "quarantined"
    return "unclear" if isinstance(answer, UnclearAnswer) else "clear"


def _tally(stored: Sequence[ParsedAnnotation], states: Mapping[str, str]) -> Reading:
    reading = Reading()
    for received, answer in stored:
        if isinstance(answer, UnclearAnswer):
            if received.task.state == "answered" and not received.quarantined:
                detail = f"{answer.problem}; the clear answer before it still counts"
                reading = reading.plus(Reading(remarks=(received.notice(detail),)))
            # otherwise every pull reports it until it is corrected
        elif states[received.task.entity_id] == "withdrawn":
            late = received.notice("its entity was withdrawn before the answer came")
            reading = reading.plus(Reading(late=(late,)))
        else:
            counted = Reading(
                accepted=int(answer.verdict == "accept"),
                edited=int(answer.verdict == "edit"),
                rejected=int(answer.verdict == "reject"),
                remarks=(received.notice(answer.remark),) if answer.remark else (),
            )
            reading = reading.plus(counted)
    return reading
