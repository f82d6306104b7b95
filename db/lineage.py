"""Trace what an entity was made from, by which activities, and write it as a W3C PROV document."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from prov.identifier import Identifier, Namespace, QualifiedName
from prov.model import PROV, ProvDocument
from sqlalchemy import Connection, select

from loupe.db.entities import SHORTEST_PREFIX, links, rows_in
from loupe.db.store import reads
from loupe.db.tables import (
    Activity,
    Agent,
    Association,
    Decision,
    Entity,
    ModelCall,
    Plan,
    escape_like,
    select_columns,
)
from loupe.schemas.base import EntityRecord
from loupe.schemas.errors import UsageError
from loupe.schemas.grouping import grouped

R = TypeVar("R", bound=EntityRecord)


class ActivityRun(NamedTuple):
    """Time, code revision and flow run of an activity; only the store has them, not a release."""

    code_revision: str
    flow_run: str
    started_at: datetime
    ended_at: datetime


class ActivityNode(NamedTuple):
    """An activity with its plan and the ids of its agents.

    In the store, it is one run over one chunk and `id` is its number. A release has no runs: there
    `id` is a digest of the plan and the agents.
    """

    id: str
    stage: str
    version: str
    configuration: dict[str, Any]
    agent_ids: tuple[str, ...]
    run: ActivityRun | None = None


class AgentNode(NamedTuple):
    """A person, a model at a revision, or a piece of software at a version."""

    id: str
    kind: str
    name: str
    revision: str

    def __str__(self) -> str:
        """Return `kind name@revision`."""
        return f"{self.kind} {self.name}{'@' + self.revision if self.revision else ''}"


class CallNode(NamedTuple):
    """The model call that an entity's text comes from; a release has no time for it."""

    key: str
    agent_id: str
    prompt_digest: str
    parameters: dict[str, Any]
    status: str
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    currency: str | None
    served: str | None = None
    called_at: datetime | None = None


class DecisionNode(NamedTuple):
    """A decision on an entity; a release has no time for it."""

    entity_id: str
    verdict: str
    agent_id: str
    reason: str
    successor_id: str | None
    decided_at: datetime | None = None


class TracedEntity(NamedTuple):
    """An entity in a lineage; `withheld` names the fields left out of its payload."""

    id: str
    dataset: str
    kind: str
    state: str
    payload: str
    withheld: tuple[str, ...] = ()

    def record(self, record_type: type[R]) -> R:
        """Return the payload as the record it was made from."""
        return record_type.model_validate_json(self.payload)


class EntityNode(NamedTuple):
    """An entity, the activity that made it, and its (role, parent id) links."""

    entity: TracedEntity
    activity_id: str
    model_call_key: str | None
    parents: tuple[tuple[str, str], ...]


class Lineage(NamedTuple):
    """The entity `root` and everything it was derived from."""

    root: str
    entities: dict[str, EntityNode]
    activities: dict[str, ActivityNode]
    agents: dict[str, AgentNode]
    calls: dict[str, CallNode]
    decisions: dict[str, list[DecisionNode]]


@reads
def find_entity_id(connection: Connection, prefix: str) -> str:
    """Return the id that starts with `prefix`.

    Raises:
        UsageError: the prefix is too short, or no or several entities have it.
    """
    if len(prefix) < SHORTEST_PREFIX:
        raise UsageError(f"an id needs at least {SHORTEST_PREFIX} digits; got {prefix!r}")
    pattern = f"{escape_like(prefix.lower())}%"
    query = select(Entity.id).where(Entity.id.like(pattern, escape="\\")).limit(2)
    found = list(connection.execute(query).scalars())
    if not found:
        raise UsageError(f"no entity has an id that starts with {prefix!r}")
    if len(found) > 1:
        raise UsageError(
            f"several entities have an id that starts with {prefix!r}; give more of it"
        )
    return found[0]


