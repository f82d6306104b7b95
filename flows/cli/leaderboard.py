"""`loupe leaderboard`: every model that was scored on a release, on the terminal and as a page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.evaluation_options import ReleaseArgument, SplitOption
from flows.cli.output import Figure, JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    from flows.evaluation.leaderboard import Board, Leaderboard


def leaderboard(
    release: ReleaseArgument,
    split: SplitOption = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where the page goes (default: in LOUPE_HOME/leaderboards)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the models that were scored on a release, and write the page, Markdown and JSON."""
    from db.store import Store
    from flows.evaluation.leaderboard import collect, leaderboard_document
    from flows.evaluation.leaderboard_page import leaderboard_folder, write_leaderboard
    from profiles.settings import load_settings

    settings = load_settings()
    store = Store.open(settings.database_url)
    try:
        board = collect(store, release, split)
    finally:
        store.close()
    written = write_leaderboard(board, out_folder or leaderboard_folder(settings.home, board))
    if as_json:
        files = {name: str(path) for name, path in written._asdict().items()}
        print_json({**leaderboard_document(board), "files": files})
        return
    print_boards(board)
    out.print(f"the page is {written.page}", markup=False, soft_wrap=True)


def print_boards(board: "Leaderboard") -> None:
    """The tables of a leaderboard, on a terminal."""
    for one in board.boards:
        print_table(_title(board, one), _columns(one), _rows(one))
    for sentence in board.unscored.values():
        out.print(sentence, markup=False, soft_wrap=True)


def _title(board: "Leaderboard", one: "Board") -> str:
    manifest = board.manifest
    return (
        f"{manifest.dataset} {manifest.version}, {board.split}: {one.direction}, "
        f"{one.queries:,} queries, gallery of {one.gallery:,}"
    )


def _columns(one: "Board") -> list[str]:
    from flows.evaluation.leaderboard import column_title

    first, *rest = map(column_title, one.metrics)
    return ["model", first, "95 %", *rest]


def _rows(one: "Board") -> Iterator[list[object]]:
    from flows.evaluation.leaderboard import interval_text, score_text

    first, *rest = one.metrics
    for row in one.rows:
        values = [Figure(score_text(row.scores.get(name), name)) for name in one.metrics]
        interval = interval_text(row.scores.get(first), first) or "–"
        yield [row.name, values[0], interval, *values[1:]]
    for table in one.published:
        for published in table.rows:
            scores = dict(zip(table.metrics, published.scores, strict=True))
            name = f"{published.model} (published, on {table.dataset} itself)"
            yield [name, scores.get(first), "–", *map(scores.get, rest)]
