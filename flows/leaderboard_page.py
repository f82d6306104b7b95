"""The leaderboard as files: a page that needs nothing else, Markdown and JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from flows.leaderboard import Board, Leaderboard, Row
from flows.leaderboard_contrasts import contrast_plot, nearest_lines, published_types
from flows.leaderboard_document import leaderboard_document
from flows.leaderboard_drawing import Plot
from flows.leaderboard_groups import GroupTable
from flows.leaderboard_plots import plots_of, similarity_plot
from flows.leaderboard_text import column_title, interval_text, score_text
from flows.pages import flow_pages, shrunk_uri
from release.published import CCD_TABLE
from schemas.base import sha256_of
from schemas.evaluation import Direction, Score, ShownItem

DIRECTION_TITLES: dict[Direction, str] = {
    "text-to-image": "Text to image",
    "image-to-text": "Image to text",
}
NOT_OURS = "measured by the paper on {dataset} itself, not on this release"
_TEMPLATE = "leaderboard.html.j2"
_SIDE_PX = 150
_MOST_GALLERIES = 4  # models whose hardest queries are shown, so that the page stays small


class Written(NamedTuple):
    """Where the leaderboard was written."""

    page: Path
    markdown: Path
    document: Path


class Section(NamedTuple):
    """What the page shows of one direction."""

    title: str
    board: Board
    plots: list[Plot]
    tables: list[GroupTable]
    similarities: list[Plot]
    galleries: list[Row]
    """Models with their hardest queries, or with R@1 of 100 and none."""


def leaderboard_folder(home: Path, board: Leaderboard) -> Path:
    """Where the leaderboard of a release goes, below the home of an installation."""
    manifest = board.manifest
    return home / "leaderboards" / f"{manifest.dataset}-{manifest.version}-{board.split}"


def write_leaderboard(board: Leaderboard, out: Path) -> Written:
    """Writes `leaderboard.html`, `.md` and `.json` into `out`; what is there is replaced.

    Raises:
        OSError: a file cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = Written(*(out / f"leaderboard.{ending}" for ending in ("html", "md", "json")))
    document = json.dumps(leaderboard_document(board), indent=1, ensure_ascii=False)
    written.page.write_text(render_page(board), encoding="utf-8")
    written.markdown.write_text(render_markdown(board), encoding="utf-8")
    written.document.write_text(document + "\n", encoding="utf-8")
    return written


def render_page(board: Leaderboard) -> str:
    """The leaderboard as one HTML page."""
    environment = flow_pages()
    environment.filters["title_of"] = column_title
    environment.filters["score"] = score_text
    environment.filters["interval"] = interval_text
    environment.filters["published_types"] = published_types
    return environment.get_template(_TEMPLATE).render(
        board=board,
        titles=DIRECTION_TITLES,
        sections=[_section(board, one) for one in board.boards],
        thumbnail=_Thumbnails(board.folder),
        not_ours=NOT_OURS,
        models=_models(board),
        contrast_plot=contrast_plot(board.contrasts),
        nearest=nearest_lines(board.contrasts),
        published_sizes=[one for one in CCD_TABLE if one.title == board.like],
    )


def _section(board: Leaderboard, one: Board) -> Section:
    return Section(
        DIRECTION_TITLES[one.direction],
        one,
        plots_of(board, one.direction),
        [table for table in board.tables if table.direction == one.direction],
        [plot for plot in map(similarity_plot, one.models) if plot is not None],
        [row for row in one.models if _is_inspected(row)][:_MOST_GALLERIES],
    )


def _is_inspected(row: Row) -> bool:
    """Whether it is known which queries were hardest, or that none was."""
    first = row.scores.get("R@1")
    found_all = first is not None and first.value == 100
    return row.found is not None and (bool(row.found.hardest) or found_all)


def _models(board: Leaderboard) -> list[Row]:
    """Each model once, for what it was scored with."""
    rows = {row.name: row for one in board.boards for row in one.models}
    return list(rows.values())


