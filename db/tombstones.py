"""Files that are not taken in again, because they were withdrawn."""

from sqlalchemy import func, select

from db.store import Store, retried
from db.tables.withdrawals import Withdrawal, WithdrawnDigest


@retried
def count_refused(store: Store) -> int:
    """How many entries there are of files that are not taken in again."""
    query = select(func.count()).select_from(WithdrawnDigest).where(WithdrawnDigest.is_refused)
    with store.read() as connection:
        return connection.execute(query).scalar_one()


@retried
def refused_files(store: Store) -> dict[str, str]:
    """For each digest that is not taken in again the key of the first withdrawal that says so."""
    query = (
        select(WithdrawnDigest.sha256, Withdrawal.key)
        .join(Withdrawal, Withdrawal.id == WithdrawnDigest.withdrawal_id)
        .where(WithdrawnDigest.is_refused)
        .order_by(Withdrawal.id.desc())
    )
    with store.read() as connection:
        return {row.sha256: row.key for row in connection.execute(query)}
