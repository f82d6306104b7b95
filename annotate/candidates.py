"""The entities that a queue has to decide on, and the decisions of its policy."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from annotate.queues import Auto, Queue, Required, Sample
from db.decisions import NewDecision, append_decisions, decided_under_other_policies
from db.entities import StoredEntity, children_of, count_entities, fetch, find, pages, parents_of
from db.store import Store
from schemas import proposals
from schemas.base import Record
from schemas.faithfulness import FaithfulnessReport
from schemas.provenance import Role
from schemas.quality import CaptionCheck

_PAGE = 500
_FLAGGED_KINDS: dict[str, type[proposals.Candidate | proposals.CaptionGroup]] = {
    record.kind: record for record in (proposals.Candidate, proposals.CaptionGroup)
}
"""Records that contain their own flags."""
_NO_REVIEW = "nobody looked"


class Candidate(NamedTuple):
    """A proposed entity, and whether its check flagged it.

    The check of a tracklet is the filter; candidates and groups of a contrastive benchmark contain
    their own flags. `doubts` are warnings, one sentence each.
    """

    entity: StoredEntity
    suspect: bool
    doubts: tuple[str, ...] = ()


def candidates(store: Store, queue: Queue) -> Iterator[Candidate]:
    """Iterate over the queue's proposed entities, oldest first; only checked ones if required."""
    for page in pages(proposed(store, queue), _PAGE):
        yield from _judged(store, queue, page)


def _judged(store: Store, queue: Queue, page: Sequence[StoredEntity]) -> Iterator[Candidate]:
    """Yield a candidate for each entity that can enter the queue now."""
    ids = [entity.id for entity in page]
    flagged = {} if queue.checked else latest_flags(store, ids)
    reports = newest_reports(store, ids) if queue.checked else {}
    for entity in page:
        flags = (*entity_flags(entity), *flagged.get(entity.id, ()))
        if not queue.checked:
            yield Candidate(entity, _may_show_several(entity) or bool(flags), flags)
        elif report := reports.get(entity.id):
            yield Candidate(entity, report.verdict == "suspect" or bool(flags), flags)


def proposed(store: Store, queue: Queue) -> Iterator[StoredEntity]:
    """Iterate over the proposed entities of the queue, checked or not, oldest first."""
    return _without_left_out(
        store, queue, find(store, queue.dataset, queue.kind, states=("proposed",))
    )


def count_proposed(store: Store, queue: Queue) -> int:
    """Return the number of entities in `proposed`."""
    if queue.left_out is None:
        return count_entities(store, queue.dataset, queue.kind, states=("proposed",))
    return sum(1 for _ in proposed(store, queue))


def _without_left_out(
    store: Store, queue: Queue, entities: Iterable[StoredEntity]
) -> Iterator[StoredEntity]:
    """Leave out entities that are decided in another queue."""
    for page in pages(entities, _PAGE):
        ids = [entity.id for entity in page]
        elsewhere = parents_of(store, ids, queue.left_out) if queue.left_out else {}
        yield from (entity for entity in page if entity.id not in elsewhere)


def _may_show_several(entity: StoredEntity) -> bool:
    """Return whether the filter suspects that a tracklet shows more than one person."""
    return entity.kind == proposals.Tracklet.kind and bool(
        entity.record(proposals.Tracklet).switches
    )


def entity_flags(entity: StoredEntity) -> tuple[str, ...]:
    """Return the flags in a record; empty for kinds without flags."""
    kind = _FLAGGED_KINDS.get(entity.kind)
    return () if kind is None else entity.record(kind).doubts


