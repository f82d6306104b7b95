"""`loupe train`, `loupe evaluate` and `loupe leaderboard`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import ReleaseArgument, SplitOption, opened_run, opened_store
from flows.cli.output import Figure, JsonOption, answer, err, print_json, print_table, say

if TYPE_CHECKING:
    from flows.evaluation.leaderboard import Board, Leaderboard
    from flows.evaluation.run import EvaluationReport


def train(
    release: Path,
    *,
    config: str | None = None,
    pairs: bool = False,
    out_: Path | None = None,
    resume: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Train CFAM on a release, or a CLIP on the contrastive pairs of a build-ccd release.

    The best checkpoint is chosen on held-out identities of the train split, never on the test
    split. On several GPUs: accelerate launch -m flows.cli train …

    Args:
        release: Folder of a release with a train split, or a JSON file of rows.
        config: Training file in TOML, 'paper', 'demo' or 'pairs' (default: docs/training.md).
        pairs: Train on contrastive pairs (default of --config: pairs).
        out_: Output folder (default: trainings/NAME in LOUPE_HOME).
        resume: Resume from the last checkpoint in the output folder.
    """
    from flows.engine.report import console_progress
    from flows.evaluation.training import TrainingRequest, load_training, run_training
    from schemas.errors import UsageError

    settings = load_training(config or ("pairs" if pairs else None))
    if pairs and not settings.losses.contrast:
        raise UsageError(f"--pairs: {config} has no losses.contrast; wanted it above 0")
    request = TrainingRequest(str(release), settings, str(out_) if out_ else None, resume)
    report = run_training(request, console_progress(err))
    if as_json and report.record is not None:
        print_json(report.as_json())
    elif report.record is not None:
        say(report.sentence)
        if pairs:
            print_table("Held-out groups", ("score", "before", "best"), report.rows)


def evaluate(
    release: ReleaseArgument,
    *,
    profile: str | None = None,
    embedder: str | None = None,
    checkpoint: Path | None = None,
    embeddings: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="IMAGES.npy TEXTS.npy")
    ] = None,
    name: str | None = None,
    split: SplitOption = None,
    check_images: bool = True,
    as_json: JsonOption = False,
) -> None:
    """Score models on a release.

    Embeddings are cached: nothing is embedded twice.

    Args:
        profile: Score the embedders of this profile (name or file).
        embedder: Score this embedder: builtin or PROVIDER:NAME@REVISION.
        checkpoint: Score the CFAM checkpoint in this folder.
        embeddings: Score these embeddings, in the order of the release; needs --name.
        name: Name of the checkpoint or embeddings on the leaderboard.
        check_images: First compare each image with its digest, or only with its size.
    """
    from flows.evaluation.run import EvaluationRequest, run_evaluation

    weights = None if checkpoint is None else str(checkpoint)
    request = EvaluationRequest(
        release, profile, weights, split, check_images, embedder, embeddings, name
    )
    report = run_evaluation(opened_run(), request)
    if not as_json:
        _print_evaluations(report)
    answer(as_json, report.as_json(), f"the leaderboard is {report.written.page}")


def _print_evaluations(report: "EvaluationReport") -> None:
    """Print the scores of each evaluated model; every metric that occurs gets a column."""
    from flows.evaluation.leaderboard import (
        column_title,
        interval_text,
        ordered_metrics,
        score_text,
    )
    from schemas.evaluation import METRICS

    results = [stored.evaluation.result for stored in report.stored]
    found = {name for result in results for one in result.directions for name in one.scores}
    metrics = ordered_metrics({*METRICS, *found})
    rows = []
    for result in results:
        for one in result.directions:
            values = [Figure(score_text(one.scores.get(name), name)) for name in metrics]
            interval = interval_text(one.scores.get(metrics[0]), metrics[0]) or "–"
            rows.append([str(result.model.ref), one.direction, values[0], interval, *values[1:]])
    first, *rest = map(column_title, metrics)
    columns = ["model", "direction", first, "95 %", *rest]
    print_table(f"scores on {report.dataset}", columns, rows)
    for sentence in report.board.notes:
        say(sentence)
    if old := sum(not one.is_new for one in report.stored):
        say(f"stored results, not computed again: {old:,}")


def leaderboard(
    release: ReleaseArgument,
    *,
    split: SplitOption = None,
    out_: Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """Show the leaderboard of a release.

    Also writes it as HTML, Markdown and JSON.

    Args:
        out_: Output folder (default: in LOUPE_HOME/leaderboards).
    """
    from flows.evaluation.leaderboard import collect, leaderboard_document
    from flows.evaluation.leaderboard_page import leaderboard_folder, write_leaderboard
    from models.profiles.settings import load_settings

    with opened_store() as store:
        board = collect(store, release, split)
    written = write_leaderboard(board, out_ or leaderboard_folder(load_settings().home, board))
    if not as_json:
        print_boards(board)
    files = {name: str(path) for name, path in written._asdict().items()}
    document = {**leaderboard_document(board), "files": files}
    answer(as_json, document, f"the page is {written.page}")


def print_boards(board: "Leaderboard") -> None:
    """Print the tables of a leaderboard to the terminal."""
    from flows.evaluation.leaderboard import column_title

    name = f"{board.manifest.dataset} {board.manifest.version}, {board.split}"
    for one in board.boards:
        title = f"{name}: {one.direction}, {one.queries:,} queries, gallery of {one.gallery:,}"
        first, *rest = map(column_title, one.metrics)
        print_table(title, ["model", first, "95 %", *rest], _board_rows(one))
    for sentence in board.notes:
        say(sentence)


def _board_rows(one: "Board") -> Iterator[list[object]]:
    from flows.evaluation.leaderboard import interval_text, score_text

    first, *rest = one.metrics
    for row in one.rows:
        values = [Figure(score_text(row.scores.get(name), name)) for name in one.metrics]
        interval = interval_text(row.scores.get(first), first) or "–"
        yield [row.name, values[0], interval, *values[1:]]
    for table in one.published:
        for published in table.rows:
            scores = dict(zip(table.metrics, published.scores, strict=True))
            disputed = "; disputed" if published.disputed else ""
            trained = f"trained on {table.trained_on}; " if table.trained_on else ""
            name = f"{published.model} ({trained}published, on {table.dataset} itself{disputed})"
            yield [name, scores.get(first), "–", *map(scores.get, rest)]