class _Thumbnails:
    """Pictures of a release as small `data:` URIs, each made once."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._made: dict[str, str | None] = {}

    def __call__(self, item: ShownItem) -> str | None:
        """The picture; None where it is not there, or is not the one that was released."""
        if item.file_path not in self._made:
            self._made[item.file_path] = self._make(item)
        return self._made[item.file_path]

    def _make(self, item: ShownItem) -> str | None:
        if self._folder is None:
            return None
        try:
            data = (self._folder / item.file_path).read_bytes()
        except OSError:
            return None
        return shrunk_uri(data, _SIDE_PX) if sha256_of(data) == item.sha256 else None


def render_markdown(board: Leaderboard) -> str:
    """The tables of the leaderboard as Markdown."""
    return "\n".join(_markdown_lines(board)) + "\n"


def _markdown_lines(board: Leaderboard) -> Iterator[str]:
    manifest = board.manifest
    yield f"# Leaderboard: {manifest.dataset} {manifest.version}, {board.split} split"
    yield f"\nRelease `{manifest.id}`."
    if manifest.demonstration:
        yield "\n> **Demonstration.** The release is a demonstration; its scores say nothing."
    for one in board.boards:
        yield from _board_lines(one)
        for table in board.tables:
            if table.direction == one.direction:
                yield from _table_lines(table)
                yield from _published_type_lines(board, table)
    yield from _nearest_lines(board)
    yield from (f"\n{sentence}" for sentence in board.unscored.values())
    yield "\n## How it was measured\n"
    for row in _models(board):
        if row.evaluation is not None:
            result = row.evaluation.result
            yield (
                f"- {_cell(row.name)}: {result.protocol}; code `{result.code_revision}`; "
                f"{result.hardware.accelerator or result.hardware.processor}; {result.interval}"
            )


def _nearest_lines(board: Leaderboard) -> Iterator[str]:
    lines = nearest_lines(board.contrasts)
    if not lines:
        return
    yield "\n## How near other samples are\n"
    yield "Mean cosine of a sample with its five nearest other samples.\n"
    yield "| model | images | captions |"
    yield "|---|--:|--:|"
    yield from (f"| {_cell(one.name)} | {one.images} | {one.texts} |" for one in lines)
    for published in CCD_TABLE:
        if published.title == board.like:
            near = f"{published.image_similarity:.3f} | {published.text_similarity:.3f}"
            yield f"| published {published.title} (table 1; its model is not named) † | {near} |"


def _board_lines(board: Board) -> Iterator[str]:
    yield f"\n## {DIRECTION_TITLES[board.direction]}\n"
    left_out = f", {board.unmatched:,} of them without a match left out" if board.unmatched else ""
    yield f"{board.queries:,} queries{left_out}, a gallery of {board.gallery:,}.\n"
    yield f"| model | {' | '.join(map(column_title, board.metrics))} |"
    yield f"|---|{'--:|' * len(board.metrics)}"
    for row in board.rows:
        cells = [_with_interval(row.scores.get(metric), metric) for metric in board.metrics]
        name = f"*{row.name}*" if row.kind == "chance" else _cell(row.name)
        yield f"| {name} | {' | '.join(cells)} |"
    for table in board.published:
        for published in table.rows:
            scores = dict(zip(table.metrics, published.scores, strict=True))
            cells = [f"{scores[name]:.2f}" if name in scores else "–" for name in board.metrics]
            yield f"| {_cell(published.model)} † | {' | '.join(cells)} |"
    for table in board.published:
        note = f"; {table.note}" if table.note else ""
        where = f"{table.citation}, {table.place}"
        yield f"\n† published: {NOT_OURS.format(dataset=table.dataset)}{note} ({where})."


def _table_lines(table: GroupTable) -> Iterator[str]:
    yield f"\n### {table.metric} by {table.dimension}\n"
    if table.note:
        yield f"{table.note}\n"
    heads = [
        f"{_cell(group)} ({count:,})"
        for group, count in zip(table.groups, table.queries, strict=True)
    ]
    yield f"| model | {' | '.join(heads)} |"
    yield f"|---|{'--:|' * len(heads)}"
    for row in table.rows:
        cells = [
            _with_interval(cell.scores.get(table.metric) if cell else None, table.metric)
            for cell in row.cells
        ]
        yield f"| {_cell(row.name)} | {' | '.join(cells)} |"


def _published_type_lines(board: Leaderboard, table: GroupTable) -> Iterator[str]:
    published = published_types(table, board.like)
    if published is None:
        return
    for line in published.lines:
        yield f"| {_cell(line.name)} † | {' | '.join(line.values)} |"
    yield f"\n† published: {NOT_OURS.format(dataset=board.like)} ({published.place})."


def _with_interval(score: Score | None, metric: str) -> str:
    interval = interval_text(score, metric)
    return f"{score_text(score, metric)} ({interval})" if interval else score_text(score, metric)


def _cell(text: str) -> str:
    """`text` so that a Markdown table holds it as it is."""
    escaped = "".join(f"\\{one}" if one in "\\`*_[]<>|" else one for one in text)
    return " ".join(escaped.split())
