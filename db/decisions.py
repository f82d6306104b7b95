"""Decisions and activations: appended one after the other; an entity's state is their fold."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, cast

from sqlalchemy import Connection, exists, insert, select, update
from sqlalchemy.orm import aliased

from db.entities import AgentRef, StoredEntity, pages, register_agents, select_entities
from db.store import Store, retried
from db.tables.provenance import Activation, Agent, Decision, Entity
from schemas.provenance import STATE_AFTER, AgentKind, State

Verdict = Literal["accept", "reject", "edit", "withdraw", "reopen"]


class NewDecision(NamedTuple):
    """A decision that is about to be stored. An `edit` names the entity that takes the place.

    A `reopen` revokes earlier decisions: the entity waits for a decision again.
    """

    entity_id: str
    verdict: Verdict
    agent: AgentRef
    reason: str = ""
    successor_id: str | None = None
    annotation_key: str | None = None


def fold(verdicts: Sequence[str], *, active: bool = True) -> State:
    """The state after `verdicts`, oldest first: the last one counts, but a withdrawal is final.

    An entity that is not active is `inactive` whatever was decided; the decisions count again once
    it is active.
    """
    if "withdraw" in verdicts:
        return "withdrawn"
    if not active:
        return "inactive"
    return STATE_AFTER[verdicts[-1]] if verdicts else "proposed"


def append_decisions(connection: Connection, decisions: Sequence[NewDecision]) -> None:
    """Stores `decisions` and brings the states of their entities up to date.

    A decision that says what the last one on its entity already said is not repeated, so that
    deciding again (a flow re-run, a pull repeated) changes nothing.
    """
    if not decisions:
        return
    entity_ids = sorted({decision.entity_id for decision in decisions})
    _take_turns(connection, entity_ids)
    last = _last_decisions(connection, entity_ids)
    register_agents(connection, sorted({decision.agent for decision in decisions}))
    rows = []
    for decision in decisions:
        row = _row(decision)
        if last.get(decision.entity_id) != row:
            last[decision.entity_id] = row
            rows.append({**row, "decided_at": datetime.now(UTC)})
    if rows:
        connection.execute(insert(Decision), rows)
        refresh_states(connection, entity_ids)


@retried
def set_active(store: Store, entity_ids: Sequence[str], agent: AgentRef, *, active: bool) -> None:
    """Makes entities active or inactive; those that are so already, or withdrawn, stay as they are.

    What was decided on an inactive entity is kept, and counts again once it is active.
    """
    if not entity_ids:
        return
    with store.write() as connection:
        _take_turns(connection, entity_ids)
        changed: list[str] = []
        for page in pages(entity_ids):
            inactive = Entity.state == "inactive" if active else Entity.state != "inactive"
            query = select(Entity.id).where(Entity.id.in_(page), inactive)
            changed += connection.execute(query.where(Entity.state != "withdrawn")).scalars()
        if not changed:
            return
        register_agents(connection, [agent])
        now = datetime.now(UTC)
        values = {"active": active, "agent_id": agent.id, "changed_at": now}
        connection.execute(insert(Activation), [{"entity_id": one, **values} for one in changed])
        refresh_states(connection, changed)


@retried
def last_reasons(store: Store, entity_ids: Sequence[str]) -> dict[str, str]:
    """For each entity that was decided on, the reason of the last decision."""
    with store.read() as connection:
        last = _last_decisions(connection, entity_ids)
    return {entity_id: str(row["reason"]) for entity_id, row in last.items()}


@retried
def last_agents(store: Store, entity_ids: Sequence[str]) -> dict[str, AgentRef]:
    """For each entity that was decided on, who decided last."""
    found: dict[str, AgentRef] = {}
    with store.read() as connection:
        for page in pages(entity_ids):
            query = (
                select(Decision.entity_id, Agent.kind, Agent.name, Agent.revision)
                .join(Agent, Agent.id == Decision.agent_id)
                .where(Decision.entity_id.in_(page))
                .order_by(Decision.id)
            )
            for entity_id, kind, name, revision in connection.execute(query):
                found[entity_id] = AgentRef(cast("AgentKind", kind), name, revision)
    return found


@retried
def decided_by_people(store: Store, entity_ids: Sequence[str]) -> set[str]:
    """Those entities that a person has ever decided on."""
    found: set[str] = set()
    with store.read() as connection:
        for page in pages(entity_ids):
            query = (
                select(Decision.entity_id)
                .join(Agent, Agent.id == Decision.agent_id)
                .where(Decision.entity_id.in_(page), Agent.kind == "person")
            )
            found.update(connection.execute(query).scalars())
    return found


def _take_turns(connection: Connection, entity_ids: Sequence[str]) -> None:
    """Who decides on an entity waits until others who do are done, so that states fold in order.

    On SQLite, which has one writer anyway, `FOR UPDATE` is left out.
    """
    for page in pages(entity_ids):
        query = select(Entity.seq).where(Entity.id.in_(page)).order_by(Entity.seq)
        connection.execute(query.with_for_update()).all()


def _row(decision: NewDecision) -> dict[str, str | None]:
    return {
        "entity_id": decision.entity_id,
        "verdict": decision.verdict,
        "agent_id": decision.agent.id,
        "reason": decision.reason,
        "successor_id": decision.successor_id,
        "annotation_key": decision.annotation_key,
    }


def _last_decisions(
    connection: Connection, entity_ids: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    last: dict[str, dict[str, str | None]] = {}
    for page in pages(entity_ids):
        query = select(
            Decision.entity_id,
            Decision.verdict,
            Decision.agent_id,
            Decision.reason,
            Decision.successor_id,
            Decision.annotation_key,
        ).where(Decision.entity_id.in_(page))
        for row in connection.execute(query.order_by(Decision.id)):
            last[row.entity_id] = dict(row._mapping)
    return last


def refresh_states(connection: Connection, entity_ids: Sequence[str]) -> None:
    """Folds the decisions on each entity, and its activations, into its cached `state`."""
    for page in pages(entity_ids):
        activations = select(Activation.entity_id, Activation.active).order_by(Activation.id)
        rows = connection.execute(activations.where(Activation.entity_id.in_(page)))
        active = {row.entity_id: row.active for row in rows}
        by_state: dict[State, list[str]] = defaultdict(list)
        for entity_id, history in _verdicts(connection, page).items():
            by_state[fold(history, active=active.get(entity_id, True))].append(entity_id)
        for state, ids in by_state.items():
            connection.execute(update(Entity).where(Entity.id.in_(ids)).values(state=state))


def decided_states(connection: Connection, entity_ids: Sequence[str]) -> dict[str, State]:
    """The state that each entity has, or would have if it were active."""
    return {
        entity_id: fold(history)
        for page in pages(entity_ids)
        for entity_id, history in _verdicts(connection, page).items()
    }


def _verdicts(connection: Connection, entity_ids: Sequence[str]) -> dict[str, list[str]]:
    verdicts: dict[str, list[str]] = {entity_id: [] for entity_id in entity_ids}
    query = select(Decision.entity_id, Decision.verdict).where(Decision.entity_id.in_(entity_ids))
    for entity_id, verdict in connection.execute(query.order_by(Decision.id)):
        verdicts[entity_id].append(verdict)
    return verdicts


@retried
def decided_under_other_policies(
    store: Store, dataset: str, kind: str, gate: str, policy: str, reason: str
) -> list[StoredEntity]:
    """The entities decided last by `gate` under another policy, oldest first.

    Args:
        store: the provenance store.
        dataset: whose entities.
        kind: which of them.
        gate: the name of the agent that applies the policy.
        policy: the present policy, which the agent has as its revision.
        reason: what the reasons of these decisions begin with.
    """
    others = select(Agent.id).where(
        Agent.kind == "software", Agent.name == gate, Agent.revision != policy
    )
    later = aliased(Decision)
    query = (
        select_entities()
        .join(Decision, Decision.entity_id == Entity.id)
        .where(
            Entity.dataset == dataset,
            Entity.kind == kind,
            Entity.state.in_(("accepted", "rejected")),
            Decision.reason.startswith(reason, autoescape=True),
            ~exists().where(later.entity_id == Decision.entity_id, later.id > Decision.id),
        )
        .order_by(Entity.seq)
    )
    with store.read() as connection:
        agents = list(connection.execute(others).scalars())
        if not agents:
            return []
        rows = connection.execute(query.where(Decision.agent_id.in_(agents)))
        return list(map(StoredEntity._make, rows))
