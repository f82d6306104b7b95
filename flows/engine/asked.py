"""What the runs of a paper's pipeline asked of a step, and which results that leads to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loupe.db.entities import LIVE, AgentRef, StoredEntity, fetch_parents, parents_of
from loupe.flows.engine.context import PipelineRun, sync_active_edits
from loupe.flows.engine.runner import store_settings
from loupe.schemas.base import EntityRecord
from loupe.schemas.provenance import Role
from loupe.schemas.video import StageSettings

_OTHER_SETTINGS = AgentRef("software", "other-settings")
"""The agent that makes inactive what only runs with other settings lead to."""


@dataclass(frozen=True)
class Asked:
    """The settings of a step in this run, and those in all runs of its dataset.

    Results are linked to settings once there are second ones; earlier results are of the first.

    Attributes:
        current: the id of the settings of this run.
        stored: all settings, oldest first.
    """

    current: str
    stored: tuple[StoredEntity, ...]

    @property
    def others(self) -> tuple[StoredEntity, ...]:
        """The settings of other runs."""
        return tuple(one for one in self.stored if one.id != self.current)

    @property
    def have_changed(self) -> bool:
        """Whether the last run had other settings."""
        return any(one.state in LIVE for one in self.others)

    @property
    def links(self) -> tuple[tuple[Role, str], ...]:
        """The links of results to the settings of this run."""
        return ((Role.WRITTEN_WITH, self.current),) if self.others else ()

    def note(self, run: PipelineRun[Any]) -> None:
        """Note that the settings of this run are now those in use."""
        run.keep_settings(self.current, [one.id for one in self.stored])

    def led_to(self, run: PipelineRun[Any], results: Sequence[StoredEntity]) -> set[str]:
        """Return the ids of those results that the settings of this run lead to."""
        first, second, *_ = self.stored
        linked = parents_of(run.store, [one.id for one in results], Role.WRITTEN_WITH)
        return {
            one.id
            for one in results
            if self.current in linked.get(one.id, ())
            or (first.id == self.current and one.seq < second.seq)
        }

    def keep(self, run: PipelineRun[Any], kind: type[EntityRecord], source: Role) -> None:
        """Let only those texts count that the settings of this run lead to, with their edits.

        Other texts keep their decisions, and count again if a run asks for them. So that they do
        not if their image was rejected meanwhile, what they were made from (`source`) must count.
        """
        if not self.others:
            return
        texts = run.find(kind)
        made = self.led_to(run, texts)
        sources = fetch_parents(run.store, made, source)

        def counts(first: str) -> bool | None:
            if first not in made:
                return False
            return True if all(one.state in LIVE for one in sources[first]) else None

        sync_active_edits(run.context, run.dataset, kind.kind, counts, _OTHER_SETTINGS)


def ask(run: PipelineRun[Any], stage: str, version: str, values: Mapping[str, Any]) -> Asked:
    """Store what this run asks of a step, by its name (`values["step"]`)."""
    current = store_settings(run.context, run.dataset, stage, version, dict(values)).id
    stored = tuple(
        one
        for one in run.stage_settings(stage)
        if one.record(StageSettings).values["step"] == values["step"]
    )
    return Asked(current, stored)
