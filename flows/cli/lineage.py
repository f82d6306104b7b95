"""`loupe lineage`: the provenance of an entity."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from loupe.flows.cli.options import notices_at_hand, opened_store
from loupe.flows.cli.output import Answer, Line, warn

if TYPE_CHECKING:
    from rich.tree import Tree

    from loupe.db.lineage import Lineage


def lineage(entity_id: str, *, release: Path | None = None) -> Answer:
    """Show the provenance of an entity.

    Lists the models, prompts, people and source files it was made from. With --json, prints
    the W3C PROV graph as PROV-JSON.

    Args:
        entity_id: Entity id, or at least its first 6 digits; with --release also a row number or
            the file name of an image.
        release: Read the lineage from this release folder instead of the store.
    """
    from loupe.db.lineage import find_entity_id, prov_json, trace

    lines: list[Line] = []
    if release is None:
        with opened_store() as store:
            traced = trace(store, find_entity_id(store, entity_id))
    else:
        traced, captions = _released(release, entity_id)
        if captions:
            asked = f"loupe lineage ID --release {release}"
            lines.append(f"captions of this image (trace one with {asked}):")
        lines += [_caption_line(*one) for one in captions.items()]
    return Answer(prov_json(traced), [lineage_tree(traced), *lines])


def _released(folder: Path, name: str) -> tuple["Lineage", dict[str, str]]:
    """Return the lineage of `name`; for a row, also the captions of its image.

    The texts of withdrawn items are left out.
    """
    from loupe.flows.withdrawal.releases import withdrawal_in, without_withdrawn
    from loupe.release.lineage.reading import open_lineage

    if withdrawal := withdrawal_in(folder, notices_at_hand()):
        warn(withdrawal.sentence)
    with open_lineage(folder) as released:
        traced, captions = released.trace_named(name), released.captions_of(name)
    return without_withdrawn(traced, captions, withdrawal.affected if withdrawal else ())


def _caption_line(caption_id: str, text: str) -> Text:
    """Return a caption with the id that `loupe lineage` accepts, cut at the width of the output."""
    from loupe.release.lineage.summaries import printable

    return Text(f"  {caption_id[:12]} {printable(text)}", no_wrap=True, overflow="ellipsis")


def lineage_tree(traced: "Lineage") -> "Tree":
    """Return a tree: the entity, how it was made, and its parents recursively."""
    from rich.tree import Tree

    root = Tree(_entity_line(traced, traced.root))
    _grow(root, traced, traced.root, seen=set())
    return root


def _grow(branch: "Tree", traced: "Lineage", entity_id: str, seen: set[str]) -> None:
    """Add what is known of an entity, then its parents; each entity is drawn once."""
    from loupe.schemas.base import canonical_json
    from loupe.schemas.provenance import WITHHELD_WHOLE

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


def _entity_line(traced: "Lineage", entity_id: str) -> str:
    from loupe.release.lineage.summaries import summarize

    entity = traced.entities[entity_id].entity
    summary = escape(summarize(entity.kind, entity.payload))
    return f"{_name(traced, entity_id)} [dim]{summary}[/dim]"


def _name(traced: "Lineage", entity_id: str) -> str:
    entity = traced.entities[entity_id].entity
    state = "" if entity.state == "proposed" else f" ({escape(entity.state)})"
    name = escape(f"{entity.id[:12]} in {entity.dataset}")
    return f"[bold]{escape(entity.kind)}[/bold] {name}{state}"


def _promoted_rows(stage: str, configuration: Mapping[str, Any]) -> Iterator[str]:
    """Name the rows of shards that an entity was made of; releases may state anything."""
    from loupe.schemas.provenance import PROMOTE

    rows = configuration.get("rows") if stage == PROMOTE else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            shard, root = (str(row.get(name))[:12] for name in ("shard", "root"))
            yield f"row {row.get('row')} of shard {shard} ({row.get('step')}), root {root}…"
