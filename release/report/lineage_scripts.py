"""The lineage of all rows as scripts: as many rows in each as in `data/rows`.

What many rows come from (sources, prompts, settings, videos), activities and agents are once in
`data/lineage/shared.js`; everything else is in the script of the rows that come from it. An entity
is a list of kind, id, gist, state, activity, call, parents and decisions. Parents are pairs of role
and reference: from 0 on an entity of the same script, below 0 a shared one, −1 the first.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from db.lineage import EntityNode, Lineage, TracedEntity
from release.lineage.reading import ReleasedLineage, summarize
from release.report.scripts import ScriptWriter, write_script
from schemas.errors import IntegrityError

_SHARED = "lineage/shared"
_SHARED_KINDS = frozenset({"source", "prompt", "settings", "sample", "video"})


def _row_entities(row: Mapping[str, Any]) -> list[str]:
    """The entities of a row whose lineage is drawn: its image, then its texts."""
    return [
        row["image_entity_id"],
        *row["caption_entity_ids"],
        *(row.get("coarse_caption_entity_ids") or ()),
        *(one["entity_id"] for one in row.get("translations") or ()),
    ]


class LineageScripts:
    """Writes the lineage of rows as they come, `size` rows a script."""

    def __init__(self, folder: Path, lineage: ReleasedLineage, size: int) -> None:
        self._folder = folder
        self._lineage = lineage
        self._size = size
        self._writer = ScriptWriter(folder, "lineage", size)
        self._rows: list[list[str]] = []
        self._shared = _Shared()

    def add(self, row: Mapping[str, Any], *, known: bool = True) -> None:
        """Appends a row; of one that is not to be `known`, nothing is shown."""
        self._rows.append(_row_entities(row) if known else [])
        if len(self._rows) == self._size:
            self._write()

    def finish(self) -> None:
        """Writes what is left, and what is shared."""
        if self._rows:
            self._write()
        write_script(self._folder, _SHARED, self._shared.details())

    def _write(self) -> None:
        wanted = list(dict.fromkeys(one for row in self._rows for one in row))
        rows: list[list[int]] = [[] for _ in self._rows]
        details: list[Any] = []
        if wanted:
            page = _Page(self._lineage.trace_page(wanted), self._shared)
            rows = [[page.reference(one) for one in row] for row in self._rows]
            details = page.details()
        self._writer.write({"rows": rows, "entities": details})
        self._rows = []


class _Numbered:
    """Things with numbers in the order in which they were first named."""

    def __init__(self) -> None:
        self.listed: list[Any] = []
        self._numbers: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._numbers

    def __getitem__(self, key: str) -> int:
        return self._numbers[key]

    def add(self, key: str, value: Any) -> int:
        self._numbers[key] = len(self.listed)
        self.listed.append(value)
        return len(self.listed) - 1


class _Shared:
    """What several rows share."""

    def __init__(self) -> None:
        self.entities = _Numbered()
        self._activities = _Numbered()
        self._agents = _Numbered()

    def details(self) -> dict[str, Any]:
        return {
            "entities": self.entities.listed,
            "activities": self._activities.listed,
            "agents": self._agents.listed,
        }

    def agent(self, traced: Lineage, agent_id: str) -> int:
        if agent_id in self._agents:
            return self._agents[agent_id]
        agent = traced.agents[agent_id]
        return self._agents.add(agent_id, [agent.kind, agent.name, agent.revision or ""])

    def activity(self, traced: Lineage, activity_id: str) -> int:
        if activity_id in self._activities:
            return self._activities[activity_id]
        activity = traced.activities[activity_id]
        agents = [self.agent(traced, one) for one in activity.agent_ids]
        return self._activities.add(activity_id, [activity.stage, activity.version, agents])


class _Page:
    """The entities of one script."""

    def __init__(self, traced: Lineage, shared: _Shared) -> None:
        self._traced = traced
        self._shared = shared
        self._own = _Numbered()

    def details(self) -> list[Any]:
        return self._own.listed

    def reference(self, entity_id: str) -> int:
        """The number of an entity, which is added with its ancestors if it was not yet.

        Parents first: a lineage may be deep, so that nothing here calls itself.

        Raises:
            IntegrityError: an entity comes from itself.
        """
        waiting, started = [entity_id], set[str]()
        while waiting:
            one = waiting[-1]
            if one in self:
                waiting.pop()
                continue
            node = self._traced.entities[one]
            missing = [parent for _, parent in node.parents if parent not in self]
            if missing and one in started:
                raise IntegrityError(f"the lineage of {one} leads back to it")
            started.add(one)
            if missing:
                waiting += missing
            else:
                self._add(one, node)
        return self._number(entity_id)

    def __contains__(self, entity_id: str) -> bool:
        return entity_id in self._own or entity_id in self._shared.entities

    def _number(self, entity_id: str) -> int:
        if entity_id in self._own:
            return self._own[entity_id]
        return -1 - self._shared.entities[entity_id]

    def _add(self, entity_id: str, node: EntityNode) -> None:
        parents = [[role, self._number(parent)] for role, parent in node.parents]
        details = [
            node.entity.kind,
            entity_id,
            _gist_of(node.entity),
            node.entity.state,
            self._shared.activity(self._traced, node.activity_id),
            self._call(node),
            parents,
            self._decisions(entity_id),
        ]
        is_shared = node.entity.kind in _SHARED_KINDS and not any(
            parent in self._own for _, parent in node.parents
        )
        (self._shared.entities if is_shared else self._own).add(entity_id, details)

    def _call(self, node: EntityNode) -> Sequence[Any] | int:
        call = self._traced.calls.get(node.model_call_key or "")
        if call is None:
            return 0
        agent = self._shared.agent(self._traced, call.agent_id)
        return [agent, call.tokens_in, call.tokens_out, call.cost, call.currency]

    def _decisions(self, entity_id: str) -> list[list[Any]]:
        return [
            [one.verdict, self._shared.agent(self._traced, one.agent_id), one.reason or ""]
            for one in self._traced.decisions.get(entity_id, ())
        ]


_GIST_CHARACTERS = 160


def _gist_of(entity: TracedEntity) -> str:
    """What a person wants to see of what an entity holds, on one line."""
    shown = summarize(entity.kind, entity.payload, 4 * _GIST_CHARACTERS)
    return shown if len(shown) <= _GIST_CHARACTERS else f"{shown[: _GIST_CHARACTERS - 1]}…"
