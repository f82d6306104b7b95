"""The leaderboard as files: a self-contained HTML page, Markdown and JSON."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import StringIO
from itertools import cycle, islice
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flows.engine.pages import flow_pages, shrunk_uri
from flows.evaluation.leaderboard import (
    Board,
    ContrastRow,
    GroupTable,
    Leaderboard,
    Row,
    column_title,
    interval_text,
    leaderboard_document,
    score_text,
)
from release.published import CCD_TABLE
from retrieval.published import PublishedTable, published_on
from schemas.base import sha256_of
from schemas.evaluation import Direction, PairSimilarities, Score, ShownItem, SimilarityHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        thumbnail=_thumbnails(board.folder),
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
        models=list({row.name: row for one in board.boards for row in one.models}.values()),
        nearest=[one.nearest for one in board.contrasts],
        methods_note=_METHODS_NOTE,
        published_sizes=[one for one in CCD_TABLE if one.title == board.like],
        **values,
    )


def _section(board: Leaderboard, one: Board) -> dict[str, Any]:
    """The part of the page about one direction.

    Its galleries are the models whose hardest queries are known, or with an R@1 of 100 and none.
    """
    inspected = (
        row
        for row in one.models
        if row.found and (row.found.hardest or row.scores["R@1"].value == 100)
    )
    return {
        "title": DIRECTION_TITLES[one.direction],
        "board": one,
        "plot": _rank_plot(one),
        "tables": [table for table in board.tables if table.direction == one.direction],
        "similarities": [plot for plot in map(_similarity_plot, one.models) if plot is not None],
        "galleries": list(islice(inspected, _MOST_GALLERIES)),
    }


def _thumbnails(folder: Path | None) -> Callable[[ShownItem], str | None]:
    """A function that returns an image of a release as a small `data:` URI.

    It returns None if the file is missing or changed.
    """

    @cache
    def thumbnail(item: ShownItem) -> str | None:
        try:
            data = b"" if folder is None else (folder / item.file_path).read_bytes()
        except OSError:
            return None
        return shrunk_uri(data, _SIDE_PX) if sha256_of(data) == item.sha256 else None

    return thumbnail


def _with_interval(score: Score | None, metric: str) -> str:
    interval = interval_text(score, metric)
    return f"{score_text(score, metric)} ({interval})" if interval else score_text(score, metric)


def _cell(text: str) -> str:
    """`text` escaped for a cell of a Markdown table."""
    escaped = "".join(f"\\{one}" if one in "\\`*_[]<>|" else one for one in text)
    return " ".join(escaped.split())


def _published_types(table: GroupTable, like: str | None) -> PublishedTable | None:
    """The published FG-CDE below a table of FG-CDA by difference; None if there is none."""
    if table.dimension != "difference":
        return None
    return next(iter(published_on(like or "", table.direction, by_difference=True)), None)


# The plots of a leaderboard as inline SVG.

_MOST_MODELS = 8
"""The number of models that a plot can show distinguishably; it shows the best."""
_MATCHES, _OTHERS = "#1f5fa8", "#b8501f"
_LEGEND_COLUMNS = 4
_BOX = ("0.05", "0.25", "0.5", "0.75", "0.95")

_COLOURS = (
    *("#1f5fa8", "#b8501f", "#2b8a6e", "#8a3f8f"),
    *("#8a6d00", "#c2316b", "#4b5a66", "#0f7d96"),
)
_LINES = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
_CHANCE, _TEXT, _SOFT, _GRID = "#5c6166", "#1d1f21", "#5c6166", "#e9e9e5"
_WIDTH_INCHES, _WIDE_INCHES = 4.4, 12.4
_LONGEST_NAME = 34
_LINE_OF_NAME = 12
_ID = re.compile(r'(\bid="|url\(#|href="#)')
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "loupe",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _SOFT,
    "axes.labelcolor": _TEXT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "text.color": _TEXT,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "legend.frameon": False,
}


class _Plot(NamedTuple):
    """A plot with its title and a description in words."""

    title: str
    description: str
    svg: str


def _rank_plot(board: Board) -> _Plot | None:
    """The share of queries with a match among the first k; None if no curve is known."""
    rows = [row for row in board.models if row.found and row.found.rank_curve][:_MOST_MODELS]
    if not rows:
        return None
    with _plotted(3.0 + 0.2 * len(rows)) as (figure, axes):
        for row, colour, line in _styled(rows):
            curve = row.found.rank_curve if row.found else ()
            places = range(1, len(curve) + 1)
            axes.plot(places, curve, color=colour, linestyle=line, label=_short_name(row.name))
        chance = rows[0].found.chance_curve if rows[0].found else ()
        if chance:
            places = range(1, len(chance) + 1)
            axes.plot(places, chance, color=_CHANCE, linewidth=1, linestyle=":", label="chance")
        axes.set(xlabel="among the first k", ylabel="queries with a match, %", ylim=(0, 102))
        axes.set_xlim(left=1)
        _legend(figure, axes, columns=1)
        svg = _drawn(figure, f"ranks-{board.direction}")
    first = ", ".join(f"{row.name} {row.found.rank_curve[0]:.1f} %" for row in rows if row.found)
    return _Plot(
        "How soon a match is found",
        f"Queries with a match among the first k of the gallery. At k = 1: {first}.",
        svg,
    )


def _similarity_plot(row: Row) -> _Plot | None:
    """The histogram of similarities of matches and of others for one model; None if unknown."""
    spread = row.found.histogram if row.found else None
    if spread is None or row.found is None:
        return None
    with _plotted(2.5) as (figure, axes):
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
        _legend(figure, axes, columns=2)
        svg = _drawn(figure, f"similarities-{row.found.direction}-{_word_of(row.name)}")
    return _Plot(row.name, _spread_in_words(spread), svg)


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


def _contrast_plot(rows: Sequence[ContrastRow]) -> _Plot | None:
    """The cosines of contrastive pairs by type and model: the middle half, and 5 % to 95 %."""
    shown = rows[:_MOST_MODELS]
    kinds = [one.difference for one in shown[0].found.similarities if one.pairs] if shown else []
    if not kinds:
        return None
    thickness = 0.8 / len(shown)
    with _plotted(3.4 + 0.1 * len(shown), _WIDE_INCHES) as (figure, axes):
        for number, (row, colour, _) in enumerate(_styled(shown)):
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
            axes.plot([], [], color=colour, linewidth=5, alpha=0.5, label=_short_name(row.name))
        axes.set_xticks(np.arange(len(kinds)), [_wrapped_name(kind.value) for kind in kinds])
        axes.tick_params(axis="x", length=0, labelcolor=_TEXT)
        axes.grid(visible=False, axis="x")
        axes.set(ylabel="cosine", xlim=(-0.6, len(kinds) - 0.4))
        _legend(figure, axes, columns=min(len(shown), _LEGEND_COLUMNS))
        svg = _drawn(figure, "contrastive-pairs")
    means = "; ".join(f"{row.name}: {_means(row.found.similarities)}" for row in shown)
    return _Plot(
        "How similar the images of contrastive pairs are",
        f"Cosines by type of difference: median, middle half, 5 % to 95 %. Means: {means}.",
        svg,
    )


def _box(one: PairSimilarities) -> dict[str, Any]:
    quantiles = {f"{share:g}": value for share, value in one.quantiles}
    low, lower, median, upper, high = (quantiles[share] for share in _BOX)
    return {"whislo": low, "q1": lower, "med": median, "q3": upper, "whishi": high}


def _means(similarities: Sequence[PairSimilarities]) -> str:
    means = (f"{one.difference} {one.mean:.3f}" for one in similarities if one.mean is not None)
    return ", ".join(means)


def _styled(rows: Sequence[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Each row with a colour and a line style."""
    return zip(rows, cycle(_COLOURS), islice(cycle(_LINES), len(rows)), strict=False)


@contextmanager
def _plotted(
    height_inches: float, width_inches: float = _WIDTH_INCHES
) -> "Iterator[tuple[Figure, Axes]]":
    """A figure with one plot, in our style; needs no display."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
        yield figure, figure.add_subplot()


def _legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """Adds the legend above the plot."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=columns,
        fontsize=9,
        handlelength=2.6,
        borderaxespad=0,
        labelspacing=0.25,
    )


def _drawn(figure: "Figure", name: str) -> str:
    """The figure as an SVG element whose ids start with `name`, unique on a page."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _ID.sub(rf"\g<1>{_word_of(name)}-", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _word_of(name: str) -> str:
    """`name` as part of an HTML id."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def _short_name(name: str) -> str:
    """`name`, shortened if it is long."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _wrapped_name(name: str) -> str:
    """A group's name in short lines, for the label of a bar."""
    return "\n".join(wrap(_short_name(name), _LINE_OF_NAME, break_long_words=False))
