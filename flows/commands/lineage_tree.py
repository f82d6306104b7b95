"""A lineage as a tree for the terminal."""

import json
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from db.entities import StoredEntity
from db.lineage import Lineage
from schemas.base import canonical_json

_GIST_FIELDS = {
    "source": ("format", "annotation_file", "annotation_sha256", "licence"),
    "image": ("file_path", "sha256"),
    "caption": ("text",),
    "rewrite": ("author", "text"),
    "prompt": ("prompt_id", "version", "digest"),
    "sample": ("identities_drawn", "images_drawn", "seed"),
    "faithfulness": ("verdict",),
}


def lineage_tree(traced: Lineage) -> Tree:
    """The entity at the root; under each entity how it came to be, then its parents."""
    root = Tree(_entity_line(traced, traced.root))
    _grow(root, traced, traced.root, seen=set())
    return root


def _grow(branch: Tree, traced: Lineage, entity_id: str, seen: set[str]) -> None:
    """Adds what is known of an entity, then its parents; what stands above is not drawn again."""
    if entity_id in seen:
        branch.add("[dim]… as above[/dim]")
        return
    seen.add(entity_id)
    node = traced.entities[entity_id]
    activity = traced.activities[node.activity_id]
    agents = ", ".join(escape(str(traced.agents[agent])) for agent in activity.agent_ids)
    when = f"{activity.ended_at:%Y-%m-%d %H:%M:%S} UTC"
    branch.add(f"[cyan]made by[/cyan] {activity.stage} v{activity.version}, {when}, {agents}")
    if call := traced.calls.get(node.model_call_key or ""):
        parameters = escape(canonical_json(call.parameters))
        tokens = f"{call.tokens_in} + {call.tokens_out} tokens"
        branch.add(
            f"[cyan]answered by[/cyan] {escape(str(traced.agents[call.agent_id]))}, "
            f"{tokens}, {parameters}"
        )
    for decision in traced.decisions.get(entity_id, ()):
        reason = f": {escape(decision.reason)}" if decision.reason else ""
        branch.add(
            f"[cyan]{decision.verdict}[/cyan] by {escape(str(traced.agents[decision.agent_id]))}, "
            f"{decision.decided_at:%Y-%m-%d %H:%M:%S} UTC{reason}"
        )
    for role, parent in node.parents:
        line = f"[green]{role.replace('_', ' ')}[/green] {_entity_line(traced, parent)}"
        _grow(branch.add(line), traced, parent, seen)


def _entity_line(traced: Lineage, entity_id: str) -> str:
    entity = traced.entities[entity_id].entity
    state = "" if entity.state == "proposed" else f" ({entity.state})"
    return (
        f"[bold]{entity.kind}[/bold] {entity.id[:12]} in {escape(entity.dataset)}{state} "
        f"[dim]{escape(_gist(entity))}[/dim]"
    )


def _gist(entity: StoredEntity) -> str:
    """What a person wants to see of an entity's payload, on one line."""
    payload: dict[str, Any] = json.loads(entity.payload)
    fields = _GIST_FIELDS.get(entity.kind, tuple(payload))
    text = ", ".join(" ".join(str(payload[field]).split()) for field in fields if field in payload)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
