"""Confirmed withdrawals: their entities, their steps, and the notices for holders of releases."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, NewEntity, pages, register_agents, rows_in
from loupe.db.roles import CascadePolicy, cascade_policy
from loupe.db.store import Store, acquire_release_lock, reads, writes
from loupe.db.tables import (
    Agent,
    Entity,
    Release,
    ReleaseItem,
    WithdrawalStep,
    WithdrawnDigest,
    WithdrawnEntity,
    insert_new,
)
from loupe.db.tables import Withdrawal as WithdrawalRow
from loupe.db.tables import WithdrawalNotice as NoticeRow
from loupe.db.withdrawal_graph import Blob, WithdrawalTarget, contrast_method, own_digests
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.errors import UsageError
from loupe.schemas.provenance import Role
from loupe.schemas.withdrawal import Ground, WithdrawalCount, WithdrawalNotice, version_numbers


@reads
def refused_files(connection: Connection) -> dict[str, str]:
    """Return the digests that are not imported again, with the key of their first withdrawal."""
    query = (
        select(WithdrawnDigest.sha256, WithdrawalRow.key)
        .join(WithdrawalRow, WithdrawalRow.id == WithdrawnDigest.withdrawal_id)
        .where(WithdrawnDigest.is_refused)
        .order_by(WithdrawalRow.id.desc())
    )
    return {row.sha256: row.key for row in connection.execute(query)}


@reads
def withdrawn_digests(connection: Connection, dataset: str) -> set[str]:
    """Return the digests of refused and erased files, and of the dataset's withdrawn images."""
    covered = WithdrawnDigest.is_refused | WithdrawnDigest.is_erased
    digests = set(connection.execute(select(WithdrawnDigest.sha256).where(covered)).scalars())
    images = select(Entity.kind, Entity.payload).where(
        Entity.dataset == dataset, Entity.kind == "image", Entity.state == "withdrawn"
    )
    for kind, payload in connection.execute(images):
        digests |= own_digests(kind, payload)
    return digests


CONFIRMED, FINISHED = "confirmed", "finished"


class WithdrawalRequest(NamedTuple):
    """The target of a withdrawal, its ground, and whether files are erased."""

    target: WithdrawalTarget
    ground: Ground
    erases: bool


class StoredWithdrawal(NamedTuple):
    """A confirmed withdrawal; notices and decisions refer to it by its `key`."""

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
        """Whether all its steps are completed."""
        return self.state == FINISHED


def key_of(request: WithdrawalRequest, number: int) -> str:
    """Return the key of the `number`-th withdrawal (from 0) for the same request."""
    target = canonical_json(request.target.model_dump(mode="json"))
    return digest_of("withdrawal", target, request.ground, str(request.erases), str(number))


def earlier_of(connection: Connection, request: WithdrawalRequest) -> list[StoredWithdrawal]:
    """Return the earlier withdrawals for the same request, oldest first."""
    found: list[StoredWithdrawal] = []
    while one := _read_withdrawals(connection, WithdrawalRow.key == key_of(request, len(found))):
        found += one
    return found


@reads
def list_withdrawals(connection: Connection) -> list[StoredWithdrawal]:
    """Return all withdrawals, oldest first."""
    return _read_withdrawals(connection)


