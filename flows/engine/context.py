"""The context of a run, a run of a pipeline with its report, and which entities are active."""

import gc
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from loupe.annotate.backend import Desks
from loupe.annotate.queues import Queue
from loupe.db.blobs import BlobStore
from loupe.db.calls import CostRow, cost_rows, replay_calls
from loupe.db.decisions import deactivated_by, set_active
from loupe.db.entities import (
    LIVE,
    ActivityRecord,
    AgentRef,
    NewEntity,
    StoredEntity,
    find,
    new_entity,
    pages,
    parents_of,
)
from loupe.db.plugin_agents import with_packages
from loupe.db.store import Store
from loupe.flows.engine.quotas import Missing
from loupe.flows.engine.report import Progress, StageReport, known_sum
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.flows.engine.software import code_revision, software
from loupe.flows.engine.stopping import Budget
from loupe.models.profiles.settings import Settings, make_home
from loupe.release.format.files import remove_abandoned
from loupe.schemas.base import EntityRecord
from loupe.schemas.build import Build
from loupe.schemas.embedding import PlainModelSpec
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Sample, Source
from loupe.schemas.video import StageSettings
from loupe.schemas.wording import many

IN_PROCESS = "in-process"
"""The flow run of a run without Prefect."""
PREVIEW = "preview"
"""The flow run of a preview, in a store that is thrown away."""


class HasSummary(Protocol):
    """A result that is described in a sentence."""

    @property
    def summary(self) -> str:
        """The sentence."""


BuildT = TypeVar("BuildT", bound=Build)
ResultT = TypeVar("ResultT", bound=HasSummary)


class TaskRunner(Protocol):
    """Runs a stage, or an exchange with Label Studio, under a title."""

    def __call__(self, title: str, work: Callable[[], ResultT]) -> ResultT:
        """Return the result of `work`."""


def in_process(title: str, work: Callable[[], ResultT]) -> ResultT:  # noqa: ARG001
    """Run it directly in this process."""
    return work()


@dataclass(frozen=True)
class RunContext:
    """Context of one run: its stores, its budget and its name in provenance.

    `as_task` runs a stage, given its title. In Prefect, it runs the stage as a task of the flow
    run. `packages` are those that add its profile; `surveys` has what the checks before the run
    have read of its sources (`loupe.flows.engine.importing.survey`). `losses` has a sentence on
    each source of which most images were not imported, for the end of the run.
    """

    settings: Settings
    store: Store
    blobs: BlobStore
    budget: Budget
    progress: Progress
    flow_run: str
    as_task: TaskRunner = in_process
    packages: tuple[AgentRef, ...] = ()
    surveys: dict[str, Any] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)

    @property
    def is_preview(self) -> bool:
        """Whether everything that the run writes is thrown away when it ends."""
        return self.flow_run == PREVIEW

    @contextmanager
    def stopped_by_interruption(self) -> Iterator[None]:
        """Stop sending requests in all threads of this run if a signal interrupts the block."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception):
                stop = self.budget.stop
                stop.request(signal.SIGINT if isinstance(error, KeyboardInterrupt) else None)
                if not stop.is_announced:
                    stop.is_announced = True
                    self.progress.say(stop.waiting())
            raise

    def activity(
        self, plan_id: int, dataset: str, started_at: datetime | None = None, *agents: AgentRef
    ) -> ActivityRecord:
        """Return this run's activity under a plan, with this code and other `agents`.

        The packages that add its profile and the models among the agents are agents, too.
        """
        return ActivityRecord(
            plan_id=plan_id,
            dataset=dataset,
            code_revision=code_revision(),
            flow_run=self.flow_run,
            started_at=started_at or datetime.now(UTC),
            agents=with_packages((software(), *self.packages, *agents)),
        )


def open_context(
    settings: Settings,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
    flow_run: str = IN_PROCESS,
    as_task: TaskRunner = in_process,
) -> RunContext:
    """Open the context of a run with these settings, including its stores (migrated if needed).

    Paid answers that could not be stored earlier, because the database was unavailable, are stored
    first, and what killed builds left beside the releases is removed.
    """
    make_home(settings.home)
    store = Store.open(settings.database_url, settings.home)
    if not store.is_read_only:
        replay_calls(store)
        remove_abandoned(settings.home / "releases")
    _exempt_loaded_modules_from_collection()
    return RunContext(
        settings,
        store,
        BlobStore(settings.blobs_url),
        budget or Budget(),
        progress or Progress(),
        flow_run,
        as_task,
    )


@cache
def _exempt_loaded_modules_from_collection() -> None:
    """Exclude loaded modules from garbage collection, which took a sixth of a stage's CPU time."""
    gc.freeze()


