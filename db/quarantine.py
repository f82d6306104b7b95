"""Quarantine: what stages could not use, with the reason of each."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import delete, func, select

from db.store import Store
from db.tables.provenance import Activity, Plan
from db.tables.work import Work
from schemas.records import Rejection


class QuarantineCount(NamedTuple):
    """How many inputs a stage rejected for a reason."""

    dataset: str
    stage: str
    reason: str
    inputs: int


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


def put_back(store: Store, dataset: str, reason: str) -> int:
    """Takes the inputs that were rejected for a reason out of quarantine; how many there were.

    They are pending again: the next run works on them as if they were new, and whatever it finds
    takes the place of what was found before.
    """
    own = select(Activity.id).where(Activity.dataset == dataset)
    rejected = Work.status == "rejected", Work.reason == reason, Work.activity_id.in_(own)
    with store.write() as connection:
        return connection.execute(delete(Work).where(*rejected)).rowcount
