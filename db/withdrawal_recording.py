"""Records withdrawals: each whole or not at all, and what has come since within the same one."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from db.agents import AgentRef, register_agents
from db.decisions import NewDecision, append_decisions
from db.engine import insert_new
from db.entities import pages
from db.store import Store, retried
from db.tables.provenance import Entity
from db.tables.withdrawals import Withdrawal as WithdrawalRow
from db.tables.withdrawals import WithdrawalNotice as NoticeRow
from db.tables.withdrawals import WithdrawnDigest, WithdrawnEntity
from db.turns import take_turn
from db.withdrawal_bytes import Blob
from db.withdrawal_steps import insert_step
from db.withdrawals import (
    CONFIRMED,
    FINISHED,
    StoredWithdrawal,
    WithdrawalRequest,
    read_withdrawals,
)
from schemas.errors import UsageError
from schemas.withdrawal import WithdrawalNotice

DECIDER = AgentRef("software", "loupe-withdrawal")
"""Who decides in the graph. Who confirmed it is a person by name, which no release may tell."""
_JUDGEMENT_TAKEN_BACK = "who judged it takes the judgement back"


class NewWithdrawal(NamedTuple):
    """All that is recorded of a withdrawal as it is confirmed.

    Attributes:
        key: what it is called (`key_of`).
        request: what was asked for.
        reason: the words of who asked.
        agent: who confirmed it.
        told: what is noted of it as its first step.
        entities: what it takes back, by id.
        reopened: what is to be decided on anew, as the judgement itself is taken back.
        refused: digests that are not taken in again.
        erased: files that go.
        notices: what holders of releases are told.
    """

    key: str
    request: WithdrawalRequest
    reason: str
    agent: AgentRef
    told: Mapping[str, Any]
    entities: Collection[str]
    reopened: Collection[str]
    refused: Collection[str]
    erased: Collection[Blob]
    notices: Sequence[WithdrawalNotice]


@retried
def record_withdrawal(
    store: Store, new: NewWithdrawal, still_so: Callable[[Connection], bool]
) -> StoredWithdrawal:
    """Stores a withdrawal with its decisions: all of it, or nothing.

    Withdrawals are recorded, and releases stored, one after the other. `still_so` is asked first,
    in the same transaction, whether what was confirmed is what would go now.

    Raises:
        UsageError: it would not; nothing was stored.
    """
    with store.write() as connection:
        take_turn(connection)
        if not still_so(connection):
            raise UsageError(
                "what hangs on it, or what was released, has changed since it was shown, so "
                "nothing was withdrawn; run the command again to see what goes now"
            )
        stored = _insert(connection, new)
        take_back(connection, stored, new.entities)
        reopened = [
            NewDecision(one, "reopen", DECIDER, _JUDGEMENT_TAKEN_BACK) for one in new.reopened
        ]
        append_decisions(connection, reopened)
    return stored


@retried
def extend_withdrawal(
    store: Store,
    withdrawal: StoredWithdrawal,
    entities: Collection[str],
    refused: Collection[str],
    erased: Collection[Blob],
) -> None:
    """Adds to a withdrawal what has come since: entities, with their decisions, and files.

    Where there are any entities, one that was finished is open again.
    """
    with store.write() as connection:
        take_turn(connection)
        if entities:
            opened_again(connection, [withdrawal.id])
        insert_new(connection, WithdrawnDigest, _digests(withdrawal.id, refused, erased))
        take_back(connection, withdrawal, entities)


def opened_again(connection: Connection, withdrawals: Collection[int]) -> list[StoredWithdrawal]:
    """These withdrawals, oldest first; none is finished any more, nor becomes so meanwhile."""
    found: list[StoredWithdrawal] = []
    for page in pages(sorted(withdrawals)):
        here = WithdrawalRow.id.in_(page)
        locked = select(WithdrawalRow.id).where(here).order_by(WithdrawalRow.id)
        connection.execute(locked.with_for_update())
        connection.execute(
            update(WithdrawalRow)
            .where(here, WithdrawalRow.state == FINISHED)
            .values(state=CONFIRMED, finished_at=None)
        )
        found += read_withdrawals(connection, here)
    return found


def take_back(
    connection: Connection, withdrawal: StoredWithdrawal, entity_ids: Collection[str]
) -> None:
    """Adds entities to what a withdrawal takes back, and decides on them.

    What it takes back already stays; on what was withdrawn before it was decided already.
    """
    reason = f"withdrawal {withdrawal.key[:12]}: {withdrawal.request.ground}"
    standing = select(Entity.id).where(Entity.state != "withdrawn").order_by(Entity.id)
    for page in pages(sorted(entity_ids)):
        rows = [{"withdrawal_id": withdrawal.id, "entity_id": one} for one in page]
        insert_new(connection, WithdrawnEntity, rows)
        ids = connection.execute(standing.where(Entity.id.in_(page))).scalars()
        append_decisions(connection, [NewDecision(one, "withdraw", DECIDER, reason) for one in ids])


def _insert(connection: Connection, new: NewWithdrawal) -> StoredWithdrawal:
    """Inserts all of a withdrawal but what it takes back of the graph."""
    id_ = _insert_row(connection, new)
    for page in pages(_digests(id_, new.refused, new.erased)):
        connection.execute(insert(WithdrawnDigest), page)
    for page in pages(_notices(id_, new.notices)):
        connection.execute(insert(NoticeRow), page)
    insert_step(connection, id_, CONFIRMED, new.told)
    (stored,) = read_withdrawals(connection, WithdrawalRow.id == id_)
    return stored


def _insert_row(connection: Connection, new: NewWithdrawal) -> int:
    (agent_id,) = register_agents(connection, [new.agent])
    row = {
        "key": new.key,
        "target": new.request.target.model_dump(mode="json"),
        "ground": new.request.ground,
        "reason": new.reason,
        "erases": new.request.erases,
        "agent_id": agent_id,
        "state": CONFIRMED,
        "confirmed_at": datetime.now(UTC),
    }
    inserted = connection.execute(insert(WithdrawalRow).returning(WithdrawalRow.id), row)
    return inserted.scalar_one()


def _digests(
    withdrawal: int, refused: Collection[str], erased: Collection[Blob]
) -> list[dict[str, Any]]:
    media_types = {blob.sha256: blob.media_type for blob in erased}
    wanted = set(refused)
    return [
        {
            "sha256": sha256,
            "withdrawal_id": withdrawal,
            "media_type": media_types.get(sha256),
            "is_refused": sha256 in wanted,
            "is_erased": sha256 in media_types,
        }
        for sha256 in sorted(wanted | media_types.keys())
    ]


def _notices(withdrawal: int, notices: Iterable[WithdrawalNotice]) -> list[dict[str, Any]]:
    return [
        {
            "withdrawal_id": withdrawal,
            "release_id": one.release,
            "notice": one.model_dump(mode="json"),
        }
        for one in notices
    ]
