"""The Prefect worker that `loupe up` starts: it runs only our deployments, in a fixed way.

Prefect's own worker takes the command, the environment and the folder of a run from the run's
request, and runs the steps of its deployment. Run this one as `python -P -m
loupe.flows.prefect_worker` in a folder whose files are ours: Prefect takes settings from them.
"""

import argparse
import asyncio
import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self

import anyio
import yaml
from anyio.abc import TaskStatus
from prefect.automations import (
    AutomationCore,
    ChangeFlowRunState,
    EventTrigger,
    Posture,
    ResourceSpecification,
)
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.flows import Flow
from prefect.runner._flow_run_executor import FlowRunExecutionResult, FlowRunExecutorContext
from prefect.runner._process_manager import ProcessHandle
from prefect.runner._starter_engine import EngineCommandStarter
from prefect.states import AwaitingRetry
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import PYTHON

JOB_TEMPLATE = {
    "job_configuration": {"stream_output": True},
    "variables": {"type": "object", "properties": {}, "additionalProperties": False},
}
"""A work pool without options: the server refuses all job variables."""
LOST = "Lost"
"""The state, a kind of crash, of a run whose process has sent nothing for too long."""
RERUNS = 2
"""Maximum number of restarts of a crashed run."""
_RERUN_WITHIN = timedelta(days=1)
_SIGNS_OF_LIFE = ("Pending", "Submitting", "Running", "heartbeat")
_PULL_STEP = "prefect.deployments.steps.set_working_directory"


class OurJobConfiguration(ProcessJobConfiguration):
    """How every run is started, independent of the work pool, the deployment and the run."""

    @classmethod
    async def from_template_and_values(
        cls,
        base_job_template: dict[str, Any],  # noqa: ARG003 - like `values` on purpose not used
        values: dict[str, Any],  # noqa: ARG003
        client: PrefectClient | None = None,  # noqa: ARG003
    ) -> Self:
        """Take nothing from them: `LoupeWorker.run` states command and folder."""
        return cls()


class LoupeWorker(ProcessWorker):
    """Runs the deployments that a file lists in `folder`, and restarts crashed runs.

    A crashed run has lost nothing and continues where it was; see `loupe.flows.engine.runner`.
    """

    job_configuration = OurJobConfiguration

    def __init__(self, pool: str, deployments: Path, folder: Path) -> None:
        super().__init__(
            work_pool_name=pool,
            name=pool,
            create_pool_if_not_found=False,
        )
        self._deployments = deployments
        self._folder = folder

    @classmethod
    def __dispatch_key__(cls) -> str:
        """Registers this worker in addition to Prefect's own worker of this type."""
        return "loupe"

    async def run(
        self,
        flow_run: FlowRun,
        configuration: ProcessJobConfiguration,
        task_status: TaskStatus[int] | None = None,
    ) -> ProcessWorkerResult:
        """Run the flow in a process, with the worker's environment.

        Raises:
            ServiceError: it does not belong to a deployment that `loupe up` registers, or the
                process could not be started.
        """
        deployment = (
            await self.client.read_deployment(flow_run.deployment_id)
            if flow_run.deployment_id
            else None
        )
        own = Path.cwd()
        if problem := reason_to_refuse(flow_run, deployment, self._entrypoints(), own):
            raise ServiceError(problem)
        entrypoint = str(deployment.entrypoint) if deployment else ""
        command = [*PYTHON, "-m", "loupe.flows.prefect_run", entrypoint, str(self._folder)]

        async def flow_of(_: FlowRun) -> Flow[..., Any]:  # for its hooks
            flow: Flow[..., Any] = await anyio.to_thread.run_sync(resolve_name, entrypoint)
            return flow

        async with FlowRunExecutorContext() as context, anyio.create_task_group() as group:
            starter = EngineCommandStarter(
                command=shlex.join(command),
                cwd=own,
                env=configuration.env,
                stream_output=True,
                control_channel=context.control_channel,
            )
            executor = context.create_executor(
                flow_run, starter, resolve_flow=flow_of, propose_submitting=False
            )
            ended: list[FlowRunExecutionResult | None] = []

            async def execute(*, task_status: TaskStatus[ProcessHandle]) -> None:
                ended.append(await executor.submit(task_status=task_status))

            handle = await group.start(execute)
            if task_status is not None and handle.pid is not None:
                task_status.started(handle.pid)
        (result,) = ended
        if result is None or result.status_code is None:
            raise ServiceError("the process of the run could not be started")
        return ProcessWorkerResult(status_code=result.status_code, identifier=str(handle.pid))

    def _entrypoints(self) -> frozenset[str]:
        """Return the entrypoints that are listed now: pipelines may be added at any time."""
        listed = yaml.safe_load(self._deployments.read_text(encoding="utf-8"))["deployments"]
        return frozenset(one["entrypoint"] for one in listed)

    async def sync_with_backend(self) -> None:
        """Send the worker's own heartbeat and look for crashed runs."""
        await super().sync_with_backend()
        await self._run_crashed_again()

    async def _run_crashed_again(self) -> None:
        crashed = FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CRASHED])),
            end_time=FlowRunFilterEndTime(after_=datetime.now(UTC) - _RERUN_WITHIN),
        )
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[self._work_pool_name]))
        runs = await self.client.read_flow_runs(flow_run_filter=crashed, work_pool_filter=pool)
        for run in runs:
            states = await self.client.read_flow_run_states(run.id)
            if is_to_run_again(run, states):
                message = f"Crashed, and started again (at most {RERUNS} times)."
                await self.client.set_flow_run_state(run.id, AwaitingRetry(message=message))


