"""`loupe train`: trains CFAM on a release."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.output import JsonOption, err, out, print_json


def train(
    release: Annotated[
        Path,
        typer.Argument(help="The folder of a release with a train split, or a JSON file of rows."),
    ],
    config: Annotated[
        str | None,
        typer.Option(help="The training file (TOML), or demo (default: the paper's settings)."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="The folder of the training (default: by its name, at home)."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in that folder.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train CFAM on a release.

    The best checkpoint is chosen on identities held out, never on the test split.
    On several GPUs: accelerate launch -m flows.cli train …
    """
    from flows.engine.progress import ConsoleProgress
    from flows.evaluation.training import TrainingRequest, run_training

    request = TrainingRequest(str(release), config, str(folder) if folder else None, resume)
    report = run_training(request, ConsoleProgress(err))
    if as_json and report.record is not None:
        print_json(report.as_json())
    elif report.record is not None:
        out.print(report.sentence, markup=False, soft_wrap=True)
