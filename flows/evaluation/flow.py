"""The Prefect flows `evaluate` and `train-cfam`."""

from prefect import flow
from prefect.client.schemas import State

from loupe.flows.engine.prefect import run_in_prefect
from loupe.flows.engine.stopping import Budget
from loupe.flows.evaluation.run import EvaluationRequest, run_evaluation
from loupe.flows.evaluation.training import TrainingRequest, run_training

# The Prefect flow `evaluate`; what it does is in `loupe.flows.evaluation.run`.


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
        profile: name or file of the profile whose embedders are scored. Default: `LOUPE_PROFILE`.
        checkpoint: the folder of a CFAM checkpoint, scored in place of the profile's embedders.
        split: the split to score. Default: test, or the only one.
        check_images: compare the digest of every image first; otherwise only its size.
        embedder: `builtin`, or `PROVIDER:NAME@REVISION`, scored in place of the profile's.
        name: the checkpoint's name on the leaderboard.
    """
    request = EvaluationRequest(
        release, profile, checkpoint, split, check_images, embedder, name=name
    )
    return run_in_prefect(lambda context: run_evaluation(context, request), Budget())


# The Prefect flow `train-cfam`; what it does is in `loupe.flows.evaluation.training`.


@flow(name="train-cfam", persist_result=False)
def train_cfam(
    release: str, config: str | None = None, out: str | None = None, resume: bool = False
) -> State[None]:
    """Trains CFAM on the train split of a release.

    Args:
        release: the folder of a release with a train split, or a JSON file of its rows.
        config: a training file (TOML), `paper`, `demo` or `pairs`. Default: as in docs/training.md.
        out: the folder of the training. Default: `trainings/<name>` in `LOUPE_HOME`.
        resume: continue from the last checkpoint in that folder, if there is one.
    """
    request = TrainingRequest(release, config, out, resume)
    return run_in_prefect(lambda context: run_training(request, context.progress), Budget())
