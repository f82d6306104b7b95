"""The plots of a leaderboard, as SVG that lies in the page: its texts are texts."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flows.leaderboard import Board, GroupTable, Leaderboard, Row
from schemas.evaluation import Direction, SimilarityHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MODELS = 8
"""More lines than these cannot be told apart; the best are drawn."""
_COLOURS = (
    *("#1f5fa8", "#b8501f", "#2b8a6e", "#8a3f8f"),
    *("#8a6d00", "#c2316b", "#4b5a66", "#0f7d96"),
)
_LINES = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
_CHANCE, _TEXT, _SOFT, _GRID = "#5c6166", "#1d1f21", "#5c6166", "#e9e9e5"
_MATCHES, _OTHERS = "#1f5fa8", "#b8501f"
_WIDTH_INCHES = 4.4
_LONGEST_NAME = 34
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


class Plot(NamedTuple):
    """A drawing with what stands above it, and what it shows in words."""

    title: str
    description: str
    svg: str


def rank_plot(board: Board) -> Plot | None:
    """How many queries find a match how soon; None where no curve is known."""
    rows = [row for row in board.models if row.found and row.found.rank_curve][:MOST_MODELS]
    if not rows:
        return None
    with _figure(3.0 + 0.2 * len(rows)) as (figure, axes):
        for row, colour, line in _styled(rows):
            curve = row.found.rank_curve if row.found else ()
            places = range(1, len(curve) + 1)
            axes.plot(places, curve, color=colour, linestyle=line, label=_short(row.name))
        chance = rows[0].found.chance_curve if rows[0].found else ()
        if chance:
            places = range(1, len(chance) + 1)
            axes.plot(places, chance, color=_CHANCE, linewidth=1, linestyle=":", label="chance")
        axes.set(xlabel="among the first k", ylabel="queries with a match, %", ylim=(0, 102))
        axes.set_xlim(left=1)
        _legend(figure, axes, columns=1)
        svg = _drawn(figure, f"ranks-{board.direction}")
    told = ", ".join(f"{row.name} {row.found.rank_curve[0]:.1f} %" for row in rows if row.found)
    return Plot(
        "How soon a match is found",
        f"Queries with a match among the first k of the gallery. At k = 1: {told}.",
        svg,
    )


def group_plot(table: GroupTable) -> Plot:
    """A bar for each model and group, with its interval."""
    rows = table.rows[:MOST_MODELS]
    thickness = 0.8 / len(rows)
    height = 0.9 + 0.2 * len(rows) + len(table.groups) * max(0.42, 0.2 * len(rows))
    with _figure(height) as (figure, axes):
        places = np.arange(len(table.groups))
        for number, (row, colour, _) in enumerate(_styled(rows)):
            scores = [cell.scores.get(table.metric) if cell else None for cell in row.cells]
            there = [place for place, score in enumerate(scores) if score is not None]
            found = [score for score in scores if score is not None]
            values = np.array([score.value for score in found])
            low = np.array([score.value if score.low is None else score.low for score in found])
            high = np.array([score.value if score.high is None else score.high for score in found])
            axes.barh(
                places[there] + (number - (len(rows) - 1) / 2) * thickness,
                values,
                0.92 * thickness,
                xerr=[np.maximum(values - low, 0), np.maximum(high - values, 0)],
                color=colour,
                error_kw={"ecolor": _TEXT, "elinewidth": 0.9, "capsize": 2},
                label=_short(row.name),
            )
        axes.set_yticks(places, [_short(group) for group in table.groups])
        axes.tick_params(axis="y", length=0, labelcolor=_TEXT)
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        axes.set(xlabel=f"{table.metric}, %")
        axes.set_xlim(left=0)
        _legend(figure, axes, columns=1)
        svg = _drawn(figure, f"groups-{table.dimension}-{table.direction}")
    return Plot(
        f"{table.metric} by {table.dimension}",
        f"{table.metric} of each model by {table.dimension}, with 95 % intervals; "
        f"the figures stand in the table.",
        svg,
    )


def similarity_plot(row: Row) -> Plot | None:
    """How similarities of matches and of others are spread for one model; None if unknown."""
    spread = row.found.histogram if row.found else None
    if spread is None or row.found is None:
        return None
    with _figure(2.5) as (figure, axes):
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
        svg = _drawn(figure, f"similarities-{row.found.direction}-{_word(row.name)}")
    return Plot(row.name, _spread_in_words(spread), svg)


def plots_of(board: Leaderboard, direction: Direction) -> list[Plot]:
    """The plots over all models of one direction: rank curves, then bars by group."""
    boards = [one for one in board.boards if one.direction == direction]
    plots = [plot for plot in map(rank_plot, boards) if plot]
    return plots + [group_plot(one) for one in board.tables if one.direction == direction]


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


def _styled(rows: Sequence[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Each row with a colour, and a line that is another one even where colours look alike."""
    return zip(rows, cycle(_COLOURS), islice(cycle(_LINES), len(rows)), strict=False)


@contextmanager
def _figure(height_inches: float) -> "Iterator[tuple[Figure, Axes]]":
    """A figure with one plot in it, in our style; it needs no screen."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
        yield figure, figure.add_subplot()


def _legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """What is what, above the plot, where it covers nothing."""
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
    """The figure as an SVG element whose ids are its own among all that a page may hold."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _ID.sub(rf"\g<1>{_word(name)}-", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
