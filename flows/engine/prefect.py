"""Runs in Prefect: flow, tasks and artifacts."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from prefect import Flow, flow, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.exceptions import Abort, Pause
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Failed, Paused

from flows.engine.context import BuildReport, BuildT, ResultT, RunContext, open_context
from flows.engine.pipeline import PipelineSpec, RunT, load_build, run_build
from flows.engine.report import Progress, RunReport, StageReport
from flows.engine.stopping import Budget
from models.profiles.settings import load_settings
from schemas.errors import LoupeError

# A run in the Prefect UI: one task per stage, with progress and results as artifacts

_SECONDS_BETWEEN_UPDATES = 2.0
_Row = dict[str, str | int]


def run_as_task(title: str, work: Callable[[], ResultT]) -> ResultT:
    """Run it as a task of the flow run; its errors are raised here, not in the task's log."""
    outcome: list[ResultT | Exception] = []

    def run() -> State[None]:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - it is raised below
            outcome.append(error)
            return Failed(message=str(error))
        outcome.append(result)
        return Completed(message=result.summary)

    task(name=title, cache_policy=NO_CACHE, persist_result=False)(run)(return_state=True)
    (result,) = outcome
    if isinstance(result, Exception):
        raise result
    return result


class PrefectProgress(Progress):
    """A progress artifact for each stage, a final table of its counts and a log line.

    The artifacts' keys start with the run's name without its version.
    """

    def __init__(self) -> None:
        self._dataset, _, _ = str(flow_run.name).partition("@")
        self._artifacts: dict[str, UUID] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._updated: dict[str, float] = {}
        self._lock = threading.Lock()

    def start(self, stage: str, total: int | None) -> None:
        """Create the artifact."""
        artifact = create_progress_artifact(0.0, key=self._key(stage), description=stage)
        if isinstance(artifact, UUID):
            self._artifacts[stage] = artifact
        self._counts[stage] = (0, total or 0)
        self._updated[stage] = time.monotonic()

    def advance(self, stage: str, count: int) -> None:
        """Add to the count, and update the artifact from time to time."""
        with self._lock:
            done, total = self._counts[stage]
            self._counts[stage] = (done + count, total)
            now = time.monotonic()
            if not total or now - self._updated[stage] < _SECONDS_BETWEEN_UPDATES:
                return
            self._updated[stage] = now
        self._show(stage, min(100.0, 100.0 * (done + count) / total))

    def end(self, report: StageReport) -> None:
        """Publish the counts."""
        self._show(report.stage, 100.0)
        rows: list[dict[str, str | int]] = [
            {"outcome": "done", "reason": "", "inputs": report.done}
        ]
        rows += _reasons("rejected", report.rejected) + _reasons("left for later", report.deferred)
        if report.already_done:
            rows += _reasons("finished earlier", {"": report.already_done})
        create_table_artifact(
            table=rows, key=f"{self._key(report.stage)}-counts", description=report.summary
        )
        get_run_logger().info("%s: %s", report.stage, report.summary)

    def say(self, sentence: str) -> None:
        """Log the message."""
        get_run_logger().info(sentence)

    def _key(self, stage: str) -> str:
        return artifact_key(f"{self._dataset} {stage}")

    def _show(self, stage: str, percent: float) -> None:
        if artifact := self._artifacts.get(stage):
            update_progress_artifact(artifact, percent)


def artifact_key(stage: str) -> str:
    """Return `stage` as a Prefect key: lowercase letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")


def publish_report(report: RunReport) -> None:
    """Publish the result of the run as an artifact."""
    create_markdown_artifact(report.markdown, key=artifact_key(report.artifact))
    get_run_logger().info(report.sentence)


def _reasons(outcome: str, counts: dict[str, int]) -> list[_Row]:
    return [
        {"outcome": outcome, "reason": reason, "inputs": count}
        for reason, count in sorted(counts.items())
    ]


# Flows


def run_in_prefect(build: Callable[[RunContext], RunReport], budget: Budget) -> State[None]:
    """Run `build` as the current flow run, and return its final state.

    Errors of the environment or the input are reported as a message without a traceback.

    Raises:
        Abort: the run of a deployment failed, and its state says why.
        Pause: items wait for people; the run is paused until it is resumed.
    """
    try:
        context = open_context(
            load_settings(),
            budget=budget,
            progress=PrefectProgress(),
            flow_run=str(flow_run.id),
            as_task=run_as_task,
        )
        report = build(context)
    except LoupeError as error:
        failed: State[None] = Failed(message=str(error))
        if deployment.id is None:
            return failed
        get_run_logger().error(str(error))
        _set_state(failed)
        abort = Abort()  # a process that returns a failed state logs a traceback
        abort.state = failed  # type: ignore[attr-defined]  # Prefect reads it, as of `Pause`
        raise abort from error
    publish_report(report)
    if isinstance(report, BuildReport) and report.waiting:
        paused: State[None] = Paused(message=report.sentence, reschedule=deployment.id is not None)
        _set_state(paused)
        # Ends this process and leaves its run paused: a worker runs it again after it is resumed.
        raise Pause(state=paused)
    return Completed(message=report.sentence)


def _set_state(state: State[None]) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(str(flow_run.id)), state)


_PARAMETERS = """
Args:
    config: the build file (TOML); without one, the demonstration is built.
    profile: name or file of the profile; without one, `LOUPE_PROFILE` says which.
    max_cost: stop cleanly when model calls have cost this much.
    max_tokens: stop cleanly when model calls have used this many tokens.
    wait: keep running until people have decided everything, instead of ending.
"""


def build_flow(
    name: str,
    spec: PipelineSpec[BuildT, RunT],
    description: str,
    at_end: Callable[[RunContext], None],
) -> Flow[..., State[None]]:
    """Return the Prefect flow that runs the builds of a pipeline; see `run_build` for `at_end`."""

    def build(
        config: str | None = None,
        profile: str | None = None,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        wait: bool = False,
    ) -> State[None]:
        return run_in_prefect(
            lambda context: run_build(context, spec, config, profile, at_end, wait=wait),
            Budget(max_cost, max_tokens),
        )

    def run_name() -> str:
        config = flow_run.parameters.get("config")
        if config is None:
            return f"{name}: demonstration"
        try:
            chosen = load_build(Path(config), spec.form)
        except LoupeError:  # the run reports the error
            return name
        return f"{chosen.dataset}@{spec.version(chosen)}"

    build.__doc__ = f"{description}\n{_PARAMETERS}"
    return flow(name=name, flow_run_name=run_name, persist_result=False)(build)
