"""Quarantine: inputs and answers that stages could not use, with reasons."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    update,
)

from loupe.db.configurations import JUDGING_STAGES
from loupe.db.reviews import DROPPED, GATE_PREFIX, of_dropped
from loupe.db.store import Store, reads, writes
from loupe.db.tables import (
    Activity,
    Agent,
    Association,
    Decision,
    Derivation,
    Entity,
    ModelCall,
    Plan,
    Work,
    alias,
)
from loupe.db.work import reset_marks
from loupe.schemas.chat import RAISED, WRONG_RETURN
from loupe.schemas.provenance import ANSWERED, Role
from loupe.schemas.records import Image, Rejection, Sample, Source
from loupe.schemas.video import Video

_DRAWN_KINDS = (Sample.kind, Image.kind, Video.kind)


class QuarantineCount(NamedTuple):
    """Number of inputs that a stage rejected for a reason."""

    dataset: str
    stage: str
    reason: str
    inputs: int


class Superseded(NamedTuple):
    """Which rejections no longer hold.

    Attributes:
        plans: the plans of which none holds.
        of_items: plans of which none holds whose input no longer counts (`inactive`).
    """

    plans: tuple[int, ...] = ()
    of_items: tuple[int, ...] = ()

    def plus(self, other: "Superseded") -> "Superseded":
        """Return what no longer holds by either."""
        return Superseded(self.plans + other.plans, self.of_items + other.of_items)


NOTHING = Superseded()


def _holds(without: Superseded) -> ColumnElement[bool]:
    """Return the condition that a rejection still holds."""
    item = alias(Entity)  # queries may join another one
    is_inactive = exists().where(item.seq == Work.input, item.state == "inactive")
    is_of_inactive = and_(Work.plan_id.in_(without.of_items), is_inactive)
    return and_(Work.plan_id.not_in(without.plans), ~is_of_inactive)


@reads
def quarantine_counts(
    connection: Connection,
    dataset: str | None = None,
    reason: str | None = None,
    without: Superseded = NOTHING,
) -> list[QuarantineCount]:
    """Count rejected inputs by dataset, stage and reason, `without` those that no longer hold."""
    of = Activity.dataset, Plan.stage, Work.reason
    query = (
        select(*of, func.count())
        .join(Plan, Plan.id == Work.plan_id)
        .join(Activity, Activity.id == Work.activity_id)
        .where(Work.reason.is_not(None), _holds(without))
        .group_by(*of)
        .order_by(*of)
    )
    if dataset is not None:
        query = query.where(Activity.dataset == dataset)
    if reason is not None:
        query = query.where(Work.reason == reason)
    return [QuarantineCount._make(row) for row in connection.execute(query)]


@reads
def imported_for(connection: Connection, dataset: str) -> list[str]:
    """Return the datasets of the sources that a dataset was built from, by name."""
    origin = alias(Entity)
    query = (
        select(origin.dataset)
        .join(Derivation, Derivation.parent_seq == origin.seq)
        .join(Entity, Entity.seq == Derivation.child_seq)
        .where(Entity.dataset == dataset, Entity.kind.in_(_DRAWN_KINDS))
        .where(origin.dataset != dataset)
        .distinct()
        .order_by(origin.dataset)
    )
    return list(connection.execute(query).scalars())


class RejectingPlan(NamedTuple):
    """A plan that rejected inputs of a dataset."""

    id: int
    dataset: str
    stage: str
    version: str
    configuration: dict[str, Any]


@reads
def rejecting_plans(connection: Connection, datasets: Collection[str]) -> list[RejectingPlan]:
    """Return the plans that rejected inputs of these datasets."""
    rejecting = (
        select(Activity.plan_id, Activity.dataset)
        .join(Work, Work.activity_id == Activity.id)
        .where(Work.reason.is_not(None), Activity.dataset.in_(datasets))
        .distinct()
        .subquery()
    )
    query = select(Plan.id, rejecting.c.dataset, Plan.stage, Plan.version, Plan.configuration).join(
        rejecting, rejecting.c.plan_id == Plan.id
    )
    return [RejectingPlan._make(row) for row in connection.execute(query)]


@reads
def other_imports(connection: Connection, dataset: str) -> list[int]:
    """Return the plans that imported, under the name of a source of a dataset, another format.

    What they rejected is not about the dataset.
    """
    origin, source = alias(Entity), alias(Entity)
    drawn, imported = alias(Derivation), alias(Derivation)
    query = (
        select(source.payload)
        .join(imported, imported.parent_seq == source.seq)
        .join(origin, imported.child_seq == origin.seq)
        .join(drawn, drawn.parent_seq == origin.seq)
        .join(Entity, Entity.seq == drawn.child_seq)
        .where(Entity.dataset == dataset, Entity.kind.in_(_DRAWN_KINDS))
        .where(source.kind == Source.kind, origin.dataset != dataset)
        .distinct()
    )
    formats: dict[str, set[str]] = defaultdict(set)
    for payload in connection.execute(query).scalars():
        used = Source.model_validate_json(payload)
        formats[used.name].add(used.format)
    found = []
    for id_, configuration in connection.execute(select(Plan.id, Plan.configuration)):
        stated = configuration.get("source")
        used_formats = formats.get(stated["name"]) if isinstance(stated, dict) else None
        if used_formats and stated["format"] not in used_formats:
            found.append(id_)
    return found


def quarantined(
    store: Store,
    dataset: str,
    reason: str | None = None,
    limit: int | None = None,
    stage: str | None = None,
    without: Superseded = NOTHING,
) -> Iterator[Rejection]:
    """Iterate over the rejections of a dataset, in order of input, `without` some."""
    query = (
        select(Work.rejection)
        .join(Activity, Activity.id == Work.activity_id)
        .where(Work.reason.is_not(None), Activity.dataset == dataset)
        .where(_holds(without))
        .order_by(Work.plan_id, Work.input)
        .limit(limit)
    )
    if reason is not None:
        query = query.where(Work.reason == reason)
    if stage is not None:
        query = query.join(Plan, Plan.id == Work.plan_id).where(Plan.stage == stage)
    with store.read() as connection:
        for text in connection.execute(query).scalars():
            yield Rejection.model_validate_json(text or "{}")


@reads
def dropped_counts(connection: Connection, dataset: str | None = None) -> list[QuarantineCount]:
    """Count the items that gates rejected although nobody looked, by dataset and gate."""
    by_gate = Entity.dataset, Agent.name
    query = of_dropped(select(*by_gate, func.count())).group_by(*by_gate).order_by(*by_gate)
    if dataset is not None:
        query = query.where(Entity.dataset == dataset)
    return [
        QuarantineCount(of, name.removeprefix(f"{GATE_PREFIX}{of}-"), DROPPED, items)
        for of, name, items in connection.execute(query)
    ]


LEFT_OUT = "left_out"


@reads
def left_out_images(
    connection: Connection, agents: str, dataset: str | None = None, limit: int | None = None
) -> list[tuple[str, Rejection]]:
    """Return (dataset, rejection) of images that were refused by comparing them, oldest first.

    They are no rejections of single inputs, of which their stage has a work row: an image counts
    again when the other one is gone.

    Args:
        connection: the store.
        agents: who refused them: the name of an agent is this, its dataset, "/" and its stage.
        dataset: only of this dataset.
        limit: at most so many.
    """
    query = of_dropped(select(Entity.dataset, Entity.payload, Agent.name, Decision.reason), agents)
    named_after_stage = Agent.name == agents + Entity.dataset + "/" + Plan.stage
    is_of_input = exists().where(
        Work.input == Entity.seq, Work.plan_id == Plan.id, named_after_stage
    )
    query = query.where(Entity.kind == Image.kind, ~is_of_input)
    if dataset is not None:
        query = query.where(Entity.dataset == dataset)
    found = []
    for of, payload, name, reason in connection.execute(query.order_by(Entity.seq).limit(limit)):
        stage = name.removeprefix(f"{agents}{of}/")
        file = Image.model_validate_json(payload).file_path
        found.append((of, Rejection.of(stage, LEFT_OUT, f"It {reason}.", file=file)))
    return found


class UnusedAnswers(NamedTuple):
    """Number of answers of a model that a stage could not use, for a reason."""

    model: str
    stage: str
    reason: str
    answers: int


REPEATS_SIBLING = "near_identical_to_sibling"
"""The reason of a rejected text that repeats another of its image, which is kept."""


@reads
def unused_answers(
    connection: Connection,
    dataset: str,
    plan_ids: Collection[int] | None = None,
    without: Superseded = NOTHING,
) -> tuple[UnusedAnswers, ...]:
    """Count failed requests to models and rejected texts, by model and reason.

    Args:
        connection: a connection or a store.
        dataset: the dataset that they were made for.
        plan_ids: only the requests of these plans, and the texts from their answers.
        without: rejections that no longer hold.
    """
    # The calls of every dataset count: a stored answer was paid for by the first that needed it.
    asked = Plan.stage.in_(select(ModelCall.stage))
    judging = alias(Plan)
    requests = (
        select(Agent.name, Agent.revision, Plan.stage, Work.reason, func.count())
        .select_from(Work)
        .join(Activity, Activity.id == Work.activity_id)
        .where(asked)
        .group_by(Agent.name, Agent.revision, Plan.stage, Work.reason)
    )
    texts = (
        select(Agent.name, Agent.revision, judging.stage, Work.reason, func.count())
        .select_from(Work)
        .join(judging, and_(judging.id == Work.plan_id, judging.stage.in_(JUDGING_STAGES)))
        .join(Entity, Entity.seq == Work.input)
        .join(Activity, Activity.id == Entity.activity_id)
        .group_by(Agent.name, Agent.revision, judging.stage, Work.reason)
    )
    rows: list[Any] = []
    for query in (requests, texts):
        of_models = (
            query.join(Plan, Plan.id == Activity.plan_id)
            .join(Association, Association.activity_id == Activity.id)
            .join(Agent, and_(Agent.id == Association.agent_id, Agent.kind == "model"))
            .where(Work.reason.is_not(None), Activity.dataset == dataset, _holds(without))
        )
        if plan_ids is not None:
            of_models = of_models.where(Plan.id.in_(plan_ids))
        rows += connection.execute(of_models)
    return tuple(
        sorted(UnusedAnswers(f"{row[0]}@{row[1]}", row[2], row[3] or "", row[4]) for row in rows)
    )


@reads
def used_answers(connection: Connection, dataset: str, plan_id: int) -> int:
    """Count the answers of a model that a plan used, whatever was decided on the results.

    They are counted as in `unused_answers`: an answer to equal requests once per input.
    """
    query = (
        select(func.count())
        .select_from(Work)
        .join(Activity, Activity.id == Work.activity_id)
        .where(Work.plan_id == plan_id, Work.reason.is_(None), Activity.dataset == dataset)
    )
    return connection.execute(query).scalar_one()


@reads
def dropped_share(
    connection: Connection, dataset: str, plan_ids: Collection[int], queues: Collection[str]
) -> tuple[int, float]:
    """Return how many results of plans the gates of these queues dropped, and their share of all.

    Only what they dropped on their own counts, not what people rejected.
    """
    of_plans = Entity.dataset == dataset, Activity.plan_id.in_(plan_ids)
    made = (
        select(func.count(Entity.id))
        .join(Activity, Activity.id == Entity.activity_id)
        .where(*of_plans)
    )
    dropped = of_dropped(select(func.count(Entity.id))).join(
        Activity, Activity.id == Entity.activity_id
    )
    by_gates = Agent.name.in_([f"{GATE_PREFIX}{name}" for name in queues])
    lost = connection.execute(dropped.where(*of_plans, by_gates)).scalar_one()
    return lost, lost / max(1, connection.execute(made).scalar_one())


CALLS = "calls"
"""Entry of a rejection's context: the keys of the calls whose answers could not be used."""


