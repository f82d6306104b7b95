"""From rows of `lineage/` to the lineage of entities, as `db.lineage` tells it from the store."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from db.lineage import (
    ActivityNode,
    AgentNode,
    CallNode,
    DecisionNode,
    EntityNode,
    Lineage,
    TracedEntity,
)
from release.lineage_tables import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    LineageTable,
)
from schemas.errors import IntegrityError

Row = Mapping[str, Any]
NO_PAYLOAD = "{}"
"""What stands for the payload of an entity that was withdrawn: nothing of it is released."""


class LineageRows(Protocol):
    """Where the rows of the tables are found by their first column."""

    def rows(self, table: LineageTable, keys: Iterable[str]) -> Iterable[Row]:
        """The rows of a table with these keys, in their order."""
        ...


def trace(
    found_in: LineageRows, entity_ids: Sequence[str], generations: int | None = None
) -> Lineage:
    """The lineage of one or several entities; its root is the first of them.

    Breadth first: each table is asked once a generation. With `generations`, only so many are told:
    1 for the parents, whose own parents are named but not told.

    Raises:
        IntegrityError: an entity, or what it refers to, is not in the tables.
    """
    entities: dict[str, EntityNode] = {}
    generation, told = sorted(set(entity_ids)), 0
    while generation:
        nodes = _nodes(found_in, generation)
        entities.update((node.entity.id, node) for node in nodes)
        if generations is not None and told == generations:
            break
        told += 1
        parents = {parent for node in nodes for _, parent in node.parents}
        generation = sorted(parents - entities.keys())
    activities = {
        row["id"]: _activity(row)
        for row in _complete(found_in, ACTIVITIES, {one.activity_id for one in entities.values()})
    }
    keys = {one.model_call_key for one in entities.values() if one.model_call_key}
    calls = {row["key"]: _call(row) for row in _complete(found_in, CALLS, keys)}
    decisions: dict[str, list[DecisionNode]] = {}
    for row in found_in.rows(DECISIONS, entities):
        decisions.setdefault(row["entity"], []).append(_decision(row))
    agent_ids = {agent for activity in activities.values() for agent in activity.agent_ids}
    agent_ids.update(call.agent_id for call in calls.values())
    agent_ids.update(one.agent_id for many in decisions.values() for one in many)
    agents = {row["id"]: _agent(row) for row in _complete(found_in, AGENTS, agent_ids)}
    return Lineage(entity_ids[0], entities, activities, agents, calls, decisions)


def _complete(found_in: LineageRows, table: LineageTable, keys: Iterable[str]) -> list[Row]:
    """One row for each key."""
    wanted = set(keys)
    found = list(found_in.rows(table, wanted))
    if missing := wanted - {row[table.schema.names[0]] for row in found}:
        raise IntegrityError(
            f"{table.path} does not tell of {min(missing)}, which other tables name; "
            f"`loupe release verify` tells what is wrong"
        )
    return found


def _nodes(found_in: LineageRows, ids: Sequence[str]) -> list[EntityNode]:
    parents: dict[str, list[tuple[str, str]]] = {}
    for row in found_in.rows(DERIVATIONS, ids):
        parents.setdefault(row["child"], []).append((row["role"], row["parent"]))
    return [_entity(row, parents.get(row["id"], ())) for row in _complete(found_in, ENTITIES, ids)]


def _entity(row: Row, parents: Iterable[tuple[str, str]]) -> EntityNode:
    entity = TracedEntity(
        id=row["id"],
        dataset=row["dataset"],
        kind=row["kind"],
        state=row["state"],
        payload=NO_PAYLOAD if row["payload"] is None else row["payload"],
        withheld=tuple(row["withheld"]),
    )
    return EntityNode(entity, row["activity"], row["model_call"], tuple(parents))


def _activity(row: Row) -> ActivityNode:
    return ActivityNode(
        row["id"],
        row["stage"],
        row["version"],
        _object(ACTIVITIES, row["id"], row["configuration"]),
        tuple(row["agents"]),
    )


def _call(row: Row) -> CallNode:
    if row["cost"] is not None and not math.isfinite(row["cost"]):
        raise IntegrityError(
            f"{CALLS.path} says that {row['key']} cost {row['cost']}; it must be a finite number"
        )
    return CallNode(
        key=row["key"],
        agent_id=row["agent"],
        prompt_digest=row["prompt_digest"],
        parameters=_object(CALLS, row["key"], row["parameters"]),
        status=row["status"],
        tokens_in=row["tokens_in"],
        tokens_out=row["tokens_out"],
        cost=row["cost"],
        currency=row["currency"],
    )


def _agent(row: Row) -> AgentNode:
    return AgentNode(row["id"], row["kind"], row["name"], row["revision"])


def _object(table: LineageTable, id_: str, text: str | None) -> dict[str, Any]:
    try:
        values = json.loads(text or "")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise IntegrityError(
            f"{table.path} tells of {id_} what is no JSON object; `loupe release verify` tells "
            f"what is wrong"
        )
    return values


def _decision(row: Row) -> DecisionNode:
    return DecisionNode(
        row["entity"], row["verdict"], row["agent"], row["reason"], row["successor"]
    )
