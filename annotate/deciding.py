"""Turns answers into decisions, as soon as those about an item are enough to decide it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from annotate.answers import AnnotationRecord, ReviewAnswer, Verdict
from annotate.interfaces.registry import interface_of
from annotate.items import DESCRIBES, EDITED_FROM, INHERITED
from annotate.queues import Queue
from annotate.resolution import Answer, Outcome, resolve
from db.agents import AgentRef
from db.annotations import (
    ANNOTATED_BY,
    ANNOTATES,
    CountedAnswer,
    LastDecision,
    counted_answers,
    entity_states,
    last_decisions,
    standing_successors,
)
from db.decisions import RETIRED, NewDecision, append_decisions
from db.entities import NewEntity, StoredEntity, fetch, new_entity, parents_of
from db.store import Store
from db.work import ActivityRecord, store_activity


class Shown(NamedTuple):
    """Entities that people were asked about, with the parents that an edit of them inherits."""

    entities: Mapping[str, StoredEntity]
    inherited: Mapping[str, Sequence[tuple[str, str]]]


class Decided(NamedTuple):
    """How many items are decided by people, in conflict, and still waiting."""

    decided: int = 0
    conflicts: int = 0
    waiting: int = 0


class Made(NamedTuple):
    """What an answer made: an entity that takes the place of the one that was shown."""

    answer: Answer
    entity: NewEntity


def load_shown(store: Store, entity_ids: Iterable[str]) -> Shown:
    """The entities and what their edits inherit."""
    entities = fetch(store, set(entity_ids))
    inherited: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for role in INHERITED:
        for entity_id, parents in parents_of(store, entities, role).items():
            inherited[entity_id] += [(role, parent) for parent in parents]
    return Shown(entities, inherited)


def annotation_entity(
    queue: Queue, shown: StoredEntity, person: str, answer: ReviewAnswer
) -> NewEntity:
    """An answer as an entity."""
    record = AnnotationRecord(queue=queue.name, author=person, answer=answer)
    return new_entity(record, shown.dataset, parents=[(ANNOTATES, shown.id)], group=shown.group)


def outcomes(queue: Queue, answers: Mapping[str, Sequence[CountedAnswer]]) -> dict[str, Outcome]:
    """What the answers about each entity come to."""
    interface = interface_of(queue)
    same = partial(interface.same, text_agreement=queue.text_agreement)
    return {
        entity_id: resolve(
            [_answer(counted) for counted in found],
            queue.overlap,
            same,
            independent=interface.independent,
        )
        for entity_id, found in answers.items()
    }


def _answer(counted: CountedAnswer) -> Answer:
    return Answer(
        counted.person,
        counted.purpose,
        ReviewAnswer.model_validate(counted.answer),
        counted.annotation_key,
        counted.annotated_at,
    )


class Decider:
    """Decides on the items of one queue, within a transaction of the caller's.

    What it decides hangs on the answers alone, so that deciding again changes nothing. An item
    whose answers are no longer enough, or no longer agree, is open again. What was retired stays
    so; answers about it are kept, and count once it is proposed again.
    """

    def __init__(self, queue: Queue, plan_id: int, code_revision: str, flow_run: str) -> None:
        self._queue = queue
        self._interface = interface_of(queue)
        self._plan_id = plan_id
        self._code_revision = code_revision
        self._flow_run = flow_run

    def decide(self, connection: Connection, shown: Shown) -> Decided:
        """Decides on what was shown, as far as the answers go."""
        states = entity_states(connection, shown.entities)
        last = last_decisions(connection, states)
        live = [
            entity_id
            for entity_id, state in states.items()
            if state != "withdrawn" and not _retired(last.get(entity_id))
        ]
        answers = counted_answers(connection, self._queue.name, live)
        found = outcomes(self._queue, {entity_id: answers.get(entity_id, []) for entity_id in live})
        earlier = standing_successors(connection, live)
        decisions: list[NewDecision] = []
        for entity_id, outcome in found.items():
            before = earlier.get(entity_id, [])
            if outcome.standing:
                made = list(self._made(shown, entity_id, outcome))
                self.store(connection, [(one.answer, one.entity) for one in made])
                decisions += self._verdicts(entity_id, outcome, made, before)
            elif _decided_by_people(last.get(entity_id)):
                decisions += self._reopened(entity_id, outcome, before)
        append_decisions(connection, decisions)
        counts = Counter(outcome.state for outcome in found.values())
        return Decided(counts["agreed"] + counts["settled"], counts["conflict"], counts["waiting"])

    def store(self, connection: Connection, made: Iterable[tuple[Answer, NewEntity]]) -> None:
        """Stores entities as the work of those whose answers made them."""
        by_person: dict[tuple[str, str], list[tuple[datetime, NewEntity]]] = defaultdict(list)
        for answer, entity in made:
            by_person[answer.person, entity.dataset].append((answer.annotated_at, entity))
        for (person, dataset), work in by_person.items():
            activity = ActivityRecord(
                plan_id=self._plan_id,
                dataset=dataset,
                code_revision=self._code_revision,
                flow_run=self._flow_run,
                started_at=min(moment for moment, _ in work),
                agents=(AgentRef("person", person),),
            )
            store_activity(connection, activity, [entity for _, entity in work])

    def _made(self, shown: Shown, entity_id: str, outcome: Outcome) -> Iterator[Made]:
        entity = shown.entities[entity_id]
        role = DESCRIBES if self._interface.independent else EDITED_FROM
        for answer in outcome.standing:
            if answer.answer.verdict == "reject":
                continue
            source = annotation_entity(self._queue, entity, answer.person, answer.answer)
            draft = answer.answer.opened_with
            parents = [
                (role, entity_id),
                (ANNOTATED_BY, source.id),
                *([(EDITED_FROM, draft)] if draft else ()),
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
                yield Made(answer, made)

    def _verdicts(
        self, entity_id: str, outcome: Outcome, made: Sequence[Made], before: Sequence[str]
    ) -> Iterator[NewDecision]:
        """The verdict on what was shown, on what was made of it, and on what was made earlier."""
        kept = [answer for answer in outcome.standing if answer.answer.verdict != "reject"]
        answer = (kept or outcome.standing)[0]
        agent = AgentRef("person", answer.person)
        edits = answer.answer.verdict == "edit" and not self._interface.independent
        successor = made[0].entity.id if edits and made else None
        verdict: Verdict = "edit" if edits else "accept" if kept else "reject"
        reason = self._reason(outcome, answer.answer)
        yield NewDecision(entity_id, verdict, agent, reason, successor, answer.annotation_key)
        for one in made:
            author = AgentRef("person", one.answer.person)
            yield NewDecision(
                one.entity.id, "accept", author, reason, None, one.answer.annotation_key
            )
            if draft := one.answer.answer.opened_with:
                why = "a person's description began as it"
                yield NewDecision(
                    draft, "edit", author, why, one.entity.id, one.answer.annotation_key
                )
        stale = set(before) - {one.entity.id for one in made}
        for earlier in sorted(stale):
            yield NewDecision(
                earlier,
                "edit" if successor else "reject",
                agent,
                "the task was answered anew",
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

    def _reopened(
        self, entity_id: str, outcome: Outcome, before: Sequence[str]
    ) -> Iterator[NewDecision]:
        """People had decided, but changed their minds or are no longer counted."""
        why = {
            "waiting": "too few of the answers still count",
            "conflict": "the answers no longer agree",
        }[outcome.state]
        yield NewDecision(entity_id, "reopen", self._queue.agent, why)
        for earlier in before:
            yield NewDecision(earlier, "reject", self._queue.agent, why)


def _retired(last: LastDecision | None) -> bool:
    return last is not None and (last.verdict, last.reason) == ("reject", RETIRED)


def _decided_by_people(last: LastDecision | None) -> bool:
    return last is not None and last.annotation_key is not None
