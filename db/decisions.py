"""Decisions: appended one after the other; an entity's state is folded from them."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, cast

from sqlalchemy import Connection, exists, insert, select, update
from sqlalchemy.orm import aliased

from db.entities import AgentRef, StoredEntity, pages, register_agents, select_entities
from db.store import Store, retried
from db.tables.provenance import Agent, Decision, Entity
from schemas.provenance import STATE_AFTER, AgentKind, State

Verdict = Literal["accept", "reject", "edit", "withdraw", "reopen"]

RETIRED = "no longer proposed: settings or decisions before it have changed"
"""The reason, reserved for it, of a rejection that lasts until the entity is proposed again."""

PROPOSED_AGAIN = "proposed again"
"""The reason with which it is open again then."""


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


def fold(verdicts: Sequence[str]) -> State:
    """The state after `verdicts`, oldest first: the last one counts, but a withdrawal is final."""
    state: State = "proposed"
    for verdict in verdicts:
        if state != "withdrawn":
            state = STATE_AFTER[verdict]
    return state


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
    """Folds the decisions on each entity into its cached `state`."""
    for page in pages(entity_ids):
        verdicts: dict[str, list[str]] = {entity_id: [] for entity_id in page}
        query = select(Decision.entity_id, Decision.verdict).where(Decision.entity_id.in_(page))
        for entity_id, verdict in connection.execute(query.order_by(Decision.id)):
            verdicts[entity_id].append(verdict)
        by_state: dict[State, list[str]] = defaultdict(list)
        for entity_id, history in verdicts.items():
            by_state[fold(history)].append(entity_id)
        for state, ids in by_state.items():
            connection.execute(update(Entity).where(Entity.id.in_(ids)).values(state=state))


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