def find_withdrawal(store: Store, name: str) -> StoredWithdrawal:
    """Return the withdrawal with that number, or whose key begins with `name`.

    Raises:
        UsageError: no withdrawal, or several, match.
    """
    known = list_withdrawals(store)
    found = [one for one in known if str(one.id) == name] or [
        one for one in known if len(name) >= 6 and one.key.startswith(name.lower())
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{one.id} ({one.key[:12]})" for one in known)
    count = "no withdrawal" if not found else f"{len(found)} withdrawals"
    raise UsageError(f"{count} named {name!r}; there are: {names or 'none'}")


def _read_withdrawals(
    connection: Connection, *those: ColumnElement[bool]
) -> list[StoredWithdrawal]:
    """Return the withdrawals that match all of `those`, oldest first."""
    query = select(WithdrawalRow.__table__, Agent.kind, Agent.name, Agent.revision)
    query = query.join(Agent, Agent.id == WithdrawalRow.agent_id).where(*those)
    return [
        StoredWithdrawal(
            row.id,
            row.key,
            WithdrawalRequest(WithdrawalTarget(**row.target), row.ground, row.erases),
            row.reason,
            AgentRef(row.kind, row.name, row.revision),
            row.state,
            row.confirmed_at,
            row.finished_at,
        )
        for row in connection.execute(query.order_by(WithdrawalRow.id))
    ]


@reads
def withdrawn_entities(connection: Connection, withdrawal: int) -> list[str]:
    """Return the ids of the entities of a withdrawal, in order."""
    query = select(WithdrawnEntity.entity_id).where(WithdrawnEntity.withdrawal_id == withdrawal)
    return sorted(connection.execute(query).scalars())


@reads
def erased_blobs(connection: Connection, withdrawal: int) -> list[Blob]:
    """Return the files that a withdrawal erases."""
    query = select(WithdrawnDigest.sha256, WithdrawnDigest.media_type).where(
        WithdrawnDigest.withdrawal_id == withdrawal, WithdrawnDigest.is_erased
    )
    rows = connection.execute(query.order_by(WithdrawnDigest.sha256))
    return [Blob(row.sha256, row.media_type or "") for row in rows]


@reads
def counts_of(connection: Connection, withdrawal: int) -> list[WithdrawalCount]:
    """Count the entities of a withdrawal by dataset and kind."""
    query = (
        select(Entity.dataset, Entity.kind, func.count())
        .join(WithdrawnEntity, WithdrawnEntity.entity_id == Entity.id)
        .where(WithdrawnEntity.withdrawal_id == withdrawal)
        .group_by(Entity.dataset, Entity.kind)
        .order_by(Entity.dataset, Entity.kind)
    )
    rows = connection.execute(query).all()
    return [WithdrawalCount(dataset=row[0], kind=row[1], entities=row[2]) for row in rows]


# Completed steps of a withdrawal.


class DoneStep(NamedTuple):
    """A completed step, its details, and its time."""

    step: str
    details: dict[str, Any]
    done_at: datetime


@writes
def record_step(
    connection: Connection, withdrawal: int, step: str, details: Mapping[str, Any]
) -> None:
    """Record a completed step; if it is recorded already, the first details are kept."""
    row = {
        "withdrawal_id": withdrawal,
        "step": step,
        "details": dict(details),
        "done_at": datetime.now(UTC),
    }
    insert_new(connection, WithdrawalStep, [row])


@reads
def steps_of(connection: Connection, withdrawal: int) -> list[DoneStep]:
    """Return the completed steps, in order."""
    query = select(WithdrawalStep.step, WithdrawalStep.details, WithdrawalStep.done_at)
    query = query.where(WithdrawalStep.withdrawal_id == withdrawal)
    rows = connection.execute(query.order_by(WithdrawalStep.done_at, WithdrawalStep.step))
    return [DoneStep._make(row) for row in rows]


def confirmed_details(store: Store, withdrawal: int) -> Mapping[str, Any]:
    """Return what was planned when a withdrawal was confirmed (`loupe.flows.withdrawal.plan`)."""
    (first,) = (one for one in steps_of(store, withdrawal) if one.step == CONFIRMED)
    return first.details


@writes
def finish(connection: Connection, withdrawal: int, entities: int) -> bool:
    """Record that all steps are completed on its `entities`; the first time is kept.

    Returns False, and records nothing, if it has more entities by then.
    """
    own = WithdrawalRow.id == withdrawal
    taken = select(func.count()).where(WithdrawnEntity.withdrawal_id == withdrawal)
    connection.execute(select(WithdrawalRow.id).where(own).with_for_update())
    if connection.execute(taken).scalar_one() != entities:
        return False
    connection.execute(
        update(WithdrawalRow)
        .where(own, WithdrawalRow.state != FINISHED)
        .values(state=FINISHED, finished_at=datetime.now(UTC))
    )
    return True


# Record a withdrawal in one transaction.

_DECIDER = AgentRef("software", "loupe-withdrawal")
"""The agent of the decisions: releases must not name the person who confirmed the withdrawal."""
_JUDGEMENT_WITHDRAWN = "the judgement was withdrawn"


@writes
def record_withdrawal(
    connection: Connection,
    key: str,
    request: WithdrawalRequest,
    reason: str,
    agent: AgentRef,
    is_unchanged: Callable[[Connection], bool] = lambda _connection: True,
    *,
    details: Mapping[str, Any],
    entities: Collection[str],
    reopened: Collection[str] = (),
    refused: Collection[str] = (),
    erased: Collection[Blob] = (),
    notices: Sequence[WithdrawalNotice] = (),
) -> StoredWithdrawal:
    """Store a withdrawal with its decisions: everything or nothing.

    A lock serialises this with the storing of releases.

    Args:
        connection: a connection or a store.
        key: its name (`key_of`).
        request: the target, the ground, and whether files are erased.
        reason: what the person who requested it wrote.
        agent: the person who confirmed it.
        is_unchanged: called first, in the same transaction; returns whether the confirmed plan is
            still valid.
        details: the details of its first step.
        entities: the entities to withdraw, by id.
        reopened: entities to decide on again, because the judgement is withdrawn.
        refused: digests that are not imported again.
        erased: files to erase.
        notices: the notices for holders of releases.

    Raises:
        UsageError: the plan has changed; nothing was stored.
    """
    acquire_release_lock(connection)
    if not is_unchanged(connection):
        raise UsageError(
            "the derived items or the releases have changed since the plan was shown, so nothing "
            "was withdrawn; run the command again to see the new plan"
        )
    (agent_id,) = register_agents(connection, [agent])
    row = {
        "key": key,
        "target": request.target.model_dump(mode="json"),
        "ground": request.ground,
        "reason": reason,
        "erases": request.erases,
        "agent_id": agent_id,
        "state": CONFIRMED,
        "confirmed_at": datetime.now(UTC),
    }
    inserted = connection.execute(insert(WithdrawalRow).returning(WithdrawalRow.id), row)
    id_ = inserted.scalar_one()
    _insert_digests(connection, id_, refused, erased)
    rows = [
        {"withdrawal_id": id_, "release_id": one.release, "notice": one.model_dump(mode="json")}
        for one in notices
    ]
    insert_new(connection, NoticeRow, rows)
    record_step(connection, id_, CONFIRMED, details)
    (stored,) = _read_withdrawals(connection, WithdrawalRow.id == id_)
    withdraw_entities(connection, stored, entities)
    append_decisions(
        connection,
        [NewDecision(one, "reopen", _DECIDER, _JUDGEMENT_WITHDRAWN) for one in reopened],
    )
    return stored


def _insert_digests(
    connection: Connection, withdrawal: int, refused: Collection[str], erased: Collection[Blob]
) -> None:
    """Add files to those that a withdrawal refuses or erases; existing rows are not changed."""
    media_types = {blob.sha256: blob.media_type for blob in erased}
    wanted = set(refused)
    rows = [
        {
            "sha256": sha256,
            "withdrawal_id": withdrawal,
            "media_type": media_types.get(sha256),
            "is_refused": sha256 in wanted,
            "is_erased": sha256 in media_types,
        }
        for sha256 in sorted(wanted | media_types.keys())
    ]
    insert_new(connection, WithdrawnDigest, rows)


@writes
def extend_withdrawal(
    connection: Connection,
    withdrawal: StoredWithdrawal,
    entities: Collection[str],
    refused: Collection[str],
    erased: Collection[Blob],
) -> None:
    """Add entities, with their decisions, and files to a withdrawal.

    If there are any entities, a finished withdrawal is reopened.
    """
    acquire_release_lock(connection)
    if entities:
        _reopen_withdrawals(connection, [withdrawal.id])
    _insert_digests(connection, withdrawal.id, refused, erased)
    withdraw_entities(connection, withdrawal, entities)


def _reopen_withdrawals(
    connection: Connection, withdrawals: Collection[int]
) -> list[StoredWithdrawal]:
    """Lock withdrawals and reopen finished ones; return them, oldest first."""
    here = WithdrawalRow.id.in_(sorted(withdrawals))
    locked = select(WithdrawalRow.id).where(here).order_by(WithdrawalRow.id)
    connection.execute(locked.with_for_update())
    finished = update(WithdrawalRow).where(here, WithdrawalRow.state == FINISHED)
    connection.execute(finished.values(state=CONFIRMED, finished_at=None))
    return _read_withdrawals(connection, here)


def withdraw_entities(
    connection: Connection, withdrawal: StoredWithdrawal, entity_ids: Collection[str]
) -> None:
    """Add entities to a withdrawal, and withdraw those that are not withdrawn yet."""
    reason = f"withdrawal {withdrawal.key[:12]}: {withdrawal.request.ground}"
    active = select(Entity.id).where(Entity.state != "withdrawn").order_by(Entity.id)
    for page in pages(sorted(entity_ids)):
        rows = [{"withdrawal_id": withdrawal.id, "entity_id": one} for one in page]
        insert_new(connection, WithdrawnEntity, rows)
        ids = connection.execute(active.where(Entity.id.in_(page))).scalars()
        append_decisions(
            connection, [NewDecision(one, "withdraw", _DECIDER, reason) for one in ids]
        )


def withdraw_late_children(connection: Connection, entities: Sequence[NewEntity]) -> None:
    """Withdraw those of `entities` whose parents are withdrawn, if their roles require it.

    It runs in the transaction that stores them. The withdrawals of the parents are reopened, so
    that their steps are repeated for these entities. If nothing was ever withdrawn, this is one
    query.
    """
    if connection.exec_driver_sql("SELECT 1 FROM withdrawal LIMIT 1").first() is None:
        return
    by_entity: dict[str, set[int]] = defaultdict(set)
    query = select(WithdrawnEntity.entity_id, WithdrawnEntity.withdrawal_id)
    parents = sorted({parent for one in entities for _, parent in one.parents})
    for id_, withdrawal in rows_in(connection, query, WithdrawnEntity.entity_id, parents):
        by_entity[id_].add(withdrawal)
    late: dict[int, set[str]] = defaultdict(set)
    is_changed = bool(by_entity)
    while is_changed:  # repeat until no descendant is added, whatever the order of entities
        is_changed = False
        for one in entities:
            found = {
                withdrawal
                for role, parent in one.parents
                if parent in by_entity and _is_withdrawn_with(one, role)
                for withdrawal in by_entity[parent]
                if one.id not in late[withdrawal]
            }
            for withdrawal in found:
                late[withdrawal].add(one.id)
                by_entity[one.id].add(withdrawal)
                is_changed = True
    for stored in _reopen_withdrawals(connection, [number for number in late if late[number]]):
        withdraw_entities(connection, stored, late[stored.id])


def _is_withdrawn_with(entity: NewEntity, role: str) -> bool:
    """Return whether an entity is withdrawn with its parent in a role."""
    method = contrast_method(entity.payload) if role == Role.CONTRAST_OF else None
    return cascade_policy(role, method) is not CascadePolicy.KEEP


# Releases that hold withdrawn entities, and the notices for their holders.


def releases_holding(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """Return the ids of the releases that hold any of these entities."""
    query = select(ReleaseItem.release_id).distinct()
    return {id_ for (id_,) in rows_in(connection, query, ReleaseItem.entity_id, sorted(entity_ids))}


def related_releases(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """Return the ids of all releases of each dataset with a release that holds these entities."""
    holding = releases_holding(connection, entity_ids)
    datasets = rows_in(connection, select(Release.dataset), Release.id, holding)
    related = select(Release.id).where(Release.dataset.in_({dataset for (dataset,) in datasets}))
    return set(connection.execute(related).scalars())


@reads
def notices_of(connection: Connection, withdrawal: int | None = None) -> list[WithdrawalNotice]:
    """Return the notices of one withdrawal, or of all, by dataset and version."""
    those = () if withdrawal is None else (NoticeRow.withdrawal_id == withdrawal,)
    return _notices(connection, *those)


def dataset_notices(connection: Connection, dataset: str, mark: int) -> list[WithdrawalNotice]:
    """Return the notices of a dataset from the withdrawals up to `mark`."""
    found = _notices(connection, NoticeRow.withdrawal_id <= mark)
    return [one for one in found if one.dataset == dataset]


def _notices(connection: Connection, *where: ColumnElement[bool]) -> list[WithdrawalNotice]:
    query = select(NoticeRow.notice).where(*where).order_by(NoticeRow.withdrawal_id)
    found = [WithdrawalNotice.model_validate(row) for row in connection.execute(query).scalars()]
    return sorted(found, key=lambda one: (one.dataset, version_numbers(one.version)))