_PAGE = 500


def sync_active(
    context: RunContext,
    dataset: str,
    kind: str,
    is_active: Callable[[StoredEntity], bool | None],
    states: Sequence[str] = ("proposed",),
    agent: AgentRef | None = None,
) -> None:
    """Deactivate entities in `states` that are no longer needed; reactivate needed ones.

    Entities for which `is_active` returns None are left as they are. A reactivated entity returns
    to its previous state. What another agent made inactive stays so.
    """
    store, agent = context.store, agent or software()
    for page in pages(find(store, dataset, kind, states=(*states, "inactive")), _PAGE):
        needed = [(one, is_active(one)) for one in page]
        unneeded = [one.id for one, value in needed if value is False and one.state != "inactive"]
        missed = [one.id for one, value in needed if value and one.state == "inactive"]
        if unneeded:  # else no transaction, which would wait for other runs
            set_active(store, unneeded, agent, active=False)
        if missed and (own := deactivated_by(store, missed, agent)):
            set_active(store, sorted(own), agent, active=True)


def sync_active_edits(
    context: RunContext,
    dataset: str,
    kind: str,
    is_active: Callable[[str], bool | None],
    agent: AgentRef | None = None,
) -> None:
    """Do the same for entities that people edit: an edit is active if its original is.

    `is_active` is called with the id of the proposed entity.
    """
    entities = [one.id for one in find(context.store, dataset, kind)]
    edited = parents_of(context.store, entities, Role.EDITED_FROM)

    def follows(entity: StoredEntity) -> bool | None:
        first = entity.id
        while first in edited:
            first = edited[first][0]
        return is_active(first)

    sync_active(context, dataset, kind, follows, (*LIVE, "superseded", "rejected"), agent)


def keep_settings(context: RunContext, dataset: str, current: str, known: Collection[str]) -> None:
    """Let only the `current` ones count, of settings that runs asked for."""
    of = {current, *known}
    sync_active(
        context,
        dataset,
        StageSettings.kind,
        lambda one: one.id == current if one.id in of else None,
    )


