"""What the runs of a paper's pipeline asked of a step, and which results that leads to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loupe.annotate.queues import reopen_decided
from loupe.db.entities import LIVE, AgentRef, StoredEntity, fetch_parents, find, parents_of
from loupe.db.quarantine import Superseded, rejecting_plans
from loupe.db.store import Store
from loupe.flows.engine.context import PipelineRun, RunContext, keep_settings, sync_active_edits
from loupe.flows.engine.runner import store_settings
from loupe.schemas.base import EntityRecord
from loupe.schemas.provenance import Role
from loupe.schemas.video import StageSettings
from loupe.schemas.wording import many

_OTHER_SETTINGS = AgentRef("software", "other-settings")
"""The agent that makes inactive what only runs with other settings lead to."""
_STEP = "step"


@dataclass(frozen=True)
class Asked:
    """The settings of a step in this run, and those in all runs of its dataset.

    Results are linked to settings once there are second ones; earlier results are of the first.

    Attributes:
        context: the context of this run.
        dataset: its dataset.
        current: the id of the settings of this run.
        stored: all settings, oldest first.
    """

    context: RunContext
    dataset: str
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

    def note(self) -> None:
        """Note that the settings of this run are now those in use."""
        known = {one.id for one in self.stored}
        keep_settings(self.context, self.dataset, self.current, known)

    def led_to(self, results: Sequence[StoredEntity]) -> set[str]:
        """Return the ids of those results that the settings of this run lead to."""
        if not self.others:
            return {one.id for one in results}
        first, second, *_ = self.stored
        ids = [one.id for one in results]
        linked = parents_of(self.context.store, ids, Role.WRITTEN_WITH)
        return {
            one.id
            for one in results
            if self.current in linked.get(one.id, ())
            or (first.id == self.current and one.seq < second.seq)
        }

    def keep(self, kind: type[EntityRecord], source: Role) -> None:
        """Let only those texts count that the settings of this run lead to, with their edits.

        Other texts keep their decisions, and count again if a run asks for them. So that they do
        not if their image was rejected meanwhile, what they were made from (`source`) must count.
        """
        if not self.others:
            return
        texts = list(find(self.context.store, self.dataset, kind.kind))
        made = self.led_to(texts)
        sources = fetch_parents(self.context.store, made, source)

        def counts(first: str) -> bool | None:
            if first not in made:
                return False
            return True if all(one.state in LIVE for one in sources[first]) else None

        sync_active_edits(self.context, self.dataset, kind.kind, counts, _OTHER_SETTINGS)


def ask(
    context: RunContext, dataset: str, stage: str, version: str, values: Mapping[str, Any]
) -> Asked:
    """Store what this run asks of a step, by its name (`values["step"]`)."""
    current = store_settings(context, dataset, stage, version, dict(values)).id
    known = settings_of_steps(context.store, dataset)
    stored = [
        entity
        for entity, settings in known.items()
        if (settings.stage, settings.values[_STEP]) == (stage, values[_STEP])
    ]
    return Asked(context, dataset, current, tuple(stored))


def settings_of_steps(store: Store, dataset: str) -> dict[StoredEntity, StageSettings]:
    """Return what the runs of a dataset asked of its steps, oldest first."""
    found = {one: one.record(StageSettings) for one in find(store, dataset, StageSettings.kind)}
    return {one: settings for one, settings in found.items() if _STEP in settings.values}


def let_gates_decide_again(run: PipelineRun[Any], kind: type[EntityRecord], why: str) -> None:
    """Reopen what gates decided alone of a kind, and say so."""
    for queue in run.queues.values():
        if queue.kind == kind.kind and (count := reopen_decided(run.store, queue, why)):
            run.say(f"{many(count, kind.kind)} again, as {why}")


def made_with_others(store: Store, dataset: str) -> Superseded:
    """Return the plans of steps whose rejections no longer hold: those with other settings.

    Of the others, rejections of what no longer counts do not hold. Plans of one's own pipelines,
    which link to settings of their own, are not among them.
    """
    known = settings_of_steps(store, dataset)
    ids = {one.id for one in known}
    in_use = {one.id for one in known if one.state in LIVE}
    times = Counter(settings.stage for settings in known.values())
    stale, of_steps = [], []
    for plan in rejecting_plans(store, (dataset,)):
        made_with = set(plan.configuration.get("made_with", ()))
        linked = made_with & ids
        if not linked and (made_with or plan.stage not in times):
            continue
        of_steps.append(plan.id)
        holds = bool(linked & in_use) if linked else times[plan.stage] == 1
        if not holds:
            stale.append(plan.id)
    return Superseded(tuple(stale), tuple(of_steps))
