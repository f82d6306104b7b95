"""The Prefect flow `evaluate`; what it does is in `flows.evaluation_run`."""

from prefect import flow
from prefect.client.schemas import State

from flows.evaluation_run import EvaluationRequest, run_evaluation
from flows.ledger import Budget
from flows.prefect_flow import run_in_prefect


@flow(name="evaluate", persist_result=False)
def evaluate(
    release: str,
    profile: str | None = None,
    checkpoint: str | None = None,
    split: str | None = None,
    check_images: bool = True,
    embedder: str | None = None,
    name: str | None = None,
) -> State[None]:
    """Scores models on a release and writes its leaderboard.

    Args:
        release: the folder of a release; or DATASET (its newest), DATASET@VERSION, an id.
        profile: name or file of the profile whose embedders are scored; without one,
            `LOUPE_PROFILE` says which.
        checkpoint: the folder of a CFAM checkpoint, scored in place of the profile's embedders.
        split: which split; without one, test, or the only one.
        check_images: hold every image against its digest first; otherwise only its size.
        embedder: `builtin`, or `PROVIDER:NAME@REVISION`, scored in place of the profile's.
        name: what to call the checkpoint on the leaderboard.
    """
    request = EvaluationRequest(
        release, profile, checkpoint, split, check_images, embedder, name=name
    )
    return run_in_prefect(lambda context: run_evaluation(context, request), Budget())
