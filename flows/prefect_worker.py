"""The Prefect worker that `loupe up` starts: it runs only our deployments, in a fixed way.

Prefect's own worker takes the command, the environment and the folder of a run from the run's
request. Run this one as `python -m flows.prefect_worker --pool NAME --deployments FILE --lost-after
SECONDS` in the folder where runs work.
"""

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

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
from prefect.states import AwaitingRetry
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from schemas.errors import ServiceError

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
_ENGINE = shlex.join([sys.executable, "-m", "prefect.engine"])
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
        """Run the engine in the worker's folder, with the worker's environment."""
        return cls(command=_ENGINE, working_dir=Path.cwd())


class LoupeWorker(ProcessWorker):
    """Runs the deployments of `entrypoints`, and restarts crashed runs.

    A crashed run has lost nothing and continues where it was; see `flows.engine.runner`.
    """

    job_configuration = OurJobConfiguration

    def __init__(self, pool: str, entrypoints: frozenset[str]) -> None:
        super().__init__(
            work_pool_name=pool,
            name=pool,
            create_pool_if_not_found=False,
        )
        self._entrypoints = entrypoints

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
        """Run the flow in a process.

        Raises:
            ServiceError: it does not belong to a deployment that `loupe up` registers.
        """
        deployment = (
            await self.client.read_deployment(flow_run.deployment_id)
            if flow_run.deployment_id
            else None
        )
        if problem := reason_to_refuse(flow_run, deployment, self._entrypoints):
            raise ServiceError(problem)
        return await super().run(flow_run, configuration, task_status)

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
    flow_run: FlowRun, deployment: DeploymentResponse | None, entrypoints: frozenset[str]
) -> str | None:
    """Return why the run does not belong to a deployment of `loupe up`; None if it does."""
    if deployment is None:
        return "only runs of deployments are executed"
    if deployment.entrypoint not in entrypoints:
        known = ", ".join(sorted(entrypoints))
        return f"the entrypoint {deployment.entrypoint!r} is not one of ours ({known})"
    if given := {*(flow_run.job_variables or {}), *(deployment.job_variables or {})}:
        return f"job variables are not accepted; got {', '.join(sorted(given))}"
    if any(set(step) != {_PULL_STEP} for step in deployment.pull_steps or []):
        return (
            f"a deployment must have no pull step except {_PULL_STEP}; register it with: loupe up"
        )
    return None


async def prepare(client: PrefectClient, pool: str, lost_after: timedelta) -> None:
    """Create or update the work pool, and create the automation that finds lost runs."""
    created = WorkPoolCreate(name=pool, type=LoupeWorker.type, base_job_template=JOB_TEMPLATE)
    await client.create_work_pool(created, overwrite=True)
    automation = _lost_runs_automation(pool, lost_after)
    # An automation that is created again forgets the runs it was waiting for.
    if not await client.read_automations_by_name(automation.name):
        await client.create_automation(automation)


def _lost_runs_automation(pool: str, lost_after: timedelta) -> AutomationCore:
    """Return an automation that marks a run as crashed if it sent nothing for `lost_after`."""
    return AutomationCore(
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


async def work(pool: str, deployments: Path, lost_after: timedelta) -> None:
    """Execute runs until the process receives a signal to end."""
    listed = yaml.safe_load(deployments.read_text(encoding="utf-8"))["deployments"]
    async with get_client() as client:
        await prepare(client, pool, lost_after)
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    await LoupeWorker(pool, frozenset(one["entrypoint"] for one in listed)).start()


def main(arguments: Sequence[str] | None = None) -> None:
    """Work in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m flows.prefect_worker", description=__doc__)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--deployments", type=Path, required=True)
    parser.add_argument("--lost-after", type=float, required=True, metavar="SECONDS")
    options = parser.parse_args(arguments)
    lost_after = timedelta(seconds=options.lost_after)
    with suppress(KeyboardInterrupt):  # as asyncio ends after SIGINT, and here after SIGTERM
        asyncio.run(work(options.pool, options.deployments, lost_after))


if __name__ == "__main__":
    main()
