"""The Prefect flow `build-ufine3c`; what it does is in `flows.ufine3c_build`."""

from prefect import flow
from prefect.client.schemas import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.context import open_context
from flows.ledger import Budget
from flows.prefect_run import PrefectProgress, TaskExecutor, publish_report
from flows.ufine3c_build import run_build
from profiles.settings import load_settings
from schemas.errors import LoupeError


@flow(name="build-ufine3c", persist_result=False)
def build_ufine3c(
    config: str | None = None,
    profile: str | None = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    wait: bool = False,
) -> State[None]:
    """Builds a UFine3C-style evaluation set, as far as it can be done now.

    Args:
        config: the build file (TOML); without one, the demonstration world is built.
        profile: name or file of the profile; without one, `LOUPE_PROFILE` says which.
        max_cost: stop cleanly when model calls have cost this much.
        max_tokens: stop cleanly when model calls have used this many tokens.
        wait: keep running until people have decided everything, instead of ending.
    """
    try:
        context = open_context(
            load_settings(),
            budget=Budget(max_cost, max_tokens),
            executor=TaskExecutor,
            progress=PrefectProgress(),
            flow_run=str(flow_run.id),
        )
        report = run_build(context, config, profile, wait=wait)
    except LoupeError as error:  # a fault of the world or of the input: a sentence, no traceback
        return Failed(message=str(error))
    publish_report(report)
    return Completed(message=report.sentence)
