"""What every step of a run needs: stores, limits, who runs it, and where progress goes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import run

from db.agents import AgentRef
from db.blobs import BlobStore
from db.store import Store
from flows.execution import ChunkExecutor, ThreadExecutor
from flows.ledger import Budget
from flows.progress import Progress, SilentProgress
from profiles.settings import Settings

DISTRIBUTION = "loupe-datasets"


@dataclass(frozen=True)
class RunContext:
    """One run: its stores, its budget, its executor, its name in provenance."""

    settings: Settings
    store: Store
    blobs: BlobStore
    budget: Budget = field(default_factory=Budget)
    executor: Callable[[str, int], ChunkExecutor] = ThreadExecutor
    progress: Progress = field(default_factory=SilentProgress)
    flow_run: str = "in-process"

    @property
    def software(self) -> AgentRef:
        """This code as an agent."""
        return AgentRef("software", "loupe", version(DISTRIBUTION))

    @property
    def code_revision(self) -> str:
        """The commit that runs, or the version where there is no repository."""
        return code_revision()


def open_context(settings: Settings, **parts: object) -> RunContext:
    """The context of a run with these settings; `parts` are further fields of `RunContext`."""
    store = Store.open(settings.database_url)
    return RunContext(settings, store, BlobStore(settings.blobs_url), **parts)  # type: ignore[arg-type]


@cache
def code_revision() -> str:
    """The commit that this code is at (`+changed` when edited), or its version."""
    folder = Path(__file__).parent
    described = run(
        ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+changed"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or f"{DISTRIBUTION} {version(DISTRIBUTION)}"
