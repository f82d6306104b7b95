"""Turn answers into decisions as soon as an item has enough of them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from loupe.annotate.answers import AnnotationRecord, ReviewAnswer, Verdict
from loupe.annotate.interfaces.page import Interface
from loupe.annotate.queues import Queue
from loupe.db.annotations import (
    GivenAnswer,
    counted_answers,
    decided_by_answers,
    entity_states,
    successors_of,
)
from loupe.db.decisions import append_decisions
from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    NewEntity,
    StoredEntity,
    fetch,
    new_entity,
    parents_of,
)
from loupe.db.plugin_agents import plugin_agents
from loupe.db.store import Store
from loupe.db.work import store_activity
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import Role

# The outcome of the answers about one item: waiting, agreed, in conflict, or settled.


class Answer(NamedTuple):
    """An answer that counts; `person` is the pseudonym of its author."""

    person: str
    purpose: str
    answer: ReviewAnswer
    annotation_key: str
    annotated_at: datetime


class Outcome(NamedTuple):
    """The outcome of the answers about an item.

    `deciding` are the answers that decide: none while the item waits or is in conflict, one if
    people agree or an adjudicator settled it, all if the answers are independent.
    """

    state: Literal["waiting", "agreed", "conflict", "settled"]
    deciding: tuple[Answer, ...] = ()


def resolve(
    answers: Sequence[Answer],
    overlap: int,
    same: Callable[[ReviewAnswer, ReviewAnswer], bool],
    *,
    independent: bool,
) -> Outcome:
    """Return the outcome of the answers about one item; their order does not matter.

    An adjudicator's latest answer overrules all others. Only a person's latest answer counts. With
    fewer than `overlap` people the item waits. If all agree with the first answer, the first one
    decides, as it cannot be a copy of another.

    Args:
        answers: the answers that count, one per task.
        overlap: how many people have to answer.
        same: whether two answers agree.
        independent: whether each answer is a separate result, so that none can conflict.
    """
    in_order = sorted(answers, key=_by_time)
    if settled := [answer for answer in in_order if answer.purpose == "adjudication"]:
        return Outcome("settled", (settled[-1],))
    by_person = {answer.person: answer for answer in in_order if answer.purpose == "review"}
    opinions = sorted(by_person.values(), key=_by_time)
    if len(opinions) < overlap:
        return Outcome("waiting")
    if independent:
        return Outcome("agreed", tuple(opinions))
    first = opinions[0]
    if all(same(first.answer, other.answer) for other in opinions[1:]):
        return Outcome("agreed", (first,))
    return Outcome("conflict")


def _by_time(answer: Answer) -> tuple[datetime, str]:
    return (answer.annotated_at, answer.annotation_key)


# Turn answers into decisions as soon as an item has enough of them.


_INHERITED = (Role.REWRITE_OF, Role.DESCRIBES, Role.DERIVED_FROM)
"""The roles of parents that an edit inherits from the edited entity."""


class ReviewBatch(NamedTuple):
    """Entities that people were asked about, with the parents that their edits inherit."""

    entities: Mapping[str, StoredEntity]
    inherited: Mapping[str, Sequence[tuple[str, str]]]


def load_shown(store: Store, entity_ids: Iterable[str]) -> ReviewBatch:
    """Load the entities and the parents that their edits inherit."""
    entities = fetch(store, set(entity_ids))
    inherited: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for role in _INHERITED:
        for entity_id, parents in parents_of(store, entities, role).items():
            inherited[entity_id] += [(role, parent) for parent in parents]
    return ReviewBatch(entities, inherited)


def annotation_entity(
    queue: Queue, shown: StoredEntity, person: str, answer: ReviewAnswer
) -> NewEntity:
    """Return an answer as an entity."""
    record = AnnotationRecord(queue=queue.name, author=person, answer=answer)
    return new_entity(
        record, shown.dataset, parents=[(Role.ANNOTATES, shown.id)], group=shown.group
    )


def outcomes(
    queue: Queue, interface: Interface, answers: Mapping[str, Sequence[GivenAnswer]]
) -> dict[str, Outcome]:
    """Return the outcome of the answers about each entity."""
    same = partial(interface.same, text_agreement=queue.text_agreement)
    resolved = {}
    for entity_id, found in answers.items():
        given = [
            Answer(
                one.person,
                one.purpose,
                ReviewAnswer.model_validate(one.answer),
                one.annotation_key,
                one.annotated_at,
            )
            for one in found
        ]
        resolved[entity_id] = resolve(given, queue.overlap, same, independent=interface.independent)
    return resolved


_REOPENED = {
    "waiting": "too few of the answers still count",
    "conflict": "the answers no longer agree",
}
"""Why an item that people had decided is reopened, by the outcome of the answers."""


class DecisionResolver:
    """Decides on the items of one queue, within a transaction of the caller.

    The decisions depend only on the answers, so that deciding again changes nothing. An item is
    reopened if its answers are no longer enough or no longer agree. An inactive item that people
    answered again is also reopened: its answers count once it is active.
    """

    def __init__(
        self, queue: Queue, interface: Interface, plan_id: int, code_revision: str, flow_run: str
    ) -> None:
        self._queue = queue
        self._interface = interface
        self._page = plugin_agents("pages", queue.interface)
        self._plan_id = plan_id
        self._code_revision = code_revision
        self._flow_run = flow_run

    def decide(self, connection: Connection, shown: ReviewBatch) -> Counter[str]:
        """Decide on the shown items as far as the answers allow; return the counts of outcomes."""
        states = entity_states(connection, shown.entities)
        by_answers = decided_by_answers(connection, states)
        live = [entity_id for entity_id, state in states.items() if state != "withdrawn"]
        answers = counted_answers(connection, self._queue.name, live)
        given = {entity_id: answers.get(entity_id, []) for entity_id in live}
        found = outcomes(self._queue, self._interface, given)
        earlier = successors_of(connection, live)
        decisions: list[NewDecision] = []
        for entity_id, outcome in found.items():
            before = earlier.get(entity_id, [])
            if states[entity_id] == "inactive":
                if entity_id in by_answers:
                    decisions += self._reopened(entity_id, "answered while inactive", before)
            elif outcome.deciding:
                made = list(self._made(shown, entity_id, outcome))
                self.store(connection, made)
                decisions += self._verdicts(entity_id, outcome, made, before)
            elif entity_id in by_answers:
                decisions += self._reopened(entity_id, _REOPENED[outcome.state], before)
        append_decisions(connection, decisions)
        return Counter(outcome.state for outcome in found.values())

    def store(self, connection: Connection, made: Iterable[tuple[Answer, NewEntity]]) -> None:
        """Store entities as the work of the people whose answers they come from."""
        by_person = grouped(
            ((answer.person, entity.dataset), (answer.annotated_at, entity))
            for answer, entity in made
        )
        for (person, dataset), work in by_person.items():
            activity = ActivityRecord(
                plan_id=self._plan_id,
                dataset=dataset,
                code_revision=self._code_revision,
                flow_run=self._flow_run,
                started_at=min(moment for moment, _ in work),
                agents=(AgentRef("person", person), *self._page),
            )
            store_activity(connection, activity, [entity for _, entity in work])

    def _made(
        self, shown: ReviewBatch, entity_id: str, outcome: Outcome
    ) -> Iterator[tuple[Answer, NewEntity]]:
        """Return the entities made from the answers, which replace the one that was shown."""
        entity = shown.entities[entity_id]
        role = Role.DESCRIBES if self._interface.independent else Role.EDITED_FROM
        for answer in outcome.deciding:
            if answer.answer.verdict == "reject":
                continue
            source = annotation_entity(self._queue, entity, answer.person, answer.answer)
            draft = answer.answer.opened_with
            parents = [
                (role, entity_id),
                (Role.ANNOTATED_BY, source.id),
                *([(Role.EDITED_FROM, draft)] if draft else ()),
                *shown.inherited.get(entity_id, ()),
            ]
            for record in self._interface.successors(entity, answer.answer, answer.person):
                made = new_entity(
                    record,
                    entity.dataset,
                    parents=parents,
                    split=entity.split,
                    group=entity.group or entity.id,
                )
                yield answer, made

    def _verdicts(
        self,
        entity_id: str,
        outcome: Outcome,
        made: Sequence[tuple[Answer, NewEntity]],
        before: Sequence[str],
    ) -> Iterator[NewDecision]:
        """Return decisions on the shown entity and on its new and earlier successors."""
        kept = [answer for answer in outcome.deciding if answer.answer.verdict != "reject"]
        answer = (kept or outcome.deciding)[0]
        agent = AgentRef("person", answer.person)
        edits = answer.answer.verdict == "edit" and not self._interface.independent
        successor = made[0][1].id if edits and made else None
        verdict: Verdict = "edit" if edits else "accept" if kept else "reject"
        reason = self._reason(outcome, answer.answer)
        yield NewDecision(entity_id, verdict, agent, reason, successor, answer.annotation_key)
        for its_answer, entity in made:
            author = AgentRef("person", its_answer.person)
            key = its_answer.annotation_key
            yield NewDecision(entity.id, "accept", author, reason, None, key)
            if draft := its_answer.answer.opened_with:
                why = "a person edited it into their description"
                yield NewDecision(draft, "edit", author, why, entity.id, key)
        stale = set(before) - {entity.id for _, entity in made}
        for earlier in sorted(stale):
            yield NewDecision(
                earlier,
                "edit" if successor else "reject",
                agent,
                "the task was answered again",
                successor,
                answer.annotation_key,
            )

    def _reason(self, outcome: Outcome, answer: ReviewAnswer) -> str:
        said = answer.reason or answer.remark
        how = ""
        if outcome.state == "settled":
            how = "settled by an adjudicator"
        elif self._queue.overlap > 1:
            how = f"{self._queue.overlap} people answered"
        return ": ".join(part for part in (how, said) if part)

    def _reopened(self, entity_id: str, why: str, before: Sequence[str]) -> Iterator[NewDecision]:
        """Reopen an item because people changed their minds or no longer count."""
        yield NewDecision(entity_id, "reopen", self._queue.agent, why)
        for earlier in before:
            yield NewDecision(earlier, "reject", self._queue.agent, why)
