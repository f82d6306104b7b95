"""Context of a run: stores, limits, agent and progress."""

import gc
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import run

from db.blobs import BlobStore
from db.calls import replay_calls
from db.entities import AgentRef
from db.store import Store
from db.work import ActivityRecord
from flows.engine.ledger import Budget
from flows.engine.progress import Progress
from flows.engine.report import StageReport
from models.profiles.settings import Settings

DISTRIBUTION = "loupe-datasets"
StageRunner = Callable[[str, Callable[[], StageReport]], StageReport]


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


@cache
def software() -> AgentRef:
    """Return this code as an agent."""
    return AgentRef("software", "loupe", version(DISTRIBUTION))


@cache
def code_revision() -> str:
    """Return the commit of this code (with `+changed` if edited), or its version."""
    folder = Path(__file__).parent
    described = run(
        ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+changed"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or f"{DISTRIBUTION} {version(DISTRIBUTION)}"