@writes
def put_back(
    connection: Connection, dataset: str, reason: str, without: Superseded = NOTHING
) -> int:
    """Release what was rejected for a reason from quarantine, `without` some; return how much.

    Inputs are pending again: the next run processes them as new, and its results replace the
    earlier ones. Models are asked again for answers that failed or could not be used; the earlier
    calls keep their cost and lineage under other keys. An answer that is used stays as it is.
    """
    own = select(Activity.id).where(Activity.dataset == dataset)
    is_own = Work.activity_id.in_(own)
    rejected = Work.reason.is_not(None), Work.reason == reason, is_own, _holds(without)
    failed = (
        ModelCall.status == reason,
        ModelCall.status.not_in((*ANSWERED, RAISED, WRONG_RETURN)),  # nobody asks for these keys
        ModelCall.dataset == dataset,
    )
    calls = set(connection.execute(select(ModelCall.key).where(*failed)).scalars())
    texts = connection.execute(select(Work.rejection).where(*rejected)).scalars()
    for text in texts:
        calls.update(Rejection.model_validate_json(text or "{}").context.get(CALLS, ()))
    written = _written_again(connection, *rejected)
    calls.update(key for key in written.values() if key is not None)
    for key in sorted(calls):
        _release_call(connection, key)
    dropped = delete(Work).where(*rejected).returning(Work.plan_id)
    plan_ids = list(connection.execute(dropped).scalars())
    for activity_id, input_ in written:
        writing = Work.activity_id == activity_id, Work.input == input_
        again = delete(Work).where(*writing).returning(Work.plan_id)
        reset_marks(connection, connection.execute(again).scalars().all())
    reset_marks(connection, sorted(set(plan_ids)))
    return len(plan_ids) or len(calls)


