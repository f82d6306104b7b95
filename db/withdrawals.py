"""The withdrawals that were confirmed, and what each takes back. They are kept for good."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Connection, func, select

from db.agents import AgentKind, AgentRef
from db.store import Store, retried
from db.tables.provenance import Agent, Entity
from db.tables.withdrawals import Withdrawal as WithdrawalRow
from db.tables.withdrawals import WithdrawnDigest, WithdrawnEntity
from db.withdrawal_bytes import Blob
from db.withdrawal_targets import WithdrawalTarget
from schemas.base import canonical_json, digest_of
from schemas.errors import UsageError
from schemas.withdrawal import Ground, WithdrawalCount

CONFIRMED, FINISHED = "confirmed", "finished"


class WithdrawalRequest(NamedTuple):
    """What is asked for: what to take back, why, and whether the bytes go as well."""

    target: WithdrawalTarget
    ground: Ground
    erases: bool


class StoredWithdrawal(NamedTuple):
    """A withdrawal that was confirmed; `key` is what notices and decisions call it by."""

    id: int
    key: str
    request: WithdrawalRequest
    reason: str
    agent: AgentRef
    state: str
    confirmed_at: datetime
    finished_at: datetime | None

    @property
    def is_finished(self) -> bool:
        """Whether all its steps were done."""
        return self.state == FINISHED


def key_of(request: WithdrawalRequest, number: int) -> str:
    """What the withdrawal is called that is the `number`-th (from 0) on the same request."""
    target = canonical_json(request.target.model_dump(mode="json"))
    return digest_of("withdrawal", target, request.ground, str(request.erases), str(number))


def earlier_of(connection: Connection, request: WithdrawalRequest) -> list[StoredWithdrawal]:
    """The withdrawals that were confirmed on the same request, oldest first."""
    found: list[StoredWithdrawal] = []
    while one := read_withdrawals(connection, WithdrawalRow.key == key_of(request, len(found))):
        found += one
    return found


@retried
def list_withdrawals(store: Store) -> list[StoredWithdrawal]:
    """All withdrawals, oldest first."""
    with store.read() as connection:
        return read_withdrawals(connection)


def find_withdrawal(store: Store, name: str) -> StoredWithdrawal:
    """The withdrawal with that number, or whose key begins so.

    Raises:
        UsageError: there is none, or there are several.
    """
    known = list_withdrawals(store)
    found = [one for one in known if str(one.id) == name] or [
        one for one in known if len(name) >= 6 and one.key.startswith(name.lower())
    ]
    if len(found) == 1:
        return found[0]
    told = ", ".join(f"{one.id} ({one.key[:12]})" for one in known)
    count = "no withdrawal" if not found else f"{len(found)} withdrawals"
    raise UsageError(f"{count} can be meant by {name!r}; there are: {told or 'none'}")


def read_withdrawals(connection: Connection, *those: ColumnElement[bool]) -> list[StoredWithdrawal]:
    """The withdrawals for which all of `those` hold, oldest first."""
    rows = connection.execute(_STORED.where(*those).order_by(WithdrawalRow.id))
    return [_stored(row) for row in rows]


@retried
def withdrawn_entities(store: Store, withdrawal: int) -> list[str]:
    """The ids of what a withdrawal takes back, in order."""
    query = select(WithdrawnEntity.entity_id).where(WithdrawnEntity.withdrawal_id == withdrawal)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


@retried
def erased_blobs(store: Store, withdrawal: int) -> list[Blob]:
    """The files that a withdrawal erases."""
    query = select(WithdrawnDigest.sha256, WithdrawnDigest.media_type).where(
        WithdrawnDigest.withdrawal_id == withdrawal, WithdrawnDigest.is_erased
    )
    with store.read() as connection:
        rows = connection.execute(query.order_by(WithdrawnDigest.sha256))
        return [Blob(row.sha256, row.media_type or "") for row in rows]


@retried
def counts_of(store: Store, withdrawal: int) -> list[WithdrawalCount]:
    """What a withdrawal takes back, by dataset and kind."""
    query = (
        select(Entity.dataset, Entity.kind, func.count())
        .join(WithdrawnEntity, WithdrawnEntity.entity_id == Entity.id)
        .where(WithdrawnEntity.withdrawal_id == withdrawal)
        .group_by(Entity.dataset, Entity.kind)
        .order_by(Entity.dataset, Entity.kind)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    return [WithdrawalCount(dataset=row[0], kind=row[1], entities=row[2]) for row in rows]


_STORED = select(
    WithdrawalRow.id,
    WithdrawalRow.key,
    WithdrawalRow.target,
    WithdrawalRow.ground,
    WithdrawalRow.erases,
    WithdrawalRow.reason,
    Agent.kind,
    Agent.name,
    Agent.revision,
    WithdrawalRow.state,
    WithdrawalRow.confirmed_at,
    WithdrawalRow.finished_at,
).join(Agent, Agent.id == WithdrawalRow.agent_id)


def _stored(row: Sequence[Any]) -> StoredWithdrawal:
    id_, key, target, ground, erases, reason, kind, name, revision, state, confirmed, ended = row
    request = WithdrawalRequest(WithdrawalTarget.model_validate(target), ground, erases)
    agent = AgentRef(cast("AgentKind", kind), name, revision)
    return StoredWithdrawal(id_, key, request, reason, agent, state, confirmed, ended)
