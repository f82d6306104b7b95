"""`loupe evaluate`: scores models on a release, and adds the result to what is stored of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.evaluation_options import ReleaseArgument, SplitOption
from flows.cli.output import Figure, JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from flows.evaluation.run import EvaluationReport


def evaluate(
    release: ReleaseArgument,
    profile: Annotated[
        str | None, typer.Option(help="Score the embedders of this profile (name or file).")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="builtin, or PROVIDER:NAME@REVISION.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The folder of a CFAM checkpoint.")
    ] = None,
    embeddings: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="IMAGES.npy TEXTS.npy", help="Vectors in the order of the release; see --name."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call a checkpoint or given vectors.")
    ] = None,
    split: SplitOption = None,
    check_images: Annotated[
        bool,
        typer.Option(
            "--check-images/--no-check-images",
            help="Hold every image against its digest first; else only its size.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Score models on a release. What was embedded once is never embedded again."""
    from flows.engine.context import open_context
    from flows.engine.progress import ConsoleProgress
    from flows.evaluation.run import EvaluationRequest, run_evaluation
    from profiles.settings import load_settings

    request = EvaluationRequest(
        release,
        profile,
        None if checkpoint is None else str(checkpoint),
        split,
        check_images,
        embedder,
        embeddings,
        name,
    )
    context = open_context(load_settings(), progress=ConsoleProgress(err))
    report = run_evaluation(context, request)
    if as_json:
        print_json(report.as_json())
        return
    print_evaluations(report)
    out.print(f"the leaderboard is {report.written.page}", markup=False, soft_wrap=True)


def print_evaluations(report: "EvaluationReport") -> None:
    """The scores of each model that was evaluated."""
    from flows.evaluation.leaderboard import column_title

    first, *rest = map(column_title, _metrics(report))
    columns = ["model", "direction", first, "95 %", *rest]
    print_table(f"scores on {report.dataset}", columns, _rows(report))
    for sentence in report.board.unscored.values():
        out.print(sentence, markup=False, soft_wrap=True)
    if old := sum(not one.is_new for one in report.stored):
        out.print(f"{old:,} of them had been evaluated so before; the stored result stands")


def _rows(report: "EvaluationReport") -> Iterator[list[object]]:
    from flows.evaluation.leaderboard import interval_text, score_text

    metrics = _metrics(report)
    for stored in report.stored:
        result = stored.evaluation.result
        for one in result.directions:
            values = [Figure(score_text(one.scores.get(name), name)) for name in metrics]
            interval = interval_text(one.scores.get(metrics[0]), metrics[0]) or "–"
            yield [str(result.model.ref), one.direction, values[0], interval, *values[1:]]


def _metrics(report: "EvaluationReport") -> tuple[str, ...]:
    """The columns: those of retrieval, and what else anything was scored by."""
    from flows.evaluation.leaderboard import ordered_metrics
    from schemas.evaluation import METRICS

    results = (stored.evaluation.result for stored in report.stored)
    found = {name for result in results for one in result.directions for name in one.scores}
    return ordered_metrics({*METRICS, *found})
