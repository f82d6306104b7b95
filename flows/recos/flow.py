"""The Prefect flow `build-recos`."""

from prefect import flow
from prefect.client.schemas import State

from flows.engine.ledger import Budget
from flows.engine.prefect import run_in_prefect
from flows.recos.pipeline import run_build


@flow(name="build-recos", persist_result=False)
def build_recos(
    config: str | None = None,
    profile: str | None = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    wait: bool = False,
) -> State[None]:
    """Builds a ReCoS-style benchmark of tasks, version by version, as far as it can be done now.

    Args:
        config: the build file (TOML); without one, drawn stills, calculations, programs and signs.
        profile: name or file of the profile; without one, `LOUPE_PROFILE` says which.
        max_cost: stop cleanly when model calls have cost this much.
        max_tokens: stop cleanly when model calls have used this many tokens.
        wait: keep running until people have decided everything, instead of ending.
    """
    return run_in_prefect(
        lambda context: run_build(context, config, profile, wait=wait),
        Budget(max_cost, max_tokens),
    )
