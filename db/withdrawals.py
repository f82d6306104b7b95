"""Withdrawals: recorded whole or not at all, carried out step by step, and kept for good."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, func, insert, select, update

from db.agents import AgentKind, AgentRef, register_agents
from db.decisions import NewDecision, append_decisions
from db.engine import insert_new
from db.entities import pages
from db.releases import REFERRED
from db.store import Store
from db.tables.provenance import Agent, Entity
from db.tables.releases import Release, ReleaseItem
from db.tables.withdrawals import Withdrawal as WithdrawalRow
from db.tables.withdrawals import WithdrawalNotice as NoticeRow
from db.tables.withdrawals import WithdrawalStep, WithdrawnDigest, WithdrawnEntity
from db.turns import take_turn
from db.withdrawal_bytes import Blob, needed_blobs
from db.withdrawal_targets import WithdrawalTarget
from schemas.base import canonical_json, digest_of
from schemas.errors import UsageError
from schemas.withdrawal import Ground, WithdrawalCount, WithdrawalNotice

CONFIRMED, FINISHED = "confirmed", "finished"
JUDGEMENT_TAKEN_BACK = "who judged it takes the judgement back"

DECIDER = AgentRef("software", "loupe-withdrawal")
"""Who decides in the graph. Who confirmed it is a person by name, which no release may tell."""


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


class DoneStep(NamedTuple):
    """A step that was done, what it came to, and when."""

    step: str
    told: dict[str, Any]
    done_at: datetime


def key_of(request: WithdrawalRequest, number: int) -> str:
    """What the withdrawal is called that is the `number`-th (from 0) on the same request."""
    target = canonical_json(request.target.model_dump(mode="json"))
    return digest_of("withdrawal", target, request.ground, str(request.erases), str(number))


def earlier_of(connection: Connection, request: WithdrawalRequest) -> list[StoredWithdrawal]:
    """The withdrawals that were confirmed on the same request, oldest first."""
    found: list[StoredWithdrawal] = []
    while one := _by_key(connection, key_of(request, len(found))):
        found.append(one)
    return found


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
        id_ = _insert(connection, new)
        _insert_all(connection, id_, new)
        withdraw_entities(connection, new.key, new.request, new.entities)
        reopened = [
            NewDecision(one, "reopen", DECIDER, JUDGEMENT_TAKEN_BACK) for one in new.reopened
        ]
        append_decisions(connection, reopened)
        stored = _by_key(connection, new.key)
    assert stored is not None  # noqa: S101 - it was stored above
    return stored


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
        add_entities(connection, withdrawal.id, entities)
        insert_new(connection, WithdrawnDigest, _digests(withdrawal.id, refused, erased))
        withdraw_entities(connection, withdrawal.key, withdrawal.request, entities)


def opened_again(connection: Connection, withdrawals: Collection[int]) -> list[StoredWithdrawal]:
    """These withdrawals, oldest first; none is finished any more, nor becomes so meanwhile."""
    found = []
    for page in pages(sorted(withdrawals)):
        here = WithdrawalRow.id.in_(page)
        locked = select(WithdrawalRow.id).where(here).order_by(WithdrawalRow.id)
        connection.execute(locked.with_for_update())
        connection.execute(
            update(WithdrawalRow)
            .where(here, WithdrawalRow.state == FINISHED)
            .values(state=CONFIRMED, finished_at=None)
        )
        rows = connection.execute(_STORED.where(here).order_by(WithdrawalRow.id))
        found += [_stored(row) for row in rows]
    return found


def withdraw_entities(
    connection: Connection, key: str, request: WithdrawalRequest, entities: Iterable[str]
) -> None:
    """Decides on entities; on those that were withdrawn before it was decided already."""
    reason = f"withdrawal {key[:12]}: {request.ground}"
    standing = select(Entity.id).where(Entity.state != "withdrawn")
    for page in pages(sorted(entities)):
        ids = connection.execute(standing.where(Entity.id.in_(page)).order_by(Entity.id)).scalars()
        append_decisions(connection, [NewDecision(one, "withdraw", DECIDER, reason) for one in ids])


def _insert(connection: Connection, new: NewWithdrawal) -> int:
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


def _insert_all(connection: Connection, id_: int, new: NewWithdrawal) -> None:
    add_entities(connection, id_, new.entities)
    digests = _digests(id_, new.refused, new.erased)
    notices: list[dict[str, Any]] = [
        {
            "withdrawal_id": id_,
            "release_id": one.release,
            "notice": one.model_dump(mode="json"),
        }
        for one in new.notices
    ]
    for page in pages(digests):
        connection.execute(insert(WithdrawnDigest), page)
    for page in pages(notices):
        connection.execute(insert(NoticeRow), page)
    step = {
        "withdrawal_id": id_,
        "step": CONFIRMED,
        "told": dict(new.told),
        "done_at": datetime.now(UTC),
    }
    connection.execute(insert(WithdrawalStep), step)


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


def add_entities(connection: Connection, withdrawal: int, entity_ids: Iterable[str]) -> None:
    """Stores what a withdrawal takes back; what is stored already stays."""
    for page in pages(sorted(entity_ids)):
        rows = [{"withdrawal_id": withdrawal, "entity_id": one} for one in page]
        insert_new(connection, WithdrawnEntity, rows)


def list_withdrawals(store: Store) -> list[StoredWithdrawal]:
    """All withdrawals, oldest first."""
    with store.read() as connection:
        rows = connection.execute(_STORED.order_by(WithdrawalRow.id)).all()
    return [_stored(row) for row in rows]


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


def withdrawn_entities(store: Store, withdrawal: int) -> list[str]:
    """The ids of what a withdrawal takes back, in order."""
    query = select(WithdrawnEntity.entity_id).where(WithdrawnEntity.withdrawal_id == withdrawal)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


def withdrawals_of(connection: Connection, entity_ids: Iterable[str]) -> dict[str, list[str]]:
    """For each entity that was taken back the keys of the withdrawals, oldest first."""
    found: dict[str, list[str]] = {}
    query = (
        select(WithdrawnEntity.entity_id, WithdrawalRow.key)
        .join(WithdrawalRow, WithdrawalRow.id == WithdrawnEntity.withdrawal_id)
        .order_by(WithdrawalRow.id)
    )
    for page in pages(entity_ids):
        for entity_id, key in connection.execute(query.where(WithdrawnEntity.entity_id.in_(page))):
            found.setdefault(entity_id, []).append(key)
    return found


def notices_of(store: Store, withdrawal: int) -> list[WithdrawalNotice]:
    """What a withdrawal tells holders of releases, by dataset and version."""
    query = select(NoticeRow.notice).where(NoticeRow.withdrawal_id == withdrawal)
    with store.read() as connection:
        return _notices(connection.execute(query).scalars())


def dataset_notices(connection: Connection, dataset: str, mark: int) -> list[WithdrawalNotice]:
    """What holders of all releases of a dataset are told of the withdrawals up to `mark`."""
    query = select(NoticeRow.notice).where(NoticeRow.withdrawal_id <= mark)
    found = _notices(connection.execute(query.order_by(NoticeRow.withdrawal_id)).scalars())
    return [one for one in found if one.dataset == dataset]


def release_notices(store: Store, release_id: str) -> list[WithdrawalNotice]:
    """What holders of a release are told of all withdrawals."""
    query = select(NoticeRow.notice).where(NoticeRow.release_id == release_id)
    with store.read() as connection:
        return _notices(connection.execute(query.order_by(NoticeRow.withdrawal_id)).scalars())


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


def record_step(store: Store, withdrawal: int, step: str, told: Mapping[str, Any]) -> None:
    """Notes that a step was done; done again, what was told first stays."""
    row = {
        "withdrawal_id": withdrawal,
        "step": step,
        "told": dict(told),
        "done_at": datetime.now(UTC),
    }
    with store.write() as connection:
        insert_new(connection, WithdrawalStep, [row])


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


def still_needed(store: Store, blobs: Collection[Blob]) -> set[str]:
    """Those files, by digest, that a picture needs which is not withdrawn."""
    with store.read() as connection:
        return set(needed_blobs(connection, blobs))


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


def erased_blobs(store: Store, withdrawal: int) -> list[Blob]:
    """The files that a withdrawal erases."""
    query = select(WithdrawnDigest.sha256, WithdrawnDigest.media_type).where(
        WithdrawnDigest.withdrawal_id == withdrawal, WithdrawnDigest.is_erased
    )
    with store.read() as connection:
        rows = connection.execute(query.order_by(WithdrawnDigest.sha256))
        return [Blob(row.sha256, row.media_type or "") for row in rows]


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


def _by_key(connection: Connection, key: str) -> StoredWithdrawal | None:
    row = connection.execute(_STORED.where(WithdrawalRow.key == key)).one_or_none()
    return None if row is None else _stored(row)


def _stored(row: Sequence[Any]) -> StoredWithdrawal:
    id_, key, target, ground, erases, reason, kind, name, revision, state, confirmed, ended = row
    request = WithdrawalRequest(WithdrawalTarget.model_validate(target), ground, erases)
    agent = AgentRef(cast("AgentKind", kind), name, revision)
    return StoredWithdrawal(id_, key, request, reason, agent, state, confirmed, ended)


def _notices(rows: Iterable[Mapping[str, Any]]) -> list[WithdrawalNotice]:
    found = [WithdrawalNotice.model_validate(row) for row in rows]
    return sorted(found, key=lambda one: (one.dataset, tuple(map(int, one.version.split(".")))))
