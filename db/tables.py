"""The tables of the provenance store. Words are those of W3C PROV.

What is searched by gets a column; the rest of an entity is its payload, the record as JSON. Nothing
is ever updated but the caches `entity.state` and `review_task.state`, which are folds of appended
rows, and leases.

Entities are known outside by their content-derived `id`; the tables that hold a row or more for
each of them (`derivation`, `work`) use the number `seq` instead, which grows: an index over random
digests costs a page write a row, one over growing numbers almost nothing.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time, also on SQLite, which forgets time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Refuse naive times, store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time must name its zone; got {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Give the time back as UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """The base of all tables."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime(), dict[str, Any]: JSON()}  # noqa: RUF012


Digest = String(32)
Number = BigInteger().with_variant(Integer, "sqlite")


class Agent(Base):
    """Somebody who acts: a person, a model at a revision, a piece of software at a version."""

    __tablename__ = "agent"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(Text)
    revision: Mapped[str] = mapped_column(Text, default="")


class Plan(Base):
    """A stage at a version with a configuration: what an activity carried out (`prov:Plan`)."""

    __tablename__ = "plan"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    stage: Mapped[str] = mapped_column(Text, index=True)
    version: Mapped[str] = mapped_column(String(32))
    configuration: Mapped[dict[str, Any]]


class Activity(Base):
    """One run of one plan over one chunk."""

    __tablename__ = "activity"

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"))
    dataset: Mapped[str] = mapped_column(Text)
    code_revision: Mapped[str] = mapped_column(Text)
    flow_run: Mapped[str] = mapped_column(Text)
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime]


class Association(Base):
    """This agent had a part in that activity."""

    __tablename__ = "association"

    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"), primary_key=True)


class ModelCall(Base):
    """One request to a model and its answer, stored the moment it returned: paid for once.

    A search of images on the web is a call, too (`db.search_calls`): its `tokens_in` are the
    requests that the service counts.
    """

    __tablename__ = "model_call"
    __table_args__ = (Index("ix_model_call_agent_id_called_at", "agent_id", "called_at"),)

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    stage: Mapped[str] = mapped_column(Text)
    dataset: Mapped[str] = mapped_column(Text, index=True)
    prompt_digest: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]]
    request: Mapped[dict[str, Any]]
    response: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(32))
    tokens_in: Mapped[int]
    tokens_out: Mapped[int]
    seconds: Mapped[float]
    cost: Mapped[float | None]
    currency: Mapped[str | None] = mapped_column(String(8))
    called_at: Mapped[datetime]


class Entity(Base):
    """A thing with a content-derived id. Never changed; `state` is the fold of its decisions."""

    __tablename__ = "entity"
    __table_args__ = (
        Index("ix_entity_pending", "dataset", "kind", "seq"),
        Index(
            "ix_entity_group",
            "group_key",
            sqlite_where=text("group_key IS NOT NULL"),
            postgresql_where=text("group_key IS NOT NULL"),
        ),
    )

    seq: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Digest, unique=True)
    dataset: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String(32))
    split: Mapped[str | None] = mapped_column(String(8))
    group_key: Mapped[str | None] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    payload: Mapped[str] = mapped_column(Text)
    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"))
    model_call_key: Mapped[str | None] = mapped_column(ForeignKey("model_call.key"))


class Derivation(Base):
    """`child` was derived from `parent`, which played `role` in it."""

    __tablename__ = "derivation"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    child_seq: Mapped[int] = mapped_column(ForeignKey("entity.seq"), primary_key=True)
    role: Mapped[str] = mapped_column(String(32), primary_key=True)
    parent_seq: Mapped[int] = mapped_column(ForeignKey("entity.seq"), primary_key=True, index=True)


class Work(Base):
    """What became of one input of one plan: done, or rejected with a reason.

    `input` is the `seq` of an entity or, for an import, the index of a record in its file (whose
    digest is part of the plan).
    """

    __tablename__ = "work"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), primary_key=True)
    input: Mapped[int] = mapped_column(Number, primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"))
    reason: Mapped[str | None] = mapped_column(String(64))
    rejection: Mapped[str | None] = mapped_column(Text)  # a `Rejection` as JSON


class Checkpoint(Base):
    """How far the work on one input has come; gone as soon as the input has its work row.

    `position` is the first step (the number of a frame) that is still to be done, `state` what has
    to be known to go on from there.
    """

    __tablename__ = "checkpoint"

    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), primary_key=True)
    input: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(Number)
    state: Mapped[bytes] = mapped_column(LargeBinary)


