"""The provenance of an entity as a tree, for terminals and notebooks."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from loupe.db.lineage import Lineage
from loupe.release.lineage.summaries import summarize
from loupe.schemas.base import canonical_json
from loupe.schemas.provenance import PROMOTE, WITHHELD_WHOLE


def lineage_tree(traced: Lineage) -> Tree:
    """Return a tree: the entity, how it was made, and its parents recursively."""
    root = Tree(_entity_line(traced, traced.root))
    _grow(root, traced, traced.root, seen=set())
    return root


def _grow(branch: Tree, traced: Lineage, entity_id: str, seen: set[str]) -> None:
    """Add what is known of an entity, then its parents; each entity is drawn once."""
    seen.add(entity_id)
    node = traced.entities[entity_id]
    activity = traced.activities[node.activity_id]
    when = _when(activity.run and activity.run.ended_at)
    agents = "".join(f", {escape(str(traced.agents[agent]))}" for agent in activity.agent_ids)
    branch.add(
        f"[cyan]made by[/cyan] {escape(activity.stage)} v{escape(activity.version)}{when}{agents}"
    )
    for row in _promoted_rows(activity.stage, activity.configuration):
        branch.add(f"[cyan]promoted from[/cyan] {escape(row)}")
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
    """Return the time if it is known; releases contain none."""
    return "" if moment is None else f", {moment:%Y-%m-%d %H:%M:%S} UTC"


def _entity_line(traced: Lineage, entity_id: str) -> str:
    entity = traced.entities[entity_id].entity
    summary = escape(summarize(entity.kind, entity.payload))
    return f"{_name(traced, entity_id)} [dim]{summary}[/dim]"


def _name(traced: Lineage, entity_id: str) -> str:
    entity = traced.entities[entity_id].entity
    state = "" if entity.state == "proposed" else f" ({escape(entity.state)})"
    name = escape(f"{entity.id[:12]} in {entity.dataset}")
    return f"[bold]{escape(entity.kind)}[/bold] {name}{state}"


def _promoted_rows(stage: str, configuration: Mapping[str, Any]) -> Iterator[str]:
    """Name the rows of shards that an entity was made of; releases may state anything."""
    rows = configuration.get("rows") if stage == PROMOTE else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            shard, root = (str(row.get(name))[:12] for name in ("shard", "root"))
            yield f"row {row.get('row')} of shard {shard} ({row.get('step')}), root {root}…"
