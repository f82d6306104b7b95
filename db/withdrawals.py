"""Withdrawals that were confirmed: recorded, their steps, and what holders are told."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from db.decisions import NewDecision, append_decisions
from db.engine import insert_new
from db.entities import AgentKind, AgentRef, NewEntity, pages, register_agents
from db.releases import REFERRED, acquire_release_lock
from db.store import Store, retried
from db.tables.provenance import Agent, Entity
from db.tables.releases import Release, ReleaseItem
from db.tables.withdrawals import Withdrawal, WithdrawalStep, WithdrawnDigest, WithdrawnEntity
from db.tables.withdrawals import Withdrawal as WithdrawalRow
from db.tables.withdrawals import WithdrawalNotice as NoticeRow
from db.withdrawal_graph import CONTRAST, Blob, CascadePolicy, WithdrawalTarget, bond_of
from schemas.base import canonical_json, digest_of
from schemas.errors import UsageError
from schemas.withdrawal import Ground, WithdrawalCount, WithdrawalNotice

# Files that are not taken in again, because they were withdrawn.


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


# The withdrawals that were confirmed, and what each takes back. They are kept for good.

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


# The steps of a withdrawal: which were done, what each came to, and when all were.


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


# Records withdrawals: each whole or not at all, and what has come since within the same one.

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
        acquire_release_lock(connection)
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
        acquire_release_lock(connection)
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


# What a run that is under way makes of things that were withdrawn meanwhile.

_Taken = dict[str, set[int]]


def withdraw_late_children(connection: Connection, entities: Sequence[NewEntity]) -> None:
    """Withdraws, in the transaction that stores them, those of `entities` that go with a parent.

    They are taken back by the same withdrawals as the parent, where their role says so
    (`db.withdrawal_graph`). Those are open again, to be carried out on what else is left of them.
    Where nothing was ever withdrawn this is one query.
    """
    if connection.exec_driver_sql("SELECT 1 FROM withdrawal LIMIT 1").first() is None:
        return
    taken = _taken(connection, {parent for one in entities for _, parent in one.parents})
    if not taken:
        return
    late: dict[int, set[str]] = {}
    while found := _next(entities, taken, late):
        for withdrawal, id_ in found:
            late.setdefault(withdrawal, set()).add(id_)
            taken.setdefault(id_, set()).add(withdrawal)
    for stored in opened_again(connection, late):
        take_back(connection, stored, late[stored.id])


def _next(
    entities: Iterable[NewEntity], taken: _Taken, late: dict[int, set[str]]
) -> list[tuple[int, str]]:
    """(withdrawal, id) of those whose parents are taken by it, and that are not known to be."""
    return [
        (withdrawal, entity.id)
        for entity in entities
        for role, parent in entity.parents
        if parent in taken and _goes(entity, role)
        for withdrawal in taken[parent]
        if entity.id not in late.get(withdrawal, ())
    ]


def _goes(entity: NewEntity, role: str) -> bool:
    way = None
    if role == CONTRAST:
        way = (json.loads(entity.payload).get("contrast") or {}).get("way")
    return bond_of(role, way) is not CascadePolicy.REFERS


def _taken(connection: Connection, ids: Iterable[str]) -> _Taken:
    """The withdrawals, by number, of those among `ids` that were taken back."""
    found: _Taken = {}
    query = select(WithdrawnEntity.entity_id, WithdrawnEntity.withdrawal_id)
    for page in pages(sorted(ids)):
        for id_, withdrawal in connection.execute(query.where(WithdrawnEntity.entity_id.in_(page))):
            found.setdefault(id_, set()).add(withdrawal)
    return found


# The releases that hold what was withdrawn, and what their holders are told.


def releases_holding(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """The ids of the releases in which any of these entities stands."""
    found: set[str] = set()
    query = select(ReleaseItem.release_id).distinct()
    for page in pages(sorted(entity_ids)):
        found.update(connection.execute(query.where(ReleaseItem.entity_id.in_(page))).scalars())
    return found


def releases_beside(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """The ids of all releases of those datasets of which one holds any of these entities."""
    datasets: set[str] = set()
    query = select(Release.dataset).distinct()
    for page in pages(releases_holding(connection, entity_ids)):
        datasets.update(connection.execute(query.where(Release.id.in_(page))).scalars())
    beside = select(Release.id).where(Release.dataset.in_(datasets))
    return set(connection.execute(beside).scalars())


@retried
def holding_releases(store: Store, withdrawal: int) -> set[str]:
    """The ids of the releases in which anything stands that a withdrawal takes back."""
    query = (
        select(ReleaseItem.release_id)
        .distinct()
        .join(WithdrawnEntity, WithdrawnEntity.entity_id == ReleaseItem.entity_id)
        .join(Entity, Entity.id == ReleaseItem.entity_id)
        .where(WithdrawnEntity.withdrawal_id == withdrawal, Entity.kind.not_in(REFERRED))
    )
    with store.read() as connection:
        return set(connection.execute(query).scalars())


@retried
def notices_of(store: Store, withdrawal: int) -> list[WithdrawalNotice]:
    """What a withdrawal tells holders of releases, by dataset and version."""
    query = select(NoticeRow.notice).where(NoticeRow.withdrawal_id == withdrawal)
    with store.read() as connection:
        return _withdrawal_notices_notices(connection.execute(query).scalars())


@retried
def all_notices(store: Store) -> list[WithdrawalNotice]:
    """What holders of all releases are told of all withdrawals, by dataset and version."""
    query = select(NoticeRow.notice).order_by(NoticeRow.withdrawal_id)
    with store.read() as connection:
        return _withdrawal_notices_notices(connection.execute(query).scalars())


def dataset_notices(connection: Connection, dataset: str, mark: int) -> list[WithdrawalNotice]:
    """What holders of all releases of a dataset are told of the withdrawals up to `mark`."""
    query = select(NoticeRow.notice).where(NoticeRow.withdrawal_id <= mark)
    found = _withdrawal_notices_notices(
        connection.execute(query.order_by(NoticeRow.withdrawal_id)).scalars()
    )
    return [one for one in found if one.dataset == dataset]


@retried
def renumber_notices(store: Store, withdrawal: int, dataset: str, old: str, new: str) -> None:
    """Tells holders to use the version `new` where a withdrawal told them to use `old`."""
    query = select(NoticeRow.release_id, NoticeRow.notice)
    with store.write() as connection:
        for row in connection.execute(query.where(NoticeRow.withdrawal_id == withdrawal)).all():
            if (row.notice["dataset"], row.notice["superseded_by"]) == (dataset, old):
                connection.execute(
                    update(NoticeRow)
                    .where(
                        NoticeRow.withdrawal_id == withdrawal,
                        NoticeRow.release_id == row.release_id,
                    )
                    .values(notice={**row.notice, "superseded_by": new})
                )


def _withdrawal_notices_notices(rows: Iterable[Mapping[str, Any]]) -> list[WithdrawalNotice]:
    found = [WithdrawalNotice.model_validate(row) for row in rows]
    return sorted(found, key=lambda one: (one.dataset, tuple(map(int, one.version.split(".")))))
