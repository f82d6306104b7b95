"""The Prefect flow `train-cfam`; what it does is in `flows.training_run`."""

from prefect import flow
from prefect.client.schemas import State

from flows.ledger import Budget
from flows.prefect_flow import run_in_prefect
from flows.training_run import TrainingRequest, run_training


@flow(name="train-cfam", persist_result=False)
def train_cfam(
    release: str, config: str | None = None, out: str | None = None, resume: bool = False
) -> State[None]:
    """Trains CFAM on the train split of a release.

    Args:
        release: the folder of a release with a train split, or a JSON file of its rows.
        config: the training file (TOML), or `demo`; without one, the paper's settings.
        out: the folder of the training; without one, `trainings/<name>` under `LOUPE_HOME`.
        resume: go on from the last checkpoint in that folder, where there is one.
    """
    request = TrainingRequest(release, config, out, resume)
    return run_in_prefect(lambda context: run_training(request, context.progress), Budget())