def is_to_run_again(run: FlowRun, states: Sequence[State[Any]]) -> bool:
    """Tell whether a crashed run had started or was lost, and has not crashed too often.

    A refused run has neither started nor been lost.
    """
    has_begun = bool(run.run_count) or run.state_name == LOST
    return has_begun and sum(state.is_crashed() for state in states) <= RERUNS


def reason_to_refuse(
    flow_run: FlowRun,
    deployment: DeploymentResponse | None,
    entrypoints: frozenset[str],
    folder: Path,
) -> str | None:
    """Return why the run does not belong to a deployment of `loupe up`; None if it does.

    `loupe up` registers deployments in `folder`. The worker uses nothing of a deployment except its
    entrypoint, and refuses one that was changed, as somebody expects the change to matter.
    """
    if deployment is None:
        return "only runs of deployments are executed"
    if deployment.entrypoint not in entrypoints:
        known = ", ".join(sorted(entrypoints))
        return f"the entrypoint {deployment.entrypoint!r} is not one of ours ({known})"
    if given := {*(flow_run.job_variables or {}), *(deployment.job_variables or {})}:
        return f"job variables are not accepted; got {', '.join(sorted(given))}"
    again = f"must be the one of {folder}; register the deployment with: loupe up"
    if deployment.pull_steps != [{_PULL_STEP: {"directory": str(folder)}}]:
        return f"its only pull step must be {_PULL_STEP}, and {again}"
    if deployment.path not in (None, "", ".", str(folder)) or deployment.storage_document_id:
        return f"its path {again}; got {deployment.path!r}"
    return None


async def prepare(client: PrefectClient, pool: str, lost_after: timedelta) -> None:
    """Create or update the work pool, and create the automation that finds lost runs."""
    created = WorkPoolCreate(name=pool, type=LoupeWorker.type, base_job_template=JOB_TEMPLATE)
    await client.create_work_pool(created, overwrite=True)
    automation = AutomationCore(
        name=f"{pool}: runs lost after {lost_after}",
        description=f"Marks a run as crashed when its process sent nothing for {lost_after}.",
        trigger=EventTrigger(
            after={f"prefect.flow-run.{sign}" for sign in _SIGNS_OF_LIFE},
            expect={"prefect.flow-run.*"},
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=lost_after,
        ),
        actions=[
            ChangeFlowRunState(
                name=LOST,
                state=StateType.CRASHED,
                message=f"Its process sent nothing for {lost_after}.",
            )
        ],
    )
    # An automation that is created again forgets the runs it was waiting for.
    if not await client.read_automations_by_name(automation.name):
        await client.create_automation(automation)


async def work(pool: str, deployments: Path, lost_after: timedelta, folder: Path) -> None:
    """Execute runs until the process receives a signal to end."""
    tempfile.tempdir = str(Path.cwd())  # Prefect's own folder there is the first user's alone
    async with get_client() as client:
        await prepare(client, pool, lost_after)
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    await LoupeWorker(pool, deployments, folder).start()


def main(arguments: Sequence[str] | None = None) -> None:
    """Execute runs in a folder."""
    parser = argparse.ArgumentParser(
        prog="python -m loupe.flows.prefect_worker", description=__doc__
    )
    parser.add_argument("--pool", required=True)
    parser.add_argument("--deployments", type=Path, required=True)
    parser.add_argument("--lost-after", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--folder", type=Path, required=True, help="where runs work")
    options = parser.parse_args(arguments)
    lost_after = timedelta(seconds=options.lost_after)
    with suppress(KeyboardInterrupt):  # as asyncio ends after SIGINT, and here after SIGTERM
        asyncio.run(work(options.pool, options.deployments, lost_after, options.folder))


if __name__ == "__main__":
    main()
