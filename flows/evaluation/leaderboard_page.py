"""The leaderboard as files: a self-contained HTML page, Markdown and JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.engine.pages import flow_pages, shrunk_uri
from flows.evaluation.leaderboard import (
    Board,
    ContrastRow,
    GroupRow,
    GroupTable,
    Leaderboard,
    Row,
    column_title,
    interval_text,
    leaderboard_document,
    nearest_lines,
    score_text,
)
from flows.evaluation.leaderboard_drawing import (
    CHANCE,
    TEXT,
    WIDE_INCHES,
    WIDTH_INCHES,
    Plot,
    drawn,
    legend,
    plotted,
    short_name,
    styled,
    word_of,
    wrapped_name,
)
from release.published import CCD_TABLE
from retrieval.published import PublishedTable, published_on
from schemas.base import sha256_of
from schemas.evaluation import Direction, PairSimilarities, Score, ShownItem, SimilarityHistogram

# The plots of a leaderboard as inline SVG.

_MOST_MODELS = 8
"""The number of models that a plot can show distinguishably; it shows the best."""
_MOST_LYING = 6
"""Up to this number of groups bars are horizontal; above, vertical over the page's width."""
_MATCHES, _OTHERS = "#1f5fa8", "#b8501f"
_LEGEND_COLUMNS = 4
_BOX = ("0.05", "0.25", "0.5", "0.75", "0.95")
_ERROR_BARS = {"ecolor": TEXT, "elinewidth": 0.9, "capsize": 2}


def _rank_plot(board: Board) -> Plot | None:
    """The share of queries with a match among the first k; None if no curve is known."""
    rows = [row for row in board.models if row.found and row.found.rank_curve][:_MOST_MODELS]
    if not rows:
        return None
    with plotted(3.0 + 0.2 * len(rows)) as (figure, axes):
        for row, colour, line in styled(rows):
            curve = row.found.rank_curve if row.found else ()
            places = range(1, len(curve) + 1)
            axes.plot(places, curve, color=colour, linestyle=line, label=short_name(row.name))
        chance = rows[0].found.chance_curve if rows[0].found else ()
        if chance:
            places = range(1, len(chance) + 1)
            axes.plot(places, chance, color=CHANCE, linewidth=1, linestyle=":", label="chance")
        axes.set(xlabel="among the first k", ylabel="queries with a match, %", ylim=(0, 102))
        axes.set_xlim(left=1)
        legend(figure, axes, columns=1)
        svg = drawn(figure, f"ranks-{board.direction}")
    first = ", ".join(f"{row.name} {row.found.rank_curve[0]:.1f} %" for row in rows if row.found)
    return Plot(
        "How soon a match is found",
        f"Queries with a match among the first k of the gallery. At k = 1: {first}.",
        svg,
    )


def _group_plot(table: GroupTable) -> Plot:
    """A bar for each model and group, with its interval: upright if there are many groups."""
    rows = table.rows[:_MOST_MODELS]
    is_wide = len(table.groups) > _MOST_LYING
    places, thickness = np.arange(len(table.groups)), 0.8 / len(rows)
    lying = 0.9 + 0.2 * len(rows) + len(table.groups) * max(0.42, 0.2 * len(rows))
    size = (3.0 + 0.1 * len(rows), WIDE_INCHES) if is_wide else (lying, WIDTH_INCHES)
    with plotted(*size) as (figure, axes):
        for number, (row, colour, _) in enumerate(styled(rows)):
            there, values, errors = _bars(row, table.metric)
            bar: Any = axes.bar if is_wide else axes.barh
            bar(
                places[there] + (number - (len(rows) - 1) / 2) * thickness,
                values,
                0.92 * thickness,
                color=colour,
                error_kw=_ERROR_BARS,
                label=short_name(row.name),
                **{"yerr" if is_wide else "xerr": errors},
            )
        axis: Literal["x", "y"] = "x" if is_wide else "y"
        axes.tick_params(axis=axis, length=0, labelcolor=TEXT)
        axes.grid(visible=False, axis=axis)
        if is_wide:
            axes.set_xticks(places, [wrapped_name(group) for group in table.groups])
            axes.set(ylabel=f"{table.metric}, %", xlim=(-0.6, len(places) - 0.4), ylim=(0, 102))
        else:
            axes.set_yticks(places, [short_name(group) for group in table.groups])
            axes.invert_yaxis()
            axes.set(xlabel=f"{table.metric}, %")
            axes.set_xlim(left=0)
        legend(figure, axes, columns=min(len(rows), _LEGEND_COLUMNS) if is_wide else 1)
        svg = drawn(figure, f"groups-{table.dimension}-{table.metric}-{table.direction}")
    return Plot(
        f"{table.metric} by {table.dimension}",
        f"{table.metric} of each model by {table.dimension}, with 95 % intervals; "
        f"see the table for the figures.",
        svg,
        is_wide,
    )


