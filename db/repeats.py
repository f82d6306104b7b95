"""Work that is tried or judged again: how often it was tried, and verdicts that no longer hold."""

from collections.abc import Iterable

from sqlalchemy import delete, func, select

from db.entities import pages
from db.store import Store, retried
from db.tables.provenance import Plan
from db.tables.work import Work
from schemas.records import Rejection


@retried
def count_plans(store: Store, stage: str, inputs: Iterable[int]) -> dict[int, int]:
    """By how many plans of a stage each of the inputs was worked on; none of those without."""
    plans = select(Plan.id).where(Plan.stage == stage)
    counts: dict[int, int] = {}
    with store.read() as connection:
        for page in pages(inputs):
            query = (
                select(Work.input, func.count())
                .where(Work.plan_id.in_(plans), Work.input.in_(page))
                .group_by(Work.input)
            )
            counts.update((input_, count) for input_, count in connection.execute(query))
    return counts


@retried
def rejections_of(store: Store, plan_id: int, inputs: Iterable[int]) -> dict[int, Rejection]:
    """Why a plan rejected inputs; none of those that it did not reject."""
    found: dict[int, Rejection] = {}
    with store.read() as connection:
        for page in pages(inputs):
            query = select(Work.input, Work.rejection).where(
                Work.plan_id == plan_id, Work.status == "rejected", Work.input.in_(page)
            )
            for input_, text in connection.execute(query):
                found[input_] = Rejection.model_validate_json(text or "{}")
    return found


@retried
def take_back(store: Store, plan_id: int, inputs: Iterable[int]) -> int:
    """Forgets that a plan rejected these inputs: they are pending again; how many there were."""
    taken = 0
    with store.write() as connection:
        for page in pages(inputs):
            rejected = delete(Work).where(
                Work.plan_id == plan_id, Work.status == "rejected", Work.input.in_(page)
            )
            taken += connection.execute(rejected).rowcount
    return taken