@reads
def trace(connection: Connection, entity_id: str) -> Lineage:
    """Return the lineage of an entity, read from one state of the store."""
    entities = ancestors([entity_id], partial(_nodes, connection))
    numbers = {int(node.activity_id) for node in entities.values()}
    activities = activities_by_number(connection, numbers)
    calls = calls_by_key(
        connection, [n.model_call_key for n in entities.values() if n.model_call_key]
    )
    decisions = _decisions(connection, list(entities))
    agents = agents_by_id(connection, agents_of(activities, calls, decisions))
    return Lineage(entity_id, entities, activities, agents, calls, decisions)


def ancestors(
    entity_ids: Iterable[str], nodes_of: Callable[[Sequence[str]], Iterable[EntityNode]]
) -> dict[str, EntityNode]:
    """Return entities and everything they were derived from, by id.

    The search is breadth first and calls `nodes_of` once per generation, so the number of queries
    depends on depth only.
    """
    found: dict[str, EntityNode] = {}
    generation = sorted(set(entity_ids))
    while generation:
        nodes = list(nodes_of(generation))
        found.update((node.entity.id, node) for node in nodes)
        parents = {parent for node in nodes for _, parent in node.parents}
        generation = sorted(parents - found.keys())
    return found


def agents_of(
    activities: Mapping[str, ActivityNode],
    calls: Mapping[str, CallNode],
    decisions: Mapping[str, Iterable[DecisionNode]],
) -> set[str]:
    """Return the ids of all agents of these activities, calls and decisions."""
    found = {agent for activity in activities.values() for agent in activity.agent_ids}
    found.update(call.agent_id for call in calls.values())
    found.update(one.agent_id for many in decisions.values() for one in many)
    return found


# Statements, built once because they take longer to build than to run.
_ACTIVITIES = select(
    *(Activity.id, Plan.stage, Plan.version, Plan.configuration),
    *(Activity.code_revision, Activity.flow_run, Activity.started_at, Activity.ended_at),
).join(Plan, Plan.id == Activity.plan_id)
_AGENTS = select_columns(Agent, AgentNode._fields)
_AGENTS_OF = select(Association.activity_id, Association.agent_id)
_CALLS = select_columns(ModelCall, CallNode._fields)
_DECISIONS = select_columns(Decision, DecisionNode._fields).order_by(Decision.id)
_NODES = select(
    *(Entity.id, Entity.dataset, Entity.kind, Entity.state, Entity.payload),
    *(Entity.activity_id, Entity.model_call_key),
)


def _nodes(connection: Connection, ids: Sequence[str]) -> list[EntityNode]:
    parents = grouped((link.child, (link.role, link.parent)) for link in links(connection, ids))
    nodes = []
    for id_, dataset, kind, state, payload, activity_id, call in rows_in(
        connection, _NODES, Entity.id, ids
    ):
        entity = TracedEntity(id_, dataset, kind, state, payload)
        above = tuple(sorted(parents[id_]))
        nodes.append(EntityNode(entity, str(activity_id), call, above))
    return nodes


def activities_by_number(connection: Connection, numbers: Iterable[int]) -> dict[str, ActivityNode]:
    """Return the activities with these numbers in the store."""
    wanted = sorted(numbers)
    agents = grouped(rows_in(connection, _AGENTS_OF, Association.activity_id, wanted))
    found = {}
    rows = rows_in(connection, _ACTIVITIES, Activity.id, wanted)
    for number, stage, version, values, *ran in rows:
        agent_ids = tuple(sorted(agents[number]))
        node = ActivityNode(str(number), stage, version, values, agent_ids, ActivityRun(*ran))
        found[node.id] = node
    return found


def agents_by_id(connection: Connection, ids: Iterable[str]) -> dict[str, AgentNode]:
    """Return the agents with these ids."""
    rows = rows_in(connection, _AGENTS, Agent.id, ids)
    return {row[0]: AgentNode(*row) for row in rows}


def calls_by_key(connection: Connection, keys: Iterable[str]) -> dict[str, CallNode]:
    """Return the model calls with these keys."""
    rows = rows_in(connection, _CALLS, ModelCall.key, keys)
    return {row[0]: CallNode(*row) for row in rows}