def _bars(
    row: GroupRow, metric: str
) -> tuple[list[int], NDArray[np.float64], list[NDArray[np.float64]]]:
    """The groups in which a model has a score, the scores, and the lengths of its error bars."""
    found = {
        place: cell.scores[metric]
        for place, cell in enumerate(row.cells)
        if cell and metric in cell.scores
    }
    values = np.array([score.value for score in found.values()])
    low = np.array([one.value if one.low is None else one.low for one in found.values()])
    high = np.array([one.value if one.high is None else one.high for one in found.values()])
    return list(found), values, [np.maximum(values - low, 0), np.maximum(high - values, 0)]


def _similarity_plot(row: Row) -> Plot | None:
    """The histogram of similarities of matches and of others for one model; None if unknown."""
    spread = row.found.histogram if row.found else None
    if spread is None or row.found is None:
        return None
    with plotted(2.5) as (figure, axes):
        borders = np.linspace(spread.low, spread.high, len(spread.matches) + 1)
        for counts, colour, name in (
            (spread.others, _OTHERS, "others"),
            (spread.matches, _MATCHES, "matches"),
        ):
            share = 100 * np.array(counts) / max(1, sum(counts))
            axes.stairs(share, borders, fill=True, color=colour, alpha=0.22)
            axes.stairs(share, borders, color=colour, linewidth=1.4, label=name)
        axes.set(xlabel="cosine", ylabel="pairs, %", xlim=(spread.low, spread.high))
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", nbins=6)
        legend(figure, axes, columns=2)
        svg = drawn(figure, f"similarities-{row.found.direction}-{word_of(row.name)}")
    return Plot(row.name, _spread_in_words(spread), svg)


def _plots_of(board: Leaderboard, direction: Direction) -> list[Plot]:
    """The plots over all models of one direction: rank curves, then bars by group, wide last."""
    boards = [one for one in board.boards if one.direction == direction]
    plots = [plot for plot in map(_rank_plot, boards) if plot]
    plots += [_group_plot(one) for one in board.tables if one.direction == direction]
    return sorted(plots, key=lambda plot: plot.is_wide)


def _spread_in_words(spread: SimilarityHistogram) -> str:
    borders = np.linspace(spread.low, spread.high, len(spread.matches) + 1)
    middles = (borders[1:] + borders[:-1]) / 2
    means = [
        float(np.average(middles, weights=counts)) if sum(counts) else float("nan")
        for counts in (spread.matches, spread.others)
    ]
    return (
        f"Cosines of {sum(spread.matches):,} matching pairs (mean {means[0]:.3f}) and "
        f"{sum(spread.others):,} others (mean {means[1]:.3f}), of {spread.queries:,} queries."
    )


# The leaderboard as files.

DIRECTION_TITLES: dict[Direction, str] = {
    "text-to-image": "Text to image",
    "image-to-text": "Image to text",
}
NOT_OURS = "measured by the paper on {dataset} itself, not on this release"
_SIDE_PX = 150
_MOST_GALLERIES = 4  # models whose hardest queries are shown, so that the page stays small


class Written(NamedTuple):
    """Where the leaderboard was written."""

    page: Path
    markdown: Path
    document: Path


class Section(NamedTuple):
    """The part of the page about one direction."""

    title: str
    board: Board
    plots: list[Plot]
    tables: list[GroupTable]
    similarities: list[Plot]
    galleries: list[Row]
    """Models with their hardest queries, or with R@1 of 100 and none."""


def leaderboard_folder(home: Path, board: Leaderboard) -> Path:
    """The folder of a release's leaderboard in `home`."""
    manifest = board.manifest
    return home / "leaderboards" / f"{manifest.dataset}-{manifest.version}-{board.split}"


