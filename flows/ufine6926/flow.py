"""The Prefect flow `build-ufine6926`."""

from prefect import flow
from prefect.client.schemas import State

from flows.engine.ledger import Budget
from flows.engine.prefect import run_in_prefect
from flows.ufine6926.pipeline import run_build


@flow(name="build-ufine6926", persist_result=False)
def build_ufine6926(
    config: str | None = None,
    profile: str | None = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    wait: bool = False,
) -> State[None]:
    """Builds a UFine6926-style dataset from videos, as far as it can be done now.

    Args:
        config: the build file (TOML); without one, the demonstration street is built.
        profile: name or file of the profile; without one, `LOUPE_PROFILE` says which.
        max_cost: stop cleanly when model calls have cost this much.
        max_tokens: stop cleanly when model calls have used this many tokens.
        wait: keep running until people have decided everything, instead of ending.
    """
    return run_in_prefect(
        lambda context: run_build(context, config, profile, wait=wait),
        Budget(max_cost, max_tokens),
    )
