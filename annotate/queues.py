"""The review queues, and which candidates people review in them."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from loupe.db.decisions import append_decisions, decided_by_gate, reopened_by
from loupe.db.entities import (
    AgentRef,
    NewDecision,
    StoredEntity,
    count_entities,
    fetch,
    fetch_children,
    find,
    newest_children,
    pages,
    parents_of,
)
from loupe.db.reviews import BY_LEAD, DROPPED, GATE_PREFIX, count_states, count_tasks, dropped_items
from loupe.db.store import Store
from loupe.schemas import proposals
from loupe.schemas.base import Record, digest_of
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.processes import write_atomically
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Image, Rejection
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import fault_of, nearest_name, packaged_toml, validated

# Policies: which entities of a queue people review, and which are decided automatically.

DIGEST_RANGE = 1 << 128


class Policy(Record):
    """Which entities of a queue people review.

    `required`: all. `sample`: a share (`rate`) of those that pass the checks, and all suspicious
    ones; the draw depends only on each entity's id and `seed`, not on order or other entities.
    `auto`: none; entities that pass the checks are accepted, suspicious ones are rejected.
    """

    policy: Literal["required", "sample", "auto"]
    rate: float | None = Field(default=None, ge=0, le=1)
    seed: int = 0

    @model_validator(mode="after")
    def _has_a_rate_if_sampled(self) -> "Policy":
        if (self.policy == "sample") != (self.rate is not None):
            raise ValueError("a sample has a rate, and other policies have none")
        return self

    def draws(self, entity_id: str) -> bool:
        """Return whether the entity is in the sample."""
        digest = digest_of("sample", str(self.seed), entity_id)
        return int(digest, 16) < (self.rate or 0) * DIGEST_RANGE

    def __str__(self) -> str:
        return self.policy if self.rate is None else f"sample:{self.rate:g}:{self.seed}"


def parse_policy(text: str) -> Policy:
    """Parse a policy: `required`, `auto`, `sample:RATE` or `sample:RATE:SEED`.

    Raises:
        UsageError: it is not a policy.
    """
    matched = re.fullmatch(r"(\w+)(?::([^:]+))?(?::([^:]+))?", text)
    names = ("policy", "rate", "seed")
    given = zip(names, matched.groups(), strict=True) if matched else ()
    try:
        return Policy.model_validate({name: value for name, value in given if value is not None})
    except ValidationError as error:
        raise UsageError(
            "a policy must be 'required', 'auto', 'sample:RATE' or 'sample:RATE:SEED' with a rate "
            f"from 0 to 1; got {text!r:.80}"
        ) from error


# A queue is a dataset and a step. The steps are declared in `queues.toml` beside this file, one
# table each. A user's file (`queues.toml` in the installation's folder, or `LOUPE_QUEUES_FILE`)
# changes a step for every dataset under `[steps.STEP]` and for one dataset under
# `[queues.DATASET-STEP]`.

Purpose = Literal["review", "adjudication", "audit"]
"""Why a task is sent: for a first opinion, to settle a conflict, or as part of an audit sample.

Gold items have the purpose `review`, so that they cannot be recognised.
"""

SHARED = ""
"""The assignee of tasks in the installation's own account, used if no annotators were added."""


def _policy(value: object) -> object:
    return parse_policy(value) if isinstance(value, str) else value