def write_leaderboard(board: Leaderboard, out: Path) -> Written:
    """Writes `leaderboard.html`, `.md` and `.json` to `out`, replacing existing files.

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


_METHODS_NOTE = (
    "Edited or found: how often logistic regression on a contrastive image's vector, "
    "cross-validated by group, tells which it is; – with too few images of either kind."
)


def render_page(board: Leaderboard) -> str:
    """The leaderboard as one HTML page."""
    return _rendered(
        "leaderboard.html.j2",
        board,
        sections=[_section(board, one) for one in board.boards],
        thumbnail=_Thumbnails(board.folder),
        contrast_plot=_contrast_plot(board.contrasts),
    )


def render_markdown(board: Leaderboard) -> str:
    """The tables of the leaderboard as Markdown."""
    return _rendered("leaderboard.md.j2", board, titles=DIRECTION_TITLES)


def _rendered(template: str, board: Leaderboard, **values: Any) -> str:
    environment = flow_pages()
    environment.filters.update(
        title_of=column_title,
        score=score_text,
        interval=interval_text,
        with_interval=_with_interval,
        published_types=_published_types,
        cell=_cell,
    )
    return environment.get_template(template).render(
        board=board,
        not_ours=NOT_OURS,
        models=_models(board),
        nearest=nearest_lines(board.contrasts),
        methods_note=_METHODS_NOTE,
        published_sizes=[one for one in CCD_TABLE if one.title == board.like],
        **values,
    )


def _section(board: Leaderboard, one: Board) -> Section:
    return Section(
        DIRECTION_TITLES[one.direction],
        one,
        _plots_of(board, one.direction),
        [table for table in board.tables if table.direction == one.direction],
        [plot for plot in map(_similarity_plot, one.models) if plot is not None],
        [row for row in one.models if _is_inspected(row)][:_MOST_GALLERIES],
    )


def _is_inspected(row: Row) -> bool:
    """Whether the hardest queries are known, or known to be none."""
    first = row.scores.get("R@1")
    found_all = first is not None and first.value == 100
    return row.found is not None and (bool(row.found.hardest) or found_all)


def _models(board: Leaderboard) -> list[Row]:
    """Each model once, with the settings of its evaluation."""
    rows = {row.name: row for one in board.boards for row in one.models}
    return list(rows.values())


class _Thumbnails:
    """Images of a release as small `data:` URIs, cached."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._made: dict[str, str | None] = {}

    def __call__(self, item: ShownItem) -> str | None:
        """The image; None if the file is missing or changed."""
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


def _with_interval(score: Score | None, metric: str) -> str:
    interval = interval_text(score, metric)
    return f"{score_text(score, metric)} ({interval})" if interval else score_text(score, metric)


def _cell(text: str) -> str:
    """`text` escaped for a cell of a Markdown table."""
    escaped = "".join(f"\\{one}" if one in "\\`*_[]<>|" else one for one in text)
    return " ".join(escaped.split())


def _contrast_plot(rows: Sequence[ContrastRow]) -> Plot | None:
    """The cosines of contrastive pairs by type and model: the middle half, and 5 % to 95 %."""
    shown = rows[:_MOST_MODELS]
    kinds = [one.difference for one in shown[0].found.similarities if one.pairs] if shown else []
    if not kinds:
        return None
    thickness = 0.8 / len(shown)
    with plotted(3.4 + 0.1 * len(shown), WIDE_INCHES) as (figure, axes):
        for number, (row, colour, _) in enumerate(styled(shown)):
            boxes = [_box(one) for one in row.found.similarities if one.pairs]
            places = np.arange(len(boxes)) + (number - (len(shown) - 1) / 2) * thickness
            axes.bxp(
                boxes,
                positions=places,
                widths=0.72 * thickness,
                showfliers=False,
                patch_artist=True,
                boxprops={"facecolor": colour, "alpha": 0.3, "edgecolor": colour},
                medianprops={"color": colour, "linewidth": 2},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
            axes.plot([], [], color=colour, linewidth=5, alpha=0.5, label=short_name(row.name))
        axes.set_xticks(np.arange(len(kinds)), [wrapped_name(kind.value) for kind in kinds])
        axes.tick_params(axis="x", length=0, labelcolor=TEXT)
        axes.grid(visible=False, axis="x")
        axes.set(ylabel="cosine", xlim=(-0.6, len(kinds) - 0.4))
        legend(figure, axes, columns=min(len(shown), _LEGEND_COLUMNS))
        svg = drawn(figure, "contrastive-pairs")
    means = "; ".join(f"{row.name}: {_means(row.found.similarities)}" for row in shown)
    return Plot(
        "How similar the images of contrastive pairs are",
        f"Cosines by type of difference: median, middle half, 5 % to 95 %. Means: {means}.",
        svg,
        is_wide=True,
    )


def _published_types(table: GroupTable, like: str | None) -> PublishedTable | None:
    """The published FG-CDE below a table of FG-CDA by difference; None if there is none."""
    if table.dimension != "difference":
        return None
    return next(iter(published_on(like or "", table.direction, by_difference=True)), None)


def _box(one: PairSimilarities) -> dict[str, Any]:
    quantiles = {f"{share:g}": value for share, value in one.quantiles}
    low, lower, median, upper, high = (quantiles[share] for share in _BOX)
    return {"whislo": low, "q1": lower, "med": median, "q3": upper, "whishi": high}


def _means(similarities: Sequence[PairSimilarities]) -> str:
    means = (f"{one.difference} {one.mean:.3f}" for one in similarities if one.mean is not None)
    return ", ".join(means)