def _written_again(
    connection: Connection, *rejected: ColumnElement[bool]
) -> dict[tuple[int, int], str | None]:
    """Return the calls of rejected texts, by the activity and the input that they came from."""
    query = (
        select(Entity.activity_id, Derivation.parent_seq, Entity.model_call_key)
        .select_from(Work)
        .join(Plan, and_(Plan.id == Work.plan_id, Plan.stage.in_(JUDGING_STAGES)))
        .join(Entity, Entity.seq == Work.input)
        .join(Derivation, Derivation.child_seq == Entity.seq)
        .where(Derivation.role == Role.REWRITE_OF, *rejected)
    )
    return {(row[0], row[1]): row[2] for row in connection.execute(query)}


def _release_call(connection: Connection, key: str) -> None:
    """Give a call another key, so that it is made again; nothing if its answer is in use."""
    of_call = Entity.model_call_key == key
    used = select(Entity.id).where(of_call, Entity.state != "rejected").limit(1)
    if connection.execute(used).first() is not None:
        return
    columns = [one for one in ModelCall.__table__.columns if one.key != "key"]
    copied = select(literal(other := uuid4().hex), *columns).where(ModelCall.key == key)
    names = ["key", *(one.key for one in columns)]
    connection.execute(insert(ModelCall).from_select(names, copied))
    connection.execute(update(Entity).where(of_call).values(model_call_key=other))
    connection.execute(delete(ModelCall).where(ModelCall.key == key))
