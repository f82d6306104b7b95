"""The plots of a leaderboard, as SVG that lies in the page: its texts are texts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.leaderboard import Board, Leaderboard, Row
from flows.leaderboard_drawing import (
    CHANCE,
    TEXT,
    WIDE_INCHES,
    Plot,
    drawn,
    legend,
    plotted,
    short_name,
    styled,
    word_of,
    wrapped_name,
)
from flows.leaderboard_groups import GroupRow, GroupTable
from schemas.evaluation import Direction, SimilarityHistogram

MOST_MODELS = 8
"""More lines than these cannot be told apart; the best are drawn."""
MOST_LYING = 6
"""More groups than these stand side by side, in a plot that takes the page's width."""
_MATCHES, _OTHERS = "#1f5fa8", "#b8501f"
_LEGEND_COLUMNS = 4
_ERROR_BARS = {"ecolor": TEXT, "elinewidth": 0.9, "capsize": 2}


def rank_plot(board: Board) -> Plot | None:
    """How many queries find a match how soon; None where no curve is known."""
    rows = [row for row in board.models if row.found and row.found.rank_curve][:MOST_MODELS]
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
    told = ", ".join(f"{row.name} {row.found.rank_curve[0]:.1f} %" for row in rows if row.found)
    return Plot(
        "How soon a match is found",
        f"Queries with a match among the first k of the gallery. At k = 1: {told}.",
        svg,
    )


def group_plot(table: GroupTable) -> Plot:
    """A bar for each model and group, with its interval; upright and wide where groups are many."""
    rows = table.rows[:MOST_MODELS]
    is_wide = len(table.groups) > MOST_LYING
    svg = _upright_bars(table, rows) if is_wide else _lying_bars(table, rows)
    return Plot(
        f"{table.metric} by {table.dimension}",
        f"{table.metric} of each model by {table.dimension}, with 95 % intervals; "
        f"the figures stand in the table.",
        svg,
        is_wide,
    )


def _lying_bars(table: GroupTable, rows: Sequence[GroupRow]) -> str:
    thickness = 0.8 / len(rows)
    height = 0.9 + 0.2 * len(rows) + len(table.groups) * max(0.42, 0.2 * len(rows))
    with plotted(height) as (figure, axes):
        places = np.arange(len(table.groups))
        for number, (row, colour, _) in enumerate(styled(rows)):
            bars = _bars(row, table.metric)
            axes.barh(
                places[bars.there] + (number - (len(rows) - 1) / 2) * thickness,
                bars.values,
                0.92 * thickness,
                xerr=bars.errors,
                color=colour,
                error_kw=_ERROR_BARS,
                label=short_name(row.name),
            )
        axes.set_yticks(places, [short_name(group) for group in table.groups])
        axes.tick_params(axis="y", length=0, labelcolor=TEXT)
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        axes.set(xlabel=f"{table.metric}, %")
        axes.set_xlim(left=0)
        legend(figure, axes, columns=1)
        return drawn(figure, f"groups-{table.dimension}-{table.direction}")


def _upright_bars(table: GroupTable, rows: Sequence[GroupRow]) -> str:
    thickness = 0.8 / len(rows)
    with plotted(3.0 + 0.1 * len(rows), WIDE_INCHES) as (figure, axes):
        places = np.arange(len(table.groups))
        for number, (row, colour, _) in enumerate(styled(rows)):
            bars = _bars(row, table.metric)
            axes.bar(
                places[bars.there] + (number - (len(rows) - 1) / 2) * thickness,
                bars.values,
                0.92 * thickness,
                yerr=bars.errors,
                color=colour,
                error_kw=_ERROR_BARS,
                label=short_name(row.name),
            )
        axes.set_xticks(places, [wrapped_name(group) for group in table.groups])
        axes.tick_params(axis="x", length=0, labelcolor=TEXT)
        axes.grid(visible=False, axis="x")
        axes.set(ylabel=f"{table.metric}, %", xlim=(-0.6, len(table.groups) - 0.4))
        axes.set_ylim(0, 102)
        legend(figure, axes, columns=min(len(rows), _LEGEND_COLUMNS))
        return drawn(figure, f"groups-{table.dimension}-{table.direction}")


class _Bars(NamedTuple):
    """Where a model has a score, its height, and how far its interval reaches below and above."""

    there: list[int]
    values: NDArray[np.float64]
    errors: list[NDArray[np.float64]]


def _bars(row: GroupRow, metric: str) -> _Bars:
    scores = [cell.scores.get(metric) if cell else None for cell in row.cells]
    there = [place for place, score in enumerate(scores) if score is not None]
    found = [score for score in scores if score is not None]
    values = np.array([score.value for score in found])
    low = np.array([score.value if score.low is None else score.low for score in found])
    high = np.array([score.value if score.high is None else score.high for score in found])
    return _Bars(there, values, [np.maximum(values - low, 0), np.maximum(high - values, 0)])


def similarity_plot(row: Row) -> Plot | None:
    """How similarities of matches and of others are spread for one model; None if unknown."""
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


def plots_of(board: Leaderboard, direction: Direction) -> list[Plot]:
    """The plots over all models of one direction: rank curves, then bars by group, wide last."""
    boards = [one for one in board.boards if one.direction == direction]
    plots = [plot for plot in map(rank_plot, boards) if plot]
    plots += [group_plot(one) for one in board.tables if one.direction == direction]
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