@dataclass
class BuildReport:
    """The result of a run of a pipeline.

    `waiting_in` counts the items that people must decide, by gate, without gates that have none.
    `pages` are the Label Studio projects with open tasks, by gate and annotator.
    `lacks_desk` is set if Label Studio did not run, so that nobody can decide these items yet;
    `goes_on` if the queue watcher continues the run when they are decided.
    `release` is the newest release, or None if people must decide first; `was_released` is set if
    an earlier run built it of the same items; it has so many `images` and `captions`. `missing` is
    what the build asked for and this release does not have. `warnings` are sentences on releases
    that require an action.
    """

    dataset: str
    stages: list[StageReport] = field(default_factory=list)
    costs: list[CostRow] = field(default_factory=list)
    waiting_in: dict[str, int] = field(default_factory=dict)
    pages: dict[str, dict[str, str]] = field(default_factory=dict)
    lacks_desk: bool = False
    goes_on: bool = False
    release: Path | None = None
    release_id: str | None = None
    was_released: bool = False
    images: int = 0
    captions: int = 0
    missing: list[Missing] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def count_costs(self, store: Store) -> None:
        """Count the costs of models and services so far, without those that cost nothing."""
        rows = cost_rows(store, self.dataset)
        self.costs = [row for row in rows if row.tokens_in or row.unknown_usage or row.requests]

    @property
    def waiting(self) -> int:
        """Number of items that people must decide."""
        return sum(self.waiting_in.values())

    @property
    def artifact(self) -> str:
        """The key of the report's artifact."""
        return f"{self.dataset}-report"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.waiting and self.release is None:
            return (
                f"all steps of {self.dataset} are done; the pipeline has no release, so none was "
                f"made"
            )
        gates = ", ".join(f"{count} in {gate}" for gate, count in self.waiting_in.items())
        start = "start Label Studio with loupe up, and " if self.lacks_desk else ""
        goes_on = "the queue watcher of loupe up continues this run"
        again = (
            "run again to send the items"
            if self.lacks_desk
            else f"{goes_on if self.goes_on else 'run again'} when they have decided in Label "
            "Studio (loupe status shows the address, and loupe annotator adds people)"
        )
        waiting = (
            f"{self.waiting} items of {self.dataset} wait for people ({gates}); {start}{again}"
        )
        if self.release is None:
            return waiting
        built = (
            f"release {(self.release_id or '')[:12]} of {self.dataset}: "
            f"{many(self.images, 'image')}, {many(self.captions, 'caption')}, in {self.release}"
        )
        if self.waiting:
            return f"{waiting}; {built}"
        is_idle = self.was_released and all(one.is_idle for one in self.stages)
        return f"nothing was to be done: {built}" if is_idle else built

    @property
    def markdown(self) -> str:
        """The report for Prefect: result, stages and model cost."""
        lines = [f"**{self.sentence}**", "", *(f"- warning: {one}" for one in self.warnings)]
        lines += [f"- missing: {one.sentence}" for one in self.missing]
        for gate, count in self.waiting_in.items():
            pages = (f"[{who or 'here'}]({url})" for who, url in self.pages.get(gate, {}).items())
            lines.append(f"- {gate}: {count:,} items; tasks: {', '.join(pages) or 'none'}")
        lines += [*([""] if lines[2:] else []), "| stage | inputs |", "|---|---|"]
        lines += [f"| {stage.stage} | {stage.summary} |" for stage in self.stages]
        if self.costs:
            lines += [
                "",
                "| model or service | calls | tokens in | tokens out | requests | cost |",
                "|---|---|---|---|---|---|",
            ]
        for row in self.costs:
            unknown = row.unknown_usage
            tokens = known_sum(row.tokens_in, unknown), known_sum(row.tokens_out, unknown)
            cost = known_sum(row.cost, unknown if row.currency else 0)
            counts = row.calls, *tokens, row.requests, f"{cost} {row.currency or ''}".strip()
            lines.append(f"| {row.model} | {' | '.join(map(str, counts))} |")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report for `--json`."""
        return {
            "dataset": self.dataset,
            "waiting": self.waiting,
            "waiting_in": self.waiting_in,
            "pages": {gate: pages for gate, pages in self.pages.items() if pages},
            "release": str(self.release) if self.release else None,
            "release_id": self.release_id,
            "images": self.images,
            "captions": self.captions,
            "missing": [one._asdict() for one in self.missing],
            "warnings": self.warnings,
            "stages": [stage.as_json() for stage in self.stages],
            "costs": [row._asdict() for row in self.costs],
        }


@dataclass
class PipelineRun(Generic[BuildT]):
    """One run of a pipeline. Subclass it if the steps of a pipeline share more.

    Attributes:
        queues: the review queues of the pipeline's gates, by the gate's name.
        open_desks: returns the desks at which people review, or None if Label Studio does not run.
        compared_by: the model that compares the samples of a release (None: the profile's).
        other_missing: what a step found to be missing, besides images and captions.
        shared: what steps share, by name, such as models in use.
    """

    context: RunContext
    build: BuildT
    profile: Profile
    open_desks: Callable[[], Desks | None]
    wait: bool = False
    report: BuildReport = field(init=False)
    queues: dict[str, Queue] = field(init=False, default_factory=dict)
    compared_by: PlainModelSpec | None = field(init=False, default=None)
    other_missing: list[Missing] = field(init=False, default_factory=list)
    shared: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.report = BuildReport(self.build.dataset)

    @property
    def dataset(self) -> str:
        """The dataset that is built."""
        return self.build.dataset

    @property
    def store(self) -> Store:
        """The store of the installation."""
        return self.context.store

    def begin(self, step: Any) -> Scope:  # noqa: ARG002
        """Return the inputs of a step that starts now, and what its results are linked to."""
        return EVERYTHING

    def refuse_again(self, step: Any, stage: Any, kind: str) -> None:
        """Refuse what a stage refused before, if it counts again since; here it never does."""

    def keep_only(
        self,
        step: Any,  # noqa: ARG002
        kind: type[EntityRecord],
        ids: Collection[str],
    ) -> None:
        """Let only these entities of a kind count, of all that a step made."""
        self.sync_active(kind, lambda one: one.id in ids, LIVE)

    def add(self, *reports: StageReport) -> None:
        """Add reports of stages to the report of the run."""
        self.report.stages += reports

    def find(
        self, kind: type[EntityRecord], *states: str, group: str | None = None
    ) -> list[StoredEntity]:
        """Return the dataset's entities of a kind, in these states if any, oldest first."""
        found = find(self.store, self.dataset, kind.kind, states=states or None)
        return [one for one in found if group is None or one.group == group]

    def stage_settings(self, stage: str) -> list[StoredEntity]:
        """Return the settings with which a stage of the dataset was run, oldest first."""
        return [one for one in self.find(StageSettings) if one.record(StageSettings).stage == stage]

    def keep_settings(self, current: str, known: Collection[str]) -> None:
        """Let only the `current` ones count, of settings that runs asked for."""
        keep_settings(self.context, self.dataset, current, known)

    def require_own_dataset(self, built_from: str) -> None:
        """Require that the dataset was not imported, nor drawn from imported sources.

        Raises:
            ConfigurationError: it was.
        """
        if self.find(Source) or self.find(Sample):
            raise ConfigurationError(
                f"dataset {self.dataset!r} holds items that are not built from {built_from}; build "
                f"under another dataset name"
            )

    def create(
        self, record: EntityRecord, parents: Sequence[tuple[Role, str]] = (), **values: Any
    ) -> NewEntity:
        """Return a record as a new entity of the dataset; see `loupe.db.entities.new_entity`."""
        return new_entity(record, self.dataset, parents=parents, **values)

    def sync_active(
        self,
        kind: type[EntityRecord],
        is_active: Callable[[StoredEntity], bool | None],
        states: Sequence[str] = ("proposed",),
    ) -> None:
        """Deactivate and reactivate entities of the dataset; see `sync_active`."""
        sync_active(self.context, self.dataset, kind.kind, is_active, states)

    def say(self, sentence: str | None) -> None:
        """Show a message between stages; do nothing for None."""
        if sentence is not None:
            self.context.progress.say(sentence)


RunT = TypeVar("RunT", bound=PipelineRun)  # type: ignore[type-arg]


class PipelineStep(ABC, Generic[RunT]):
    """A step of a pipeline, a gate, a loop of these, or the release.

    The pipelines of papers and those of one's own (`loupe.api.parts.Part`) are lists of these.
    """

    def is_enabled(self, run: RunT) -> bool:  # noqa: ARG002
        """Tell whether this build includes it."""
        return True

    def is_per_item(self, run: RunT) -> bool:  # noqa: ARG002
        """Tell whether it also runs while items wait at earlier gates.

        Such a step must use only decided items, and its result for an item must not depend on other
        items being decided. Otherwise releases would depend on the order of decisions.
        """
        return False

    @property
    def gates(self) -> Mapping[str, str]:
        """The queues in which people decide, each with the key of its policy in a build."""
        return {}

    def specs(self, profile: Profile) -> Iterable[Any]:  # noqa: ARG002
        """Return the models of the profile that it asks."""
        return ()

    @abstractmethod
    def run(self, run: RunT) -> None:
        """Run it as far as items are decided."""
