"""`loupe train`, `evaluate`, `leaderboard` and `reproduce`."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.options import ReleaseArgument, SplitOption, opened_run, opened_store, settings
from loupe.flows.cli.output import Answer, Figure, Line, Table, err
from loupe.schemas.taxonomy import DifferenceType

if TYPE_CHECKING:
    from loupe.flows.evaluation.leaderboard import Board, GroupTable, Leaderboard


def train(
    release: Path,
    *,
    config: str | None = None,
    out_: Path | None = None,
    resume: bool = False,
) -> Answer:
    """Train CFAM on a release.

    The best checkpoint is chosen on the val split, or on identities held out of the train split,
    never on the test split. On several GPUs:
    PYTHONSAFEPATH=1 accelerate launch -m loupe.flows.cli.main train …

    Args:
        release: Folder of a release with a train split, or a JSON file of rows.
        config: Training file (TOML), or 'paper' or 'demo' (defaults: docs/training.md).
        out_: Output folder (default: trainings/NAME in LOUPE_HOME).
        resume: Resume from the last checkpoint in the output folder.
    """
    from loupe.flows.engine.report import console_progress
    from loupe.flows.evaluation.training import TrainingRequest, load_training, run_training

    request = TrainingRequest(
        str(release), load_training(config), str(out_) if out_ else None, resume
    )
    report = run_training(request, console_progress(err))
    if report.record is None:  # of several processes, the first reports
        raise typer.Exit
    return Answer(report.as_json(), [report.sentence])


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
) -> Answer:
    """Score models on a release.

    Embeddings and results are cached and reused.

    Args:
        profile: Score the embedders of this profile (name or file).
        embedder: Score this embedder: builtin, PROVIDER:NAME@REVISION or plugin:NAME.
        checkpoint: Score the CFAM checkpoint in this folder.
        embeddings: Score these embeddings, with rows in the order of the release; needs --name.
        name: Name of the checkpoint or embeddings on the leaderboard.
        check_images: Check every image against its digest first, or only against its size.
    """
    from loupe.flows.evaluation.run import EvaluationRequest, run_evaluation

    weights = None if checkpoint is None else str(checkpoint)
    request = EvaluationRequest(
        release, profile, weights, split, check_images, embedder, embeddings, name
    )
    report = run_evaluation(opened_run(), request)
    lines = [*board_lines(report.board)]
    if old := sum(not one.is_new for one in report.stored):
        lines.append(f"stored results, not computed again: {old:,}")
    return Answer(report.as_json(), [*lines, f"the leaderboard is {report.written.page}"])


def leaderboard(
    release: ReleaseArgument, *, split: SplitOption = None, out_: Path | None = None
) -> Answer:
    """Show the leaderboard of a release.

    Also writes it as HTML, Markdown and JSON.

    Args:
        out_: Output folder (default: in LOUPE_HOME/leaderboards).
    """
    from loupe.flows.evaluation.leaderboard import collect, leaderboard_document
    from loupe.flows.evaluation.leaderboard_page import leaderboard_folder, write_leaderboard

    with opened_store() as store:
        board = collect(store, release, split)
    written = write_leaderboard(board, out_ or leaderboard_folder(settings().home, board))
    document = {**leaderboard_document(board), "files": written._asdict()}
    return Answer(document, [*board_lines(board), f"the page is {written.page}"])


def board_lines(board: "Leaderboard") -> Iterator[Line]:
    """Yield the tables and notes of a leaderboard."""
    from loupe.flows.evaluation.leaderboard import column_title

    name = f"{board.manifest.name}, {board.split}"
    for one in board.boards:
        title = f"{name}: {one.direction}, {one.queries:,} queries, gallery of {one.gallery:,}"
        first, *rest = map(column_title, one.metrics)
        yield Table(title, ["model", first, "95 %", *rest], _board_rows(one))
        yield from filter(None, (comparison.sentence for comparison in one.comparisons))
    for table in board.tables:
        if table.dimension in _PRINTED:
            yield _group_table(table)
    yield from board.notes


_PRINTED = ("task", "difference")
"""Groups of queries whose scores are printed; the page has the others as well."""


def _group_table(table: "GroupTable") -> Table:
    """Return the scores of the groups of a dimension, one row a group."""
    from loupe.flows.evaluation.leaderboard import column_title, score_text

    title = f"{column_title(table.metric)} by {table.dimension}, {table.direction}"
    columns = [table.dimension, table.counted, *(row.name for row in table.rows)]
    rows = []
    for place, (group, queries) in enumerate(table.groups.items()):
        cells = [row.cells[place] for row in table.rows]
        scores = [cell.scores.get(table.metric) if cell else None for cell in cells]
        rows.append([group, queries, *(Figure(score_text(one, table.metric)) for one in scores)])
    return Table(title, columns, rows)


def _board_rows(one: "Board") -> Iterator[list[object]]:
    from loupe.flows.evaluation.leaderboard import interval_text, score_text

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


# Tables of the papers, reproduced.


def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="PAPER/TABLE", autocompletion=lambda: _tables())
    ] = None,
    *,
    row: list[str] | None = None,
    list_: bool = False,
    config: Path | None = None,
    check: bool = False,
) -> Answer:
    """Reproduce a table of the papers on the data you have.

    Trains and scores the models that are not done yet, and prints the results next to the published
    numbers. Run it again to continue.

    Args:
        table: Table to reproduce, such as ufinebench/2.
        row: Only rows that contain these words, such as CFAM or 'no. 4'; repeatable.
        list_: List all tables.
        config: TOML file with releases, models and training settings.
        check: Only show what is missing and its cost.
    """
    from loupe.flows.evaluation.reproduction import (
        ASSUMED,
        Reproduction,
        load_reproduction,
        plan_table,
        run_plan,
    )

    if list_ == (table is not None):
        raise typer.BadParameter("give PAPER/TABLE or --list")
    own = load_reproduction(config) if config else Reproduction()
    context = opened_run()
    home = context.settings.home
    if table is None:
        listed = [plan_table(context.store, home, name, (), own).summary for name in _tables()]
        columns = ["table", "rows", "Loupe can make", "GPU hours", "missing data"]
        rows = [
            [*values, Figure(hours), ", ".join(missing) or None]
            for *values, hours, missing in map(dict.values, listed)
        ]
        shared = f"Work that tables share is done once. {ASSUMED}."
        tables = Table("tables of the papers", columns, rows)
        return Answer(
            listed, [tables, shared, Table("not reproduced", ["what", "why"], [*_absent()])]
        )
    plan = plan_table(context.store, home, table, tuple(row or ()), own)
    if not check:
        plan = run_plan(context, plan)
    undone = any(one.state != "done" for one in plan.rows if one.is_available)
    document = plan.as_json()
    return Answer(document, _plan_lines(document), failed=undone)


def _tables() -> list[str]:
    from loupe.retrieval.reproduction import table_names

    return table_names()


def _absent() -> Iterator[list[str]]:
    """Yield the tables and figures that are not reproduced, with the reason."""
    from loupe.retrieval.reproduction import PAPERS, absent_from

    for paper in PAPERS:
        for one in absent_from(paper):
            yield [", ".join(f"{paper}/{name}" for name in one.what), one.because]


def _plan_lines(plan: dict[str, Any]) -> Iterator[Line]:
    """Yield what a plan needs and has left to do, and its rows with notes."""
    columns = ["dataset", "split", "published_items", "items", "release"]
    yield Table.of(f"{plan['table']} needs", columns, plan["data"])
    missing = {one["dataset"]: one["missing"] for one in plan["data"] if one["missing"]}
    yield from (f"{dataset}: {how}" for dataset, how in missing.items())
    yield f"left to do: {plan['gpu_hours_left']:.1f} GPU hours. {plan['assumed']}."
    lines = []
    metrics: dict[str, None] = {}
    for row in plan["rows"]:
        for one in row["scores"]:
            lines.append((row, one))
            metrics |= dict.fromkeys(one["metrics"])
    what = "FG-CDE by type of difference, " if set(metrics) & set(DifferenceType) else ""
    title = f"{plan['table']}: {what}ours / published (difference), in percent"
    rows = []
    notes = defaultdict[str, dict[str, None]](dict)
    for row, one in lines:
        cells = (Figure(_cell(one["metrics"].get(name))) for name in metrics)
        disputed = f"disputed: {one['disputed']}" if one["disputed"] else None
        state = f"{row['state']}, disputed" if disputed else row["state"]
        rows.append([row["label"], one["direction"], *cells, state])
        reason = "" if row["state"] == "no data" else row["reason"]  # the first table has it
        for note in filter(None, (reason, row["note"], disputed)):
            notes[note][row["row"]] = None
    yield Table(title, ["row", "direction", *metrics, "state"], rows)
    if any("=" in _cell(metric) for _, one in lines for metric in one["metrics"].values()):
        yield "= the published score is within our 95 % interval: not distinguishable"
    yield from (f"{', '.join(models)}: {note}" for note, models in notes.items())
    for one in plan["comparisons"]:
        if one["sentence"]:
            yield f"{one['direction']}: {one['sentence']}"


def _cell(one: dict[str, Any] | None) -> str:
    """Return our score with its interval, the published one, and their difference."""
    if one is None:
        return ""
    if one["ours"] is None:
        return f"– / {one['published']:.1f}"
    interval = "" if one["low"] is None else f" [{one['low']:.1f}–{one['high']:.1f}]"
    same = "=" if one["distinguishable"] is False else ""
    return f"{one['ours']:.1f}{interval} / {one['published']:.1f} ({one['difference']:+.1f}{same})"
