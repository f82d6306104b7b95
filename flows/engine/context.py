"""The context of a run, a run of a pipeline, and which entities are active in it."""

import gc
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Generic, TypeVar

from annotate.backend import Desks
from annotate.queues import Queue
from db.blobs import BlobStore
from db.calls import replay_calls
from db.decisions import set_active
from db.entities import LIVE, ActivityRecord, AgentRef, StoredEntity, find, pages, parents_of
from db.store import Store
from flows.engine.report import BuildReport, Progress, StageReport
from flows.engine.software import code_revision, software
from flows.engine.stopping import Budget
from models.profiles.settings import Settings
from schemas.build import Build
from schemas.embedding import PlainModelSpec
from schemas.profile import Profile
from schemas.provenance import Role

StageRunner = Callable[[str, Callable[[], StageReport]], StageReport]
BuildT = TypeVar("BuildT", bound=Build)


def in_process(title: str, stage: Callable[[], StageReport]) -> StageReport:  # noqa: ARG001
    """Run a stage directly in this process."""
    return stage()


@dataclass(frozen=True)
class RunContext:
    """Context of one run: its stores, its budget and its name in provenance.

    `as_task` runs a stage, given its title. In Prefect, it runs the stage as a task of the flow
    run.
    """

    settings: Settings
    store: Store
    blobs: BlobStore
    budget: Budget
    progress: Progress
    flow_run: str
    as_task: StageRunner = in_process

    @property
    def software(self) -> AgentRef:
        """This code as an agent."""
        return software()

    def stop_sending(self, interruption: BaseException) -> None:
        """Stop sending requests in all threads of this run, and return what it waits for."""
        stop = self.budget.stop
        stop.request(signal.SIGINT if isinstance(interruption, KeyboardInterrupt) else None)
        if not stop.is_announced:
            stop.is_announced = True
            self.progress.say(stop.waiting())

    @property
    def code_revision(self) -> str:
        """The commit that runs, or the version outside a repository."""
        return code_revision()

    def activity(
        self, plan_id: int, dataset: str, started_at: datetime | None = None, *agents: AgentRef
    ) -> ActivityRecord:
        """Return this run's activity under a plan, with this code and other `agents`."""
        return ActivityRecord(
            plan_id=plan_id,
            dataset=dataset,
            code_revision=self.code_revision,
            flow_run=self.flow_run,
            started_at=started_at or datetime.now(UTC),
            agents=(self.software, *agents),
        )


def open_context(
    settings: Settings,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
    flow_run: str = "in-process",
    as_task: StageRunner = in_process,
) -> RunContext:
    """Open the context of a run with these settings, including its stores (migrated if needed).

    Paid answers that could not be stored earlier, because the database was unavailable, are stored
    first.
    """
    store = Store.open(settings.database_url, settings.home / "spool")
    if not store.is_read_only:
        replay_calls(store)
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
) -> None:
    """Deactivate entities in `states` that are no longer needed; reactivate needed ones.

    Entities for which `is_active` returns None are left as they are. A reactivated entity returns
    to its previous state.
    """
    for page in pages(find(context.store, dataset, kind, states=(*states, "inactive")), _PAGE):
        called_for = {one.id: is_active(one) for one in page}
        for active in (False, True):
            ids = [one.id for one in page if called_for[one.id] is active]
            set_active(context.store, ids, context.software, active=active)


def sync_active_edits(
    context: RunContext, dataset: str, kind: str, is_active: Callable[[str], bool | None]
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

    sync_active(context, dataset, kind, follows, (*LIVE, "superseded"))


@dataclass
class PipelineRun(Generic[BuildT]):
    """One run of a pipeline. Subclass it if the steps of a pipeline share more.

    Attributes:
        queues: the review queues of the pipeline's gates, by the gate's name.
        compared_by: the model that compares the samples of a release (None: the profile's).
    """

    context: RunContext
    build: BuildT
    profile: Profile
    open_desks: Callable[[], Desks]
    wait: bool = False
    report: BuildReport = field(init=False)
    queues: dict[str, Queue] = field(init=False, default_factory=dict)
    compared_by: PlainModelSpec | None = field(init=False, default=None)

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

    def add(self, *reports: StageReport) -> None:
        """Add reports of stages to the report of the run."""
        self.report.stages += reports

    def say(self, sentence: str | None) -> None:
        """Show a message between stages; do nothing for None."""
        if sentence is not None:
            self.context.progress.say(sentence)
