"""Review queues: which entities people look at, and which a policy decides without them."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from db.agents import AgentRef
from db.decisions import NewDecision, append_decisions
from db.entities import StoredEntity, children_of, fetch, find, pages
from db.store import Store
from schemas.base import Record, digest_of
from schemas.errors import UsageError
from schemas.faithfulness import FaithfulnessReport
from schemas.records import Rewrite

CHECKS = "checks"
"""The role in which an entity stands to the report of its check."""

_REWRITES = "-rewrites"
_DIGEST_RANGE = 1 << 128
_PAGE = 500


class Required(Record):
    """People look at every entity."""

    policy: Literal["required"] = "required"

    def __str__(self) -> str:
        return self.policy


class Sample(Record):
    """People look at a share of what the checks found faithful, and at all that they suspect.

    The draw hangs on each entity's id and `seed` alone: neither order nor what else is in the
    queue changes it.
    """

    policy: Literal["sample"] = "sample"
    rate: float = Field(ge=0, le=1)
    seed: int = 0

    def draws(self, entity_id: str) -> bool:
        """Whether the entity is in the sample."""
        digest = digest_of("sample", str(self.seed), entity_id)
        return int(digest, 16) < self.rate * _DIGEST_RANGE

    def __str__(self) -> str:
        return f"sample:{self.rate:g}:{self.seed}"


class Auto(Record):
    """Nobody looks: what the checks found faithful is accepted, what they suspect is rejected."""

    policy: Literal["auto"] = "auto"

    def __str__(self) -> str:
        return self.policy


Policy = Annotated[Required | Sample | Auto, Field(discriminator="policy")]


class Queue(Record):
    """A review queue: the entities of one kind in one dataset, shown in one interface.

    With `marked_always`, what the checks suspect goes to people under `sample` too, whatever the
    rate; without, a suspect that is not drawn is rejected.
    """

    name: str
    dataset: str
    kind: str
    interface: str
    policy: Policy = Required()
    marked_always: bool = True

    @property
    def agent(self) -> AgentRef:
        """Who decides where the policy does."""
        return AgentRef("software", f"gate:{self.name}", str(self.policy))

    def task_key(self, entity_id: str) -> str:
        """The key of the review task for an entity, the same for every push."""
        return digest_of("review-task", self.name, entity_id)


class Candidate(NamedTuple):
    """A proposed entity that was checked, and whether the check suspects it."""

    entity: StoredEntity
    suspect: bool


def rewrite_queue(dataset: str, policy: Policy | None = None) -> Queue:
    """The queue in which the rewritten descriptions of a dataset are reviewed."""
    return Queue(
        name=dataset + _REWRITES,
        dataset=dataset,
        kind=Rewrite.kind,
        interface="rewrite-revision",
        policy=policy or Required(),
    )


def queue_named(name: str) -> Queue:
    """The queue with that name.

    Raises:
        UsageError: no queue is named so.
    """
    if not name.endswith(_REWRITES) or name == _REWRITES:
        raise UsageError(
            f"a queue is named after its dataset, like 'ufine3c{_REWRITES}'; got {name!r}"
        )
    return rewrite_queue(name.removesuffix(_REWRITES))


def parse_policy(text: str) -> Policy:
    """The policy that `text` names: `required`, `auto`, `sample:RATE` or `sample:RATE:SEED`.

    Raises:
        UsageError: it names none.
    """
    matched = re.fullmatch(r"(\w+)(?::([^:]+))?(?::([^:]+))?", text)
    names = ("policy", "rate", "seed")
    given = zip(names, matched.groups(), strict=True) if matched else ()
    try:
        adapter: TypeAdapter[Policy] = TypeAdapter(Policy)
        return adapter.validate_python({name: value for name, value in given if value is not None})
    except ValidationError as error:
        raise UsageError(
            "a policy must be 'required', 'auto', 'sample:RATE' or 'sample:RATE:SEED' with a rate "
            f"from 0 to 1; got {text!r}"
        ) from error


def candidates(store: Store, queue: Queue) -> Iterator[Candidate]:
    """What the queue has to decide on: its proposed entities that were checked, oldest first."""
    for page in pages(find(store, queue.dataset, queue.kind, states=("proposed",)), _PAGE):
        reports = newest_reports(store, [entity.id for entity in page])
        for entity in page:
            if entity.id in reports:
                yield Candidate(entity, reports[entity.id].verdict == "suspect")


def newest_reports(store: Store, entity_ids: list[str]) -> dict[str, FaithfulnessReport]:
    """For each entity that was checked the report of its last check."""
    checks = children_of(store, entity_ids, CHECKS)
    stored = fetch(store, {check for found in checks.values() for check in found})
    return {
        entity_id: max((stored[check] for check in found), key=lambda check: check.seq).record(
            FaithfulnessReport
        )
        for entity_id, found in checks.items()
    }


def goes_to_people(queue: Queue, candidate: Candidate) -> bool:
    """Whether a person has to look at the candidate."""
    match queue.policy:
        case Required():
            return True
        case Sample() as sample:
            marked = candidate.suspect and queue.marked_always
            return marked or sample.draws(candidate.entity.id)
        case Auto():
            return False


def decide_by_policy(queue: Queue, found: Iterable[Candidate]) -> list[NewDecision]:
    """The decisions on those candidates that nobody has to look at; each says that nobody did."""
    return [
        NewDecision(
            candidate.entity.id,
            "reject" if candidate.suspect else "accept",
            queue.agent,
            f"nobody looked (policy {queue.policy}): the check found it "
            f"{'suspect' if candidate.suspect else 'faithful'}",
        )
        for candidate in found
        if not goes_to_people(queue, candidate)
    ]


def apply_policy(store: Store, queue: Queue) -> int:
    """Decides what the policy decides, and gives how many entities that were."""
    count = 0
    for page in pages(list(candidates(store, queue)), _PAGE):
        decisions = decide_by_policy(queue, page)
        with store.write() as connection:
            append_decisions(connection, decisions)
        count += len(decisions)
    return count