def _differing(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("the names must differ")
    return names


_Names = Annotated[tuple[str, ...], AfterValidator(_differing)]


class Step(Record):
    """The settings of a step.

    Attributes:
        kind: the kind of entity to review.
        interface: the labelling interface, by name.
        checked: only entities with a report of a check enter the queue.
        flagged: only entities that a check flagged enter the queue.
        left_out: entities derived in this role are decided elsewhere and do not enter the queue;
            None for all of the kind.
        policy: `required`, `sample:RATE[:SEED]` or `auto`.
        marked_always: under `sample`, suspicious entities always go to people.
        overlap: how many people answer each item independently.
        annotators: the names of the annotators of the step; empty for all annotators.
        adjudicators: the names of those who settle conflicts; empty for all adjudicators.
        gold_rate: the share of gold items among the items of each annotator.
        batch: how many items an annotator has at a time, gold ones included. The installation's own
            account has all at once.
        qualification: how many gold items an annotator answers before getting any other item.
        daily_cap: the maximum number of items per annotator and day; None for no limit.
        accuracy_floor: the accuracy on gold items below which an annotator's unconfirmed work is
            revoked.
        accuracy_window: the number of newest gold answers for the accuracy.
        accuracy_least: the minimum number of gold answers for that; `qualification`, if that is
            less.
        priority: queues with a higher one are listed first for annotators.
        field: the field of a record that its page lets people change, for pages that show any kind.
        choices: the values to choose from, for such a page.
        of_model: what `auto` drops here is an unusable answer of the model that made it, and counts
            for `max_unusable_share`; not where images decide, as in `captions` of ReCoS.
        text_agreement: the similarity (0 to 1) from which two texts agree; at 1 they may differ in
            white space and case only, below 1 also in a word such as a colour.
        facts: the check that reads the facts by which texts are compared as well, in datasets that
            ask for it; None for no facts.
    """

    kind: str
    interface: str
    checked: bool = False
    flagged: bool = False
    left_out: Role | None = None
    policy: Annotated[Policy, BeforeValidator(_policy)] = Policy(policy="required")
    marked_always: bool = True
    overlap: int = Field(default=1, ge=1, le=9)
    annotators: _Names = ()
    adjudicators: _Names = ()
    gold_rate: float = Field(default=0.0, ge=0, le=0.5)
    batch: int = Field(default=20, ge=2)
    qualification: int = Field(default=0, ge=0)
    daily_cap: int | None = Field(default=None, ge=1)
    accuracy_floor: float = Field(default=0.7, ge=0, le=1)
    accuracy_window: int = Field(default=20, ge=1)
    accuracy_least: int = Field(default=5, ge=1)
    priority: int = Field(default=0, ge=0, le=1000)
    of_model: bool = False
    text_agreement: float = Field(default=1.0, ge=0, le=1)
    facts: str | None = None
    field: str = ""
    choices: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _can_judge(self) -> "Step":
        if self.accuracy_least > self.accuracy_window:
            raise ValueError(
                f"accuracy_least ({self.accuracy_least}) must not be above accuracy_window "
                f"({self.accuracy_window})"
            )
        return self


class Queue(Step):
    """A review queue: a step of one dataset."""

    name: str
    dataset: str

    @property
    def agent(self) -> AgentRef:
        """The agent of decisions by the policy."""
        return AgentRef("software", f"{GATE_PREFIX}{self.name}", str(self.policy))

    @property
    def lead(self) -> AgentRef:
        """The agent that reopens items for the lead."""
        return AgentRef("software", f"lead:{self.name}")

    def task_key(self, entity_id: str, assignee: str = SHARED, purpose: Purpose = "review") -> str:
        """Return the key of the review task for an entity, the same for every push."""
        return digest_of("review-task", self.name, entity_id, assignee, purpose)


class Declarations(NamedTuple):
    """The steps and single queues of the shipped file and the user's file.

    `own` are the queues of pipelines that declare theirs, by name. `unknown` are names in the
    user's file that no queue has, or none before a pipeline with a gate of that name runs.
    """

    steps: Mapping[str, Step]
    queues: Mapping[str, Mapping[str, Any]]
    own: Mapping[str, "Queue"] = {}
    unknown: tuple[str, ...] = ()

    def step(self, name: str) -> Step:
        """Return the step with that name.

        Raises:
            UsageError: the step is not declared.
        """
        if name not in self.steps:
            raise UsageError(f"a step must be one of {', '.join(self.steps)}; got {name!r}")
        return self.steps[name]

    def queue(self, dataset: str, step: str, policy: Policy | None = None) -> Queue:
        """Return the queue of a dataset and a step; `policy` overrides the declared one.

        Raises:
            UsageError: the step is not declared.
        """
        name = f"{dataset}-{step}"
        declared = {**dict(self.own.get(name) or self.step(step)), **self.queues.get(name, {})}
        chosen = {"policy": policy} if policy is not None else {}
        return Queue(**{**declared, **chosen, "name": name, "dataset": dataset})

    def queue_named(self, name: str, policy: Policy | None = None) -> Queue:
        """Return the queue with that name.

        Raises:
            UsageError: no queue has that name.
        """
        dataset, _, step = name.rpartition("-")
        if (own := self.own.get(name)) is not None:
            return self.queue(own.dataset, name.removeprefix(f"{own.dataset}-"), policy)
        if not self.has(name):
            near = [f"{dataset}-{step}" for step in self.steps] if dataset else []
            raise UsageError(self.no_queue(name, near))
        return self.queue(dataset, step, policy)

    def has(self, name: str) -> bool:
        """Return whether a queue may have this name: DATASET-STEP, or that of a pipeline's gate."""
        dataset, _, step = name.rpartition("-")
        return name in self.own or (dataset != "" and step in self.steps)

    def no_queue(self, name: str, known: Iterable[str]) -> str:
        """Return that there is no such queue, with the name that was probably meant."""
        if nearest := nearest_name(name, [*self.own, *known]):
            return f"there is no queue {name!r}; did you mean {nearest}?"
        return (
            f"there is no queue {name!r}; a queue is named DATASET-STEP, like 'ufine3c-rewrites', "
            f"with a step of {', '.join(self.steps)}"
        )

    @property
    def warnings(self) -> list[str]:
        """One sentence for each table of the user's file that changes no queue."""
        return [
            f"[queues.{name}] of the queues file changes nothing: "
            f"{self.no_queue(name, self.queues)}; if it is a gate of your own pipeline, its "
            f"settings count from the first run on"
            for name in self.unknown
        ]


@cache
def shipped() -> Declarations:
    """Return the declarations that come with Loupe."""
    tables = packaged_toml("loupe.annotate", "queues.toml")
    return Declarations({name: Step(**table) for name, table in tables.items()}, {})


def _without_fixed(changes: dict[str, Any]) -> dict[str, Any]:
    if fixed := sorted(changes.keys() & {"kind", "interface", "name", "dataset"}):
        raise ValueError(f"{fixed[0]} cannot be changed")
    return changes


_Changes = Annotated[dict[str, Any], AfterValidator(_without_fixed)]


class _OwnFile(Record):
    """The user's file: its changes of steps and of single queues."""

    steps: dict[str, _Changes] = Field(default_factory=dict)
    queues: dict[str, _Changes] = Field(default_factory=dict)


_of_pipelines: dict[str, Queue] = {}
"""The queues that pipelines declared in this process, by name."""


def declare_queues(dataset: str, steps: Mapping[str, Step], own_file: Path | None = None) -> None:
    """Declare the queues of a pipeline, by the names of its gates.

    They are kept beside the user's file, if it is given, for the commands that work on queues.
    """
    found = {}
    for step, declared in steps.items():
        name = f"{dataset}-{step}"
        found[name] = Queue(**{**dict(declared), "name": name, "dataset": dataset})
    _of_pipelines.update(found)
    if own_file is not None and found:
        folder = own_file.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        document = [one.model_dump(mode="json") for one in found.values()]
        write_atomically(folder / f"{dataset}.json", json.dumps(document, indent=1).encode())


def _declared_by_pipelines(own_file: Path | None) -> dict[str, Queue]:
    """Return the queues that pipelines declared, here or in an earlier process.

    Raises:
        ConfigurationError: a file of them is damaged.
    """
    files = sorted(own_file.with_suffix("").glob("*.json")) if own_file is not None else []
    found: dict[str, Queue] = {}
    for file in files:
        try:
            queues = TypeAdapter(list[Queue]).validate_json(file.read_bytes())
        except ValidationError as error:
            raise ConfigurationError(f"{file} is damaged: {fault_of(error)}; remove it") from error
        found |= {one.name: one for one in queues}
    return found | _of_pipelines


def load_queues(own_file: Path | None = None) -> Declarations:
    """Return the shipped declarations with the changes of the user's file, which need not exist.

    The queues of pipelines that declare theirs are among them. A table of a queue that is not
    known, such as that of a pipeline that has not run yet, stops nothing and is not checked.

    Raises:
        ConfigurationError: the file is not valid TOML, or a value or a step in it is invalid.
    """
    of_pipelines = _declared_by_pipelines(own_file)
    if own_file is None or not own_file.exists():
        return shipped()._replace(own=of_pipelines) if of_pipelines else shipped()
    own = validated(_OwnFile, read_toml(own_file, f"the queues file {own_file}"), f"in {own_file}")
    steps = dict(shipped().steps)
    every = Declarations(steps, own.queues, of_pipelines)
    unknown = tuple(name for name in own.queues if not every.has(name))
    queues = {name: table for name, table in own.queues.items() if name not in unknown}
    declared = every._replace(queues=queues, unknown=unknown)
    place = ""
    try:
        for name, changes in own.steps.items():
            place = f"[steps.{name}]"
            steps[name] = Step(**{**dict(declared.step(name)), **changes})
        for name in queues:
            place = f"[queues.{name}]"
            declared.queue_named(name)
    except (ValidationError, UsageError) as error:
        raise ConfigurationError(f"in {own_file} {place}: {fault_of(error, Step)}") from error
    return declared


_PAGE = 500
_FLAGGED_KINDS: dict[str, type[proposals.Candidate | proposals.CaptionGroup]] = {
    record.kind: record for record in (proposals.Candidate, proposals.CaptionGroup)
}
"""Records that contain their own flags."""
_EXAMINED_KINDS = (proposals.Tracklet.kind, *_FLAGGED_KINDS)
_NO_REVIEW = "nobody looked"


class Candidate(NamedTuple):
    """A proposed entity, whether its check flagged it, and whether the lead reopened it.

    The check of a tracklet is the filter; candidates and groups of a contrastive benchmark contain
    their own flags. `warnings` are for reviewers, one sentence each. `examined` says that there was
    a check of it.
    """

    entity: StoredEntity
    suspect: bool
    warnings: tuple[str, ...] = ()
    reopened: bool = False
    examined: bool = False


def candidates(store: Store, queue: Queue) -> Iterator[Candidate]:
    """Iterate over the queue's proposed entities, oldest first; only checked ones if required."""
    for page in pages(proposed(store, queue), _PAGE):
        yield from judged(store, queue, page)


def judged(store: Store, queue: Queue, page: Sequence[StoredEntity]) -> Iterator[Candidate]:
    """Yield a candidate for each entity, if the queue requires it only for checked ones."""
    ids = [entity.id for entity in page]
    flagged = latest_flags(store, ids)
    reports = newest_reports(store, ids) if queue.checked else {}
    reopened = reopened_by(store, queue.lead, ids)
    for entity in page:
        flags = (*_entity_flags(entity), *flagged.get(entity.id, ()))
        if not queue.checked:
            suspect = _may_show_several(entity) or bool(flags)
        elif report := reports.get(entity.id):
            suspect = report.verdict == "suspect" or bool(flags)
        else:
            continue
        examined = entity.id in flagged or entity.kind in _EXAMINED_KINDS
        yield Candidate(entity, suspect, flags, entity.id in reopened, examined)


def proposed(store: Store, queue: Queue) -> Iterator[StoredEntity]:
    """Iterate over the proposed entities of the queue, checked or not, oldest first."""
    return without_left_out(
        store, queue, find(store, queue.dataset, queue.kind, states=("proposed",))
    )


def count_proposed(store: Store, queue: Queue) -> int:
    """Return the number of entities in `proposed`."""
    if queue.left_out is None and not queue.flagged:
        return count_entities(store, queue.dataset, queue.kind, states=("proposed",))
    return sum(1 for _ in proposed(store, queue))


def without_left_out(
    store: Store, queue: Queue, entities: Iterable[StoredEntity]
) -> Iterator[StoredEntity]:
    """Leave out entities that are decided in another queue, or need no decision."""
    for page in pages(entities, _PAGE):
        ids = [entity.id for entity in page]
        elsewhere = parents_of(store, ids, queue.left_out) if queue.left_out else {}
        if queue.flagged:
            flags = latest_flags(store, ids)
            page = [entity for entity in page if flags.get(entity.id)]
        yield from (entity for entity in page if entity.id not in elsewhere)


def _may_show_several(entity: StoredEntity) -> bool:
    """Return whether the filter suspects that a tracklet shows more than one person."""
    return entity.kind == proposals.Tracklet.kind and bool(
        entity.record(proposals.Tracklet).switches
    )


def _entity_flags(entity: StoredEntity) -> tuple[str, ...]:
    """Return the flags in a record; empty for kinds without flags."""
    kind = _FLAGGED_KINDS.get(entity.kind)
    return () if kind is None else entity.record(kind).warnings


def latest_flags(store: Store, entity_ids: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the flags of each examined caption, from the last look of a rule and of a judge."""
    flags: dict[str, tuple[str, ...]] = {}
    for entity_id, checks in fetch_children(store, entity_ids, Role.EXAMINES).items():
        of_rules: tuple[str, ...] = ()
        of_judge: tuple[str, ...] = ()
        active = [one for one in checks if one.state != "inactive"]
        for one in sorted(active, key=lambda one: one.seq):
            check = one.record(CaptionCheck)
            if check.judge is None:
                of_rules = check.warnings
            else:
                of_judge = check.warnings
        if active:
            flags[entity_id] = tuple(dict.fromkeys((*of_rules, *of_judge)))
    return flags


def flag_reasons(store: Store, dataset: str) -> dict[str, set[str]]:
    """Return the reasons for which checks flagged captions of sources, by caption."""
    reasons_of: dict[str, set[str]] = {}
    for page in pages(find(store, dataset, CaptionCheck.kind, states=("proposed",)), _PAGE):
        checks = {one.id: one.record(CaptionCheck).reasons for one in page}
        flagging = [id_ for id_, reasons in checks.items() if reasons]
        for id_, (caption,) in parents_of(store, flagging, Role.EXAMINES).items():
            reasons_of.setdefault(caption, set()).update(checks[id_])
    return reasons_of


def newest_reports(store: Store, entity_ids: list[str]) -> dict[str, FaithfulnessReport]:
    """Return the report of the last check of each checked entity."""
    newest = newest_children(store, entity_ids, Role.CHECKS)
    return {entity_id: check.record(FaithfulnessReport) for entity_id, check in newest.items()}


def needs_review(queue: Queue, candidate: Candidate) -> bool:
    """Return whether a person has to review the candidate."""
    if candidate.reopened:
        return True
    if queue.policy.policy == "sample":
        marked = candidate.suspect and queue.marked_always
        return marked or queue.policy.draws(candidate.entity.id)
    return queue.policy.policy == "required"


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
    if candidate.warnings:
        more = len(candidate.warnings) - 1
        others = f" (and {more} more)" if more else ""
        return f"something speaks against it: {candidate.warnings[0]}{others}"
    if candidate.suspect and not queue.checked:
        if candidate.entity.kind == proposals.Tracklet.kind:
            return "the filter suspects that it shows more than one person"
        return "something speaks against it"
    if queue.checked:
        return f"the check found it {'suspect' if candidate.suspect else 'faithful'}"
    return "the checks found nothing against it" if candidate.examined else "there is no check"


def reopen_for_people(store: Store, queue: Queue) -> int:
    """Reopen entities that the gate decided but the policy now sends to people; return the number.

    Decisions of people, and those that the present policy leaves to the gate, are not changed.
    """
    if queue.policy.policy == "auto":
        return 0
    decided = decided_by_gate(
        store, queue.dataset, queue.kind, queue.agent.name, _NO_REVIEW, str(queue.policy)
    )
    count = 0
    for page in pages(without_left_out(store, queue, decided), _PAGE):
        asked = [one for one in judged(store, queue, page) if needs_review(queue, one)]
        why = f"people are asked now (policy {queue.policy})"
        reopened = [NewDecision(one.entity.id, "reopen", queue.agent, why) for one in asked]
        with store.write() as connection:
            append_decisions(connection, reopened)
        count += len(reopened)
    return count


def reopen_decided(store: Store, queue: Queue, why: str) -> int:
    """Reopen all entities that the gate decided without people; return the number."""
    count = 0
    decided = decided_by_gate(store, queue.dataset, queue.kind, queue.agent.name, _NO_REVIEW)
    for page in pages(decided, _PAGE):
        with store.write() as connection:
            append_decisions(
                connection, [NewDecision(one.id, "reopen", queue.agent, why) for one in page]
            )
        count += len(page)
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
            for one in judged(store, queue, page)
            if one.entity.state == "proposed"
        }
        for entity in without_left_out(store, queue, page):
            doubted = flagged.get(entity.id)
            if words.casefold() not in entity.payload.casefold():
                continue
            if suspect is None or doubted is suspect:
                yield FoundItem(
                    entity=entity.id,
                    state=entity.state,
                    split=entity.split,
                    suspect=doubted,
                    text=text_of(entity),
                )


def text_of(entity: StoredEntity) -> str:
    """Return the text of a record, or all its texts of several words."""
    record = json.loads(entity.payload)
    return record.get("text") or " · ".join(_texts(record)) or entity.payload


def _texts(value: Any) -> Iterator[str]:
    """Return the texts of several words in a record, in order."""
    if isinstance(value, str) and " " in value:
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def decide_as_lead(
    store: Store, queue: Queue, verdicts: Mapping[str, Literal["accept", "reject"]], reason: str
) -> int:
    """Accept or reject undecided items as the lead of a queue; return their number."""
    agent = queue.agent._replace(revision=BY_LEAD)
    waiting = [one for one in fetch(store, verdicts).values() if one.state == "proposed"]
    decisions = [NewDecision(one.id, verdicts[one.id], agent, reason) for one in waiting]
    with store.write() as connection:
        append_decisions(connection, decisions)
    return len(decisions)


def dropped_by_gates(
    store: Store,
    dataset: str,
    limit: int | None = None,
    plan_ids: Collection[int] | None = None,
) -> list[Rejection]:
    """Return what gates rejected although nobody looked, oldest first, with what speaks against it.

    The `stage` of each is the step of its queue; with `plan_ids`, only what was made under these.
    """
    found = dropped_items(store, dataset, limit, plan_ids)
    ids = [entity_id for entity_id, _, _ in found]
    flags, reports, entities = (
        latest_flags(store, ids),
        newest_reports(store, ids),
        fetch(store, ids),
    )
    images = fetch(store, {str(one.group) for one in entities.values()})
    dropped = []
    for entity_id, step, reason in found:
        said = list(flags.get(entity_id, ()))
        if entity_id in reports:
            said += [one.message for one in reports[entity_id].findings if not one.minor]
        detail = " ".join(said) or reason
        about: dict[str, Any] = {"text": text_of(entities[entity_id]), "entity": entity_id}
        image = images.get(str(entities[entity_id].group))
        if image is not None and image.kind == Image.kind:
            about["file"] = image.record(Image).file_path
        dropped.append(Rejection.of(step, DROPPED, detail, **about))
    return dropped


def apply_policy(store: Store, queue: Queue) -> int:
    """Apply the queue's policy and return the number of decided entities."""
    if queue.policy.policy == "required":
        return 0  # without loading items that wait for people
    count = 0
    for page in pages(list(candidates(store, queue)), _PAGE):
        decisions = decide_by_policy(queue, page)
        with store.write() as connection:
            append_decisions(connection, decisions)
        count += len(decisions)
    return count


def queues_in_use(
    store: Store, declared: Declarations, policy: Policy | None = None
) -> list[Queue]:
    """Return queues that have tasks, have checked items, or are declared.

    Those that pipelines declared count once there are items that people decide on.
    """
    names = {queue for queue, _ in count_tasks(store)} | set(declared.queues)
    for queue in declared.own.values():
        is_asked = queue.policy.policy != "auto"
        if is_asked and queue.dataset in count_states(store, queue.kind, queue.left_out):
            names.add(queue.name)
    for name, step in declared.steps.items():
        if step.checked:
            names |= {f"{dataset}-{name}" for dataset in count_states(store, step.kind)}
    return [declared.queue_named(name, policy) for name in sorted(names)]


def chosen_queues(
    store: Store, declared: Declarations, name: str | None, policy: Policy | None = None
) -> list[Queue]:
    """Return the queue of that name, or all queues in use.

    Raises:
        UsageError: there is no such queue, or it is not in use for its dataset.
    """
    if name is None:
        return queues_in_use(store, declared, policy)
    if declared.has(name):
        queue = declared.queue_named(name, policy)
        if queue.dataset in count_states(store, queue.kind):
            return [queue]
        problem = (
            f"queue {name!r} needs a dataset {queue.dataset!r} with entities of kind "
            f"{queue.kind!r}, and there is none"
        )
    in_use = [one.name for one in queues_in_use(store, declared)]
    if nearest_name(name, in_use) or not declared.has(name):
        problem = declared.no_queue(name, in_use)
    raise UsageError(f"{problem}; queues in use: {', '.join(in_use) or 'none'}")
