"""Runs in Prefect: flow, tasks and artifacts."""

import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from prefect import Flow, flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.exceptions import Abort, Pause
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Failed, Paused

from loupe.flows.engine.context import BuildReport, BuildT, ResultT, RunContext, RunT, open_context
from loupe.flows.engine.pipeline import PipelineSpec, load_build, run_build
from loupe.flows.engine.report import LineProgress, RunReport
from loupe.flows.engine.stopping import Budget
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import LoupeError
from loupe.services.prefect_server import paused_tag

# A run in the Prefect UI: one task per stage, progress in its log, and the result as an artifact


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
            progress=LineProgress(get_run_logger().info),
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
    key = re.sub(r"[^a-z0-9]+", "-", report.artifact.lower()).strip("-")
    create_markdown_artifact(report.markdown, key=key)
    get_run_logger().info(report.sentence)
    if isinstance(report, BuildReport) and report.waiting:
        paused: State[None] = Paused(message=report.sentence, reschedule=deployment.id is not None)
        _add_tag(paused_tag(report.dataset))
        _set_state(paused)
        # Ends this process and leaves its run paused: a worker runs it again after it is resumed.
        raise Pause(state=paused)
    return Completed(message=report.sentence)


def _set_state(state: State[None]) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(str(flow_run.id)), state)


def _add_tag(tag: str) -> None:
    """Tag the run, so that the queue watcher finds it by its dataset."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(str(flow_run.id)), tags={*flow_run.tags, tag})


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