def _decisions(connection: Connection, ids: Sequence[str]) -> dict[str, list[DecisionNode]]:
    rows = rows_in(connection, _DECISIONS, Decision.entity_id, ids)
    return grouped((row.entity_id, DecisionNode(*row)) for row in rows)


# A lineage as a W3C PROV document, to be written as PROV-JSON.

_Values = dict[QualifiedName | str | Identifier, Any]
_LOUPE = Namespace("loupe", "urn:loupe:")
_AGENT_TYPES = {
    "person": PROV["Person"],
    "model": _LOUPE["Model"],
    "software": PROV["SoftwareAgent"],
}


def prov_json(lineage: Lineage) -> dict[str, Any]:
    """Return the entities, activities and agents of `lineage`, and their relations, as PROV-JSON.

    Times, code revisions and flow runs are included if they are known; releases have none. Model
    calls and decisions are activities; a decision uses the entity that it decides on.
    """
    document = ProvDocument()
    document.add_namespace(_LOUPE)
    values: _Values
    for agent in lineage.agents.values():
        values = {
            "prov:type": _AGENT_TYPES.get(agent.kind, PROV["Agent"]),
            "prov:label": agent.name,
            "loupe:revision": agent.revision,
        }
        document.agent(f"loupe:agent-{agent.id}", values)
    for activity in lineage.activities.values():
        name, run = f"loupe:activity-{activity.id}", activity.run
        values = {
            "prov:label": f"{activity.stage} {activity.version}",
            "loupe:configuration": json.dumps(activity.configuration, sort_keys=True),
        }
        if run is not None:
            values |= {"loupe:code_revision": run.code_revision, "loupe:flow_run": run.flow_run}
        document.activity(name, run and run.started_at, run and run.ended_at, values)
        for agent_id in activity.agent_ids:
            document.wasAssociatedWith(name, f"loupe:agent-{agent_id}")
    for call in lineage.calls.values():
        name = f"loupe:call-{call.key}"
        values = {
            "prov:type": _LOUPE["ModelCall"],
            "loupe:prompt_digest": call.prompt_digest,
            "loupe:parameters": json.dumps(call.parameters, sort_keys=True),
            "loupe:tokens_in": call.tokens_in,
            "loupe:tokens_out": call.tokens_out,
        }
        values = {key: value for key, value in values.items() if value is not None}
        document.activity(name, None, call.called_at, values)
        document.wasAssociatedWith(name, f"loupe:agent-{call.agent_id}")
    for node in lineage.entities.values():
        _add_entity(document, node)
    for entity_id, decisions in lineage.decisions.items():
        for number, decision in enumerate(decisions):
            name, at = f"loupe:decision-{entity_id}-{number}", decision.decided_at
            values = {"prov:type": _LOUPE[decision.verdict], "prov:label": decision.reason}
            document.activity(name, at, at, values)
            document.used(name, f"loupe:{entity_id}")
            document.wasAssociatedWith(name, f"loupe:agent-{decision.agent_id}")
            if decision.successor_id:
                document.wasInfluencedBy(f"loupe:{decision.successor_id}", name)
    parsed: dict[str, Any] = json.loads(document.serialize(format="json") or "{}")
    return parsed


def _add_entity(document: ProvDocument, node: EntityNode) -> None:
    entity = node.entity
    name = f"loupe:{entity.id}"
    values: _Values = {
        "prov:type": _LOUPE[entity.kind],
        "loupe:dataset": entity.dataset,
        "loupe:state": entity.state,
        "prov:value": entity.payload,
    }
    if entity.withheld:
        values["loupe:withheld"] = ", ".join(entity.withheld)
    document.entity(name, values)
    document.wasGeneratedBy(name, f"loupe:activity-{node.activity_id}")
    if node.model_call_key:
        document.wasInfluencedBy(name, f"loupe:call-{node.model_call_key}")
    for role, parent in node.parents:
        types: _Values = {"prov:type": _LOUPE[role]}
        document.wasDerivedFrom(name, f"loupe:{parent}", other_attributes=types)
