"""What the flows have in common: a context that shows itself in Prefect, and how a run ends."""

from collections.abc import Callable

from prefect.client.schemas import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.context import RunContext, open_context
from flows.ledger import Budget
from flows.prefect_run import PrefectProgress, TaskExecutor, publish_report
from flows.report import RunReport
from profiles.settings import load_settings
from schemas.errors import LoupeError


def run_in_prefect(build: Callable[[RunContext], RunReport], budget: Budget) -> State[None]:
    """Runs `build` as the flow run that this is called in, and gives the state it ends in.

    A fault of the world or of the input is a sentence there, and no traceback.
    """
    try:
        context = open_context(
            load_settings(),
            budget=budget,
            executor=TaskExecutor,
            progress=PrefectProgress(),
            flow_run=str(flow_run.id),
        )
        report = build(context)
    except LoupeError as error:
        return Failed(message=str(error))
    publish_report(report)
    return Completed(message=report.sentence)
