"""A lineage as a tree for the terminal."""

from datetime import datetime

from rich.markup import escape
from rich.tree import Tree

from db.lineage import WITHHELD_WHOLE, Lineage
from release.lineage_reading import summarize
from schemas.base import canonical_json


def lineage_tree(traced: Lineage) -> Tree:
    """The entity at the root; under each entity how it came to be, then its parents."""
    root = Tree(_entity_line(traced, traced.root))
    _grow(root, traced, traced.root, seen=set())
    return root


def _grow(branch: Tree, traced: Lineage, entity_id: str, seen: set[str]) -> None:
    """Adds what is known of an entity, then its parents; what stands above is not drawn again."""
    seen.add(entity_id)
    node = traced.entities[entity_id]
    activity = traced.activities[node.activity_id]
    when = _when(activity.run and activity.run.ended_at)
    agents = "".join(f", {escape(str(traced.agents[agent]))}" for agent in activity.agent_ids)
    branch.add(
        f"[cyan]made by[/cyan] {escape(activity.stage)} v{escape(activity.version)}{when}{agents}"
    )
    if call := traced.calls.get(node.model_call_key or ""):
        parameters = escape(canonical_json(call.parameters))
        tokens_in, tokens_out = (
            "unknown" if tokens is None else tokens for tokens in (call.tokens_in, call.tokens_out)
        )
        tokens = f"{tokens_in} + {tokens_out} tokens"
        branch.add(
            f"[cyan]answered by[/cyan] {escape(str(traced.agents[call.agent_id]))}, "
            f"{tokens}, {parameters}"
        )
    for decision in traced.decisions.get(entity_id, ()):
        reason = f": {escape(decision.reason)}" if decision.reason else ""
        by = escape(str(traced.agents[decision.agent_id]))
        verdict = f"[cyan]{escape(decision.verdict)}[/cyan]"
        branch.add(f"{verdict} by {by}{_when(decision.decided_at)}{reason}")
    if withheld := node.entity.withheld:
        what = "all of it" if withheld == (WITHHELD_WHOLE,) else ", ".join(withheld)
        branch.add(f"[dim]not in the release: {escape(what)}[/dim]")
    for role, parent in node.parents:
        named = f"[green]{escape(role.replace('_', ' '))}[/green]"
        if parent in seen:
            branch.add(f"{named} {_name(traced, parent)} [dim]… as above[/dim]")
        else:
            _grow(branch.add(f"{named} {_entity_line(traced, parent)}"), traced, parent, seen)


def _when(moment: datetime | None) -> str:
    """The time, where it is known; a release tells none."""
    return "" if moment is None else f", {moment:%Y-%m-%d %H:%M:%S} UTC"


def _entity_line(traced: Lineage, entity_id: str) -> str:
    entity = traced.entities[entity_id].entity
    told = escape(summarize(entity.kind, entity.payload))
    return f"{_name(traced, entity_id)} [dim]{told}[/dim]"


def _name(traced: Lineage, entity_id: str) -> str:
    entity = traced.entities[entity_id].entity
    state = "" if entity.state == "proposed" else f" ({escape(entity.state)})"
    name = escape(f"{entity.id[:12]} in {entity.dataset}")
    return f"[bold]{escape(entity.kind)}[/bold] {name}{state}"
