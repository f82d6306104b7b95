"""Quarantine: what stages could not use, with the reason of each."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import delete, func, select, update

from db.store import Store, retried
from db.tables.provenance import Activity, Plan
from db.tables.work import ModelCall, Work
from schemas.provenance import ANSWERED
from schemas.records import Rejection


class QuarantineCount(NamedTuple):
    """How many inputs a stage rejected for a reason."""

    dataset: str
    stage: str
    reason: str
    inputs: int


@retried
def quarantine_counts(
    store: Store, dataset: str | None = None, reason: str | None = None
) -> list[QuarantineCount]:
    """Rejected inputs by dataset, stage and reason."""
    query = (
        select(Activity.dataset, Plan.stage, Work.reason, func.count())
        .join(Plan, Plan.id == Work.plan_id)
        .join(Activity, Activity.id == Work.activity_id)
        .where(Work.status == "rejected")
        .group_by(Activity.dataset, Plan.stage, Work.reason)
        .order_by(Activity.dataset, Plan.stage, Work.reason)
    )
    if dataset is not None:
        query = query.where(Activity.dataset == dataset)
    if reason is not None:
        query = query.where(Work.reason == reason)
    with store.read() as connection:
        return [
            QuarantineCount(row[0], row[1], row[2] or "", row[3])
            for row in connection.execute(query)
        ]


def quarantined(
    store: Store, dataset: str, reason: str | None = None, limit: int | None = None
) -> Iterator[Rejection]:
    """The rejections of a dataset, in the order of their inputs."""
    query = (
        select(Work.rejection)
        .join(Activity, Activity.id == Work.activity_id)
        .where(Work.status == "rejected", Activity.dataset == dataset)
        .order_by(Work.plan_id, Work.input)
        .limit(limit)
    )
    if reason is not None:
        query = query.where(Work.reason == reason)
    with store.read() as connection:
        for text in connection.execute(query).scalars():
            yield Rejection.model_validate_json(text or "{}")


@retried
def put_back(store: Store, dataset: str, reason: str) -> int:
    """Releases the inputs that were rejected for a reason from quarantine; gives how many.

    They are pending again: the next run treats them as new, and its results replace the earlier
    ones. Calls that failed for that reason are repeated; they stay in the bill under other keys.
    """
    own = select(Activity.id).where(Activity.dataset == dataset)
    rejected = Work.status == "rejected", Work.reason == reason, Work.activity_id.in_(own)
    failed = (
        ModelCall.status == reason,
        ModelCall.status.not_in(ANSWERED),
        ModelCall.dataset == dataset,
    )
    with store.write() as connection:
        for key in connection.execute(select(ModelCall.key).where(*failed)).scalars().all():
            released = update(ModelCall).where(ModelCall.key == key).values(key=uuid4().hex)
            connection.execute(released)
        return connection.execute(delete(Work).where(*rejected)).rowcount