class Claim(Base):
    """A lease on a chunk of pending inputs, from `lower` to `upper`, until `expires_at`."""

    __tablename__ = "claim"
    __table_args__ = (Index("ix_claim_plan", "plan_id", "dataset"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    plan_id: Mapped[int]
    dataset: Mapped[str] = mapped_column(Text)
    lower: Mapped[int] = mapped_column(Number)
    upper: Mapped[int] = mapped_column(Number)
    owner: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime]


class Decision(Base):
    """Accept, reject, edit or withdraw an entity: by whom, when, why. Appended, never changed."""

    __tablename__ = "decision"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), index=True)
    verdict: Mapped[str] = mapped_column(String(16))
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    reason: Mapped[str] = mapped_column(Text, default="")
    decided_at: Mapped[datetime]
    successor_id: Mapped[str | None] = mapped_column(ForeignKey("entity.id"))
    annotation_key: Mapped[str | None] = mapped_column(ForeignKey("annotation.key"))


class ReviewTask(Base):
    """An entity that somebody is asked about; `key` is made from queue, entity, assignee, purpose.

    `assignee` is a pseudonym, or empty for the account of the installation itself. `state` is open,
    answered, skipped, returned (the answer no longer counts) or closed (no answer is needed any
    more).
    """

    __tablename__ = "review_task"
    __table_args__ = (Index("ix_review_task_queue_state", "queue", "state"),)

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    queue: Mapped[str] = mapped_column(Text)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), index=True)
    assignee: Mapped[str] = mapped_column(String(32), default="")
    purpose: Mapped[str] = mapped_column(String(16), default="review")
    gold: Mapped[bool] = mapped_column(default=False)
    server: Mapped[str] = mapped_column(Text)
    project_id: Mapped[int]
    task_id: Mapped[int | None]
    state: Mapped[str] = mapped_column(String(16))
    pushed_at: Mapped[datetime]


class ReviewImage(Base):
    """An image that a review task shows; the image server hands out those of open tasks alone."""

    __tablename__ = "review_image"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    task_key: Mapped[str] = mapped_column(ForeignKey("review_task.key"), primary_key=True)
    media_type: Mapped[str] = mapped_column(String(32))
    image_id: Mapped[str | None] = mapped_column(ForeignKey("entity.id"))


class Annotation(Base):
    """What came back from Label Studio for a review task; `key` is made from its content.

    `result` is what the page says, `answer` how it was understood.
    """

    __tablename__ = "annotation"

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    review_task_key: Mapped[str] = mapped_column(ForeignKey("review_task.key"), index=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    remote_id: Mapped[int]
    result: Mapped[dict[str, Any]]
    answer: Mapped[dict[str, Any]]
    lead_time_seconds: Mapped[float | None]
    annotated_at: Mapped[datetime]
    received_at: Mapped[datetime]


class Pseudonym(Base):
    """The name under which a user of a review server acts here.

    Drawn at random, so that nobody who knows the users can tell from a release who is who; erase
    the row and the person is anonymous for good.
    """

    __tablename__ = "pseudonym"

    server: Mapped[str] = mapped_column(Text, primary_key=True)
    user_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(32), unique=True)


class Annotator(Base):
    """A person who works at the desk.

    `name` is what colleagues call the person; releases know the pseudonym alone. `project_id`s
    belong to the person's own workspace on `server`, in which nobody else works. `roles` are
    annotator and adjudicator, separated by a space; `state` is active or left.
    """

    __tablename__ = "annotator"

    pseudonym: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    server: Mapped[str] = mapped_column(Text)
    user_id: Mapped[int]
    roles: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    added_at: Mapped[datetime]


class DeskCursor(Base):
    """How far a project on a review server was read, and how much it held (`db.reviews.Cursor`)."""

    __tablename__ = "desk_cursor"

    server: Mapped[str] = mapped_column(Text, primary_key=True)
    project_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    newest: Mapped[datetime]
    found_at: Mapped[datetime]
    read_from: Mapped[datetime]
    tasks: Mapped[int]
    annotations: Mapped[int]


class GoldItem(Base):
    """An item of a queue whose answer is known: what annotators are measured with.

    `origin` says how it is known (adjudicated, or given in a file).
    """

    __tablename__ = "gold_item"

    queue: Mapped[str] = mapped_column(Text, primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True)
    answer: Mapped[dict[str, Any]]
    origin: Mapped[str] = mapped_column(Text)
    added_at: Mapped[datetime]


class GoldCheck(Base):
    """How an annotation compares with the known answer of its gold item."""

    __tablename__ = "gold_check"
    __table_args__ = (Index("ix_gold_check_queue", "queue", "assignee"),)

    annotation_key: Mapped[str] = mapped_column(ForeignKey("annotation.key"), primary_key=True)
    queue: Mapped[str] = mapped_column(Text)
    assignee: Mapped[str] = mapped_column(String(32))
    correct: Mapped[bool]
    answered_at: Mapped[datetime]


class TaskReturn(Base):
    """A use of the rule that returns an annotator's unreviewed work to the queue.

    `rule` holds floor, window and least as they stood; `accuracy` was found over `answers` gold
    answers; `tasks` is how many answers no longer count. `state` is in force or lifted; gold
    answers from before `lifted_at` are held against nobody again.
    """

    __tablename__ = "task_return"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    queue: Mapped[str] = mapped_column(Text, index=True)
    assignee: Mapped[str] = mapped_column(String(32))
    rule: Mapped[dict[str, Any]]
    accuracy: Mapped[float]
    answers: Mapped[int]
    tasks: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    returned_at: Mapped[datetime]
    lifted_at: Mapped[datetime | None]