def latest_flags(store: Store, entity_ids: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the flags of each examined caption, from its last examination."""
    newest = _newest_children(store, entity_ids, Role.EXAMINES)
    return {entity_id: check.record(CaptionCheck).doubts for entity_id, check in newest.items()}


def newest_reports(store: Store, entity_ids: list[str]) -> dict[str, FaithfulnessReport]:
    """Return the report of the last check of each checked entity."""
    newest = _newest_children(store, entity_ids, Role.CHECKS)
    return {entity_id: check.record(FaithfulnessReport) for entity_id, check in newest.items()}


def _newest_children(store: Store, entity_ids: list[str], role: Role) -> dict[str, StoredEntity]:
    children = children_of(store, entity_ids, role)
    stored = fetch(store, {child for found in children.values() for child in found})
    return {
        entity_id: max((stored[child] for child in found), key=lambda child: child.seq)
        for entity_id, found in children.items()
    }


def needs_review(queue: Queue, candidate: Candidate) -> bool:
    """Return whether a person has to review the candidate."""
    match queue.policy:
        case Required():
            return True
        case Sample() as sample:
            marked = candidate.suspect and queue.marked_always
            return marked or sample.draws(candidate.entity.id)
        case Auto():
            return False


def decide_by_policy(queue: Queue, found: Iterable[Candidate]) -> list[NewDecision]:
    """Return the decisions on candidates without review; each states that there was no review."""
    return [
        NewDecision(
            candidate.entity.id,
            "reject" if candidate.suspect else "accept",
            queue.agent,
            f"{_NO_REVIEW} (policy {queue.policy}): {_check_result(queue, candidate)}",
        )
        for candidate in found
        if not needs_review(queue, candidate)
    ]


def _check_result(queue: Queue, candidate: Candidate) -> str:
    if candidate.doubts:
        more = len(candidate.doubts) - 1
        others = f" (and {more} more)" if more else ""
        return f"something speaks against it: {candidate.doubts[0]}{others}"
    if candidate.suspect and not queue.checked:
        if candidate.entity.kind == proposals.Tracklet.kind:
            return "the filter suspects that it shows more than one person"
        return "something speaks against it"
    if not queue.checked:
        return "there is no check"
    return f"the check found it {'suspect' if candidate.suspect else 'faithful'}"


def reopen_for_people(store: Store, queue: Queue) -> int:
    """Reopen entities that the gate decided but the policy now sends to people; return the number.

    Decisions of people, and those that the present policy leaves to the gate, are not changed.
    """
    if isinstance(queue.policy, Auto):
        return 0
    decided = decided_under_other_policies(
        store, queue.dataset, queue.kind, queue.agent.name, str(queue.policy), _NO_REVIEW
    )
    count = 0
    for page in pages(_without_left_out(store, queue, decided), _PAGE):
        asked = [one for one in _judged(store, queue, page) if needs_review(queue, one)]
        why = f"people are asked now (policy {queue.policy})"
        reopened = [NewDecision(one.entity.id, "reopen", queue.agent, why) for one in asked]
        with store.write() as connection:
            append_decisions(connection, reopened)
        count += len(reopened)
    return count


class FoundItem(Record):
    """An item of a queue found by `search_items`; `suspect` is None for decided items."""

    entity: str
    state: str
    split: str | None
    suspect: bool | None
    text: str


def search_items(
    store: Store,
    queue: Queue,
    words: str = "",
    states: Sequence[str] | None = None,
    *,
    suspect: bool | None = None,
) -> Iterator[FoundItem]:
    """Return items of a queue with `words` in their record (case-insensitive), oldest first.

    Args:
        store: the provenance store.
        queue: the queue of the items.
        words: the text to search for in records.
        states: only items in these states.
        suspect: only undecided items that their check flagged (True) or did not flag (False).
    """
    for page in pages(find(store, queue.dataset, queue.kind, states=states), _PAGE):
        flagged = {
            one.entity.id: one.suspect
            for one in _judged(store, queue, page)
            if one.entity.state == "proposed"
        }
        for entity in _without_left_out(store, queue, page):
            doubted = flagged.get(entity.id)
            if words.casefold() not in entity.payload.casefold():
                continue
            if suspect is None or doubted is suspect:
                text = json.loads(entity.payload).get("text", entity.payload)
                yield FoundItem(
                    entity=entity.id,
                    state=entity.state,
                    split=entity.split,
                    suspect=doubted,
                    text=str(text),
                )


BY_LEAD = "lead"
"""The policy under which a lead accepts items in bulk."""


def accept_items(store: Store, queue: Queue, entity_ids: Sequence[str], reason: str) -> int:
    """Accept undecided items as the lead of a queue; return their number."""
    agent = queue.agent._replace(revision=BY_LEAD)
    waiting = [one for one in fetch(store, entity_ids).values() if one.state == "proposed"]
    decisions = [NewDecision(one.id, "accept", agent, reason) for one in waiting]
    with store.write() as connection:
        append_decisions(connection, decisions)
    return len(decisions)


def apply_policy(store: Store, queue: Queue) -> int:
    """Apply the queue's policy and return the number of decided entities."""
    if isinstance(queue.policy, Required):
        return 0  # without loading items that wait for people
    count = 0
    for page in pages(list(candidates(store, queue)), _PAGE):
        decisions = decide_by_policy(queue, page)
        with store.write() as connection:
            append_decisions(connection, decisions)
        count += len(decisions)
    return count
