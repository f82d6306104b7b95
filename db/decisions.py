"""Append decisions and activations, and compute the state of entities from them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, cast

from sqlalchemy import Connection, insert, or_, select, update

from loupe.db.entities import (
    AgentRef,
    NewDecision,
    StoredEntity,
    change_in,
    pages,
    register_agents,
    rows_in,
    select_entities,
)
from loupe.db.store import Store, reads, writes
from loupe.db.tables import IS_LAST, Activation, Agent, Decision, Entity, select_columns
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import STATE_AFTER, AgentKind, State

_COLUMNS = ("entity_id", "verdict", "agent_id", "reason", "successor_id", "annotation_key")


def fold(verdicts: Sequence[str], *, active: bool = True) -> State:
    """Return the state after `verdicts`, oldest first: the last one counts, a withdrawal is final.

    An inactive entity is `inactive` whatever the decisions are; they count again once it is active.
    """
    if "withdraw" in verdicts:
        return "withdrawn"
    if not active:
        return "inactive"
    return STATE_AFTER[verdicts[-1]] if verdicts else "proposed"


def append_decisions(connection: Connection, decisions: Sequence[NewDecision]) -> None:
    """Store `decisions` and update the states of their entities.

    A decision equal to the last one on its entity is not stored, so that repeating a flow run or a
    pull changes nothing.
    """
    if not decisions:
        return
    entity_ids = sorted({decision.entity_id for decision in decisions})
    _lock_entities(connection, entity_ids)
    last = _last_decisions(connection, entity_ids)
    register_agents(connection, sorted({decision.agent for decision in decisions}))
    rows = []
    for decision in decisions:
        row = {name: getattr(decision, name) for name in _COLUMNS}
        if last.get(decision.entity_id) != row:
            last[decision.entity_id] = row
            rows.append({**row, "decided_at": datetime.now(UTC)})
    if rows:
        connection.execute(insert(Decision), rows)
        _refresh_states(connection, entity_ids)


def decide(store: Store, decisions: Sequence[NewDecision]) -> None:
    """Store decisions in pages, each in its own transaction; see `append_decisions`."""
    for page in pages(decisions):
        with store.write() as connection:
            append_decisions(connection, page)


@writes
def set_active(
    connection: Connection, entity_ids: Sequence[str], agent: AgentRef, *, active: bool
) -> None:
    """Make entities active or inactive; those already in this state, or withdrawn, do not change.

    Decisions on an inactive entity are kept, and count again once it is active.
    """
    if not entity_ids:
        return
    _lock_entities(connection, entity_ids)
    others = Entity.state == "inactive" if active else Entity.state != "inactive"
    query = select(Entity.id).where(others, Entity.state != "withdrawn")
    changed = [id_ for (id_,) in rows_in(connection, query, Entity.id, entity_ids)]
    if not changed:
        return
    register_agents(connection, [agent])
    now = datetime.now(UTC)
    values = {"active": active, "agent_id": agent.id, "changed_at": now}
    connection.execute(insert(Activation), [{"entity_id": one, **values} for one in changed])
    _refresh_states(connection, changed)


@reads
def deactivated_by(connection: Connection, ids: Iterable[str], agent: AgentRef) -> set[str]:
    """Return those of the entities that an agent, of any revision, was the last to deactivate."""
    query = (
        select(Activation.entity_id, Activation.active, Agent.name)
        .join(Agent, Agent.id == Activation.agent_id)
        .order_by(Activation.id)
    )
    last = {
        id_: (active, name)
        for id_, active, name in rows_in(connection, query, Activation.entity_id, ids)
    }
    return {id_ for id_, (active, name) in last.items() if not active and name == agent.name}


@reads
def last_reasons(connection: Connection, entity_ids: Sequence[str]) -> dict[str, str]:
    """Return the reason of the last decision on each entity that has one."""
    last = _last_decisions(connection, entity_ids)
    return {entity_id: str(row["reason"]) for entity_id, row in last.items()}


@reads
def last_agents(connection: Connection, entity_ids: Sequence[str]) -> dict[str, AgentRef]:
    """Return the agent of the last decision on each entity that has one."""
    query = (
        select(Decision.entity_id, Agent.kind, Agent.name, Agent.revision)
        .join(Agent, Agent.id == Decision.agent_id)
        .order_by(Decision.id)
    )
    found: dict[str, AgentRef] = {}
    for entity_id, kind, *name in rows_in(connection, query, Decision.entity_id, entity_ids):
        found[entity_id] = AgentRef(cast("AgentKind", kind), *name)
    return found


class DecisionRow(NamedTuple):
    """A decision: the item, its kind, the verdict, who decided, when and why."""

    item: str
    kind: str
    verdict: str
    by: str
    by_kind: str
    decided_at: datetime
    reason: str


@reads
def decision_rows(connection: Connection, dataset: str) -> list[DecisionRow]:
    """Return the decisions on the entities of a dataset, oldest first."""
    query = (
        select(
            Decision.entity_id,
            Entity.kind,
            Decision.verdict,
            Agent.name,
            Agent.kind,
            Decision.decided_at,
            Decision.reason,
        )
        .join(Entity, Entity.id == Decision.entity_id)
        .join(Agent, Agent.id == Decision.agent_id)
        .where(Entity.dataset == dataset)
        .order_by(Decision.id)
    )
    return [DecisionRow._make(row) for row in connection.execute(query)]


def decided_by_people(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """Return those that a person decided on, without those reopened since."""
    query = (
        select(Decision.entity_id, Decision.verdict)
        .join(Agent, Agent.id == Decision.agent_id)
        .where(or_(Agent.kind == "person", Decision.verdict == "reopen"))
        .order_by(Decision.id)
    )
    decided: set[str] = set()
    for entity_id, verdict in rows_in(connection, query, Decision.entity_id, entity_ids):
        (decided.discard if verdict == "reopen" else decided.add)(entity_id)
    return decided


def _lock_entities(connection: Connection, entity_ids: Sequence[str]) -> None:
    """Lock entities, so that concurrent decisions on them are stored one after the other.

    SQLite has only one writer and needs no lock; `FOR UPDATE` is left out.
    """
    query = select(Entity.seq).order_by(Entity.seq).with_for_update()
    list(rows_in(connection, query, Entity.id, entity_ids))


def _last_decisions(
    connection: Connection, entity_ids: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    query = select_columns(Decision, _COLUMNS).order_by(Decision.id)
    rows = rows_in(connection, query, Decision.entity_id, entity_ids)
    return {row.entity_id: dict(row._mapping) for row in rows}


def folded_states(connection: Connection, entity_ids: Sequence[str]) -> dict[str, State]:
    """Return the state of each entity, computed from its decisions and activations."""
    query = select(Activation.entity_id, Activation.active).order_by(Activation.id)
    active = dict(rows_in(connection, query, Activation.entity_id, entity_ids))
    return {
        id_: fold(history, active=active.get(id_, True))
        for id_, history in _verdicts(connection, entity_ids).items()
    }


def _refresh_states(connection: Connection, entity_ids: Sequence[str]) -> None:
    """Update the cached `state` of each entity."""
    states = folded_states(connection, entity_ids)
    for state, ids in grouped((state, id_) for id_, state in states.items()).items():
        change_in(connection, update(Entity).values(state=state), Entity.id, ids)


def decided_states(connection: Connection, entity_ids: Sequence[str]) -> dict[str, State]:
    """Return the state that each entity has, or would have if it were active."""
    return {id_: fold(history) for id_, history in _verdicts(connection, entity_ids).items()}


def _verdicts(connection: Connection, entity_ids: Sequence[str]) -> dict[str, list[str]]:
    query = select(Decision.entity_id, Decision.verdict).order_by(Decision.id)
    verdicts = grouped(rows_in(connection, query, Decision.entity_id, entity_ids))
    return {entity_id: verdicts[entity_id] for entity_id in entity_ids}


@reads
def reopened_by(connection: Connection, agent: AgentRef, entity_ids: Iterable[str]) -> set[str]:
    """Return those of the entities whose last decision is that the agent reopened them."""
    query = select(Decision.entity_id).where(
        Decision.agent_id == agent.id, Decision.verdict == "reopen", IS_LAST
    )
    return {id_ for (id_,) in rows_in(connection, query, Decision.entity_id, entity_ids)}


@reads
def decided_by_gate(
    connection: Connection, dataset: str, kind: str, gate: str, reason: str, but_policy: str = ""
) -> list[StoredEntity]:
    """Return the entities last decided by `gate`, oldest first.

    Args:
        connection: a connection or a store.
        dataset: the dataset of the entities.
        kind: the kind of the entities.
        gate: the name of the agent that applies the policy.
        reason: the prefix of the reasons of these decisions.
        but_policy: without those under this policy, which is the revision of the agent.
    """
    gates = select(Agent.id).where(
        Agent.kind == "software", Agent.name == gate, Agent.revision != but_policy
    )
    query = (
        select_entities()
        .join(Decision, Decision.entity_id == Entity.id)
        .where(
            Entity.dataset == dataset,
            Entity.kind == kind,
            Entity.state.in_(("accepted", "rejected")),
            Decision.reason.startswith(reason, autoescape=True),
            IS_LAST,
        )
        .order_by(Entity.seq)
    )
    agents = list(connection.execute(gates).scalars())
    rows = connection.execute(query.where(Decision.agent_id.in_(agents))) if agents else ()
    return list(map(StoredEntity._make, rows))