class SecondLookDraw(Base):
    """A sample of a queue's accepted items, drawn to be looked at again.

    `strata` gives, for each value of what it was stratified `by`, how many accepted items there
    were.
    """

    __tablename__ = "second_look_draw"
    __table_args__ = (UniqueConstraint("queue", "seed", "size", "by"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    queue: Mapped[str] = mapped_column(Text)
    seed: Mapped[int] = mapped_column(Number)
    size: Mapped[int]
    by: Mapped[str] = mapped_column(Text)
    strata: Mapped[dict[str, Any]]
    drawn_at: Mapped[datetime]


class SecondLook(Base):
    """An item of such a sample; what was found is the answer of its `second-look` task."""

    __tablename__ = "second_look"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    draw_id: Mapped[int] = mapped_column(ForeignKey("second_look_draw.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)
    stratum: Mapped[str] = mapped_column(Text)


class Release(Base):
    """An immutable snapshot; `id` is the digest of its manifest.

    The marks say up to where the store was read for it (`db.as_of`): the last entity, decision and
    withdrawal that counted.
    """

    __tablename__ = "release"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    dataset: Mapped[str] = mapped_column(Text)
    version: Mapped[str] = mapped_column(Text)
    folder: Mapped[str] = mapped_column(Text)
    manifest: Mapped[dict[str, Any]]
    built_at: Mapped[datetime]
    entity_mark: Mapped[int] = mapped_column(Number, server_default="0")
    decision_mark: Mapped[int] = mapped_column(Number, server_default="0")
    withdrawal_mark: Mapped[int] = mapped_column(Number, server_default="0")


class ReleaseItem(Base):
    """An entity that is a row, or stands in a row, of a release."""

    __tablename__ = "release_item"

    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class Withdrawal(Base):
    """Something that was taken back, with everything derived from it: by whom, why, how far it is.

    `key` is made from what was asked for, so that asking again finds the same row; `target` is that
    as JSON. `ground` is a word of `schemas.withdrawal`, `reason` the words of who asked, which stay
    here. `erases` says whether bytes go as well. `state` is confirmed, then finished.
    """

    __tablename__ = "withdrawal"

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    target: Mapped[dict[str, Any]]
    ground: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text)
    erases: Mapped[bool]
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    state: Mapped[str] = mapped_column(String(16))
    confirmed_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]


class WithdrawnEntity(Base):
    """An entity that a withdrawal takes back."""

    __tablename__ = "withdrawn_entity"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class WithdrawnDigest(Base):
    """A file that a withdrawal takes back: by its digest.

    `media_type` is None where no file of ours has it (videos, and images as they came).
    `is_refused` says that it is not taken in again, `is_erased` that ours goes, on grounds that
    demand it.
    """

    __tablename__ = "withdrawn_digest"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    media_type: Mapped[str | None] = mapped_column(String(32))
    is_refused: Mapped[bool]
    is_erased: Mapped[bool]


class WithdrawalNotice(Base):
    """What holders of a release are told of a withdrawal, as it was decided with it.

    `notice` is a `schemas.withdrawal.WithdrawalNotice`.
    """

    __tablename__ = "withdrawal_notice"

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    notice: Mapped[dict[str, Any]]


class WithdrawalStep(Base):
    """A step of a withdrawal that was done, and what it came to."""

    __tablename__ = "withdrawal_step"

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    step: Mapped[str] = mapped_column(String(128), primary_key=True)
    told: Mapped[dict[str, Any]]
    done_at: Mapped[datetime]


class Evaluation(Base):
    """What a model scored on a split of a release; `id` is a digest of all that it depends on.

    The release need not have been built here. `result` is a `schemas.evaluation.EvaluationResult`.
    """

    __tablename__ = "evaluation"
    __table_args__ = (Index("ix_evaluation_release_id", "release_id", "split"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    release_id: Mapped[str] = mapped_column(String(64))
    split: Mapped[str] = mapped_column(String(16))
    result: Mapped[dict[str, Any]]
    evaluated_at: Mapped[datetime]


class EmbeddingSpace(Base):
    """A model with its parameters, which decide where an image or a text lies.

    `key` is the digest of model, revision and parameters.
    """

    __tablename__ = "embedding_space"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    model: Mapped[str] = mapped_column(Text)
    revision: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]]
    dimension: Mapped[int]


class Embedding(Base):
    """Where an image or a text lies in a space: float32, little-endian. A cache: it may be emptied.

    `key` is the digest of the space's key, kind and `sha256`, which is that of the image's file, or
    of the text in UTF-8: databases find many rows by one column sooner than by three.
    """

    __tablename__ = "embedding"

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    space_id: Mapped[int] = mapped_column(ForeignKey("embedding_space.id"))
    kind: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    vector: Mapped[bytes] = mapped_column(LargeBinary)
