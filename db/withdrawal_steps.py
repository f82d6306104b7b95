"""The steps of a withdrawal: which were done, what each came to, and when all were."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select, update

from db.engine import insert_new
from db.store import Store, retried
from db.tables.withdrawals import Withdrawal as WithdrawalRow
from db.tables.withdrawals import WithdrawalStep, WithdrawnEntity
from db.withdrawals import CONFIRMED, FINISHED


class DoneStep(NamedTuple):
    """A step that was done, what it came to, and when."""

    step: str
    told: dict[str, Any]
    done_at: datetime


@retried
def record_step(store: Store, withdrawal: int, step: str, told: Mapping[str, Any]) -> None:
    """Notes that a step was done; done again, what was told first stays."""
    with store.write() as connection:
        insert_step(connection, withdrawal, step, told)


def insert_step(
    connection: Connection, withdrawal: int, step: str, told: Mapping[str, Any]
) -> None:
    """Notes that a step was done, in a transaction that is open."""
    row = {
        "withdrawal_id": withdrawal,
        "step": step,
        "told": dict(told),
        "done_at": datetime.now(UTC),
    }
    insert_new(connection, WithdrawalStep, [row])


@retried
def steps_of(store: Store, withdrawal: int) -> list[DoneStep]:
    """The steps that were done, in their order."""
    query = select(WithdrawalStep.step, WithdrawalStep.told, WithdrawalStep.done_at)
    query = query.where(WithdrawalStep.withdrawal_id == withdrawal)
    with store.read() as connection:
        rows = connection.execute(query.order_by(WithdrawalStep.done_at, WithdrawalStep.step))
        return [DoneStep._make(row) for row in rows]


def confirmed_patches(store: Store, withdrawal: int) -> list[dict[str, Any]]:
    """The releases to be built, as they were told when the withdrawal was confirmed."""
    (first,) = (one for one in steps_of(store, withdrawal) if one.step == CONFIRMED)
    return list(first.told["patches"])


@retried
def finish(store: Store, withdrawal: int, entities: int) -> bool:
    """Notes that all steps were done on its `entities`; done again, the first time stays.

    False, and nothing is noted, where it takes back more than so many by now.
    """
    own = WithdrawalRow.id == withdrawal
    taken = select(func.count()).where(WithdrawnEntity.withdrawal_id == withdrawal)
    with store.write() as connection:
        connection.execute(select(WithdrawalRow.id).where(own).with_for_update())
        if connection.execute(taken).scalar_one() != entities:
            return False
        connection.execute(
            update(WithdrawalRow)
            .where(own, WithdrawalRow.state != FINISHED)
            .values(state=FINISHED, finished_at=datetime.now(UTC))
        )
    return True
