"""The style of a leaderboard's plots, and their SVG."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import cycle, islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLOURS = (
    *("#1f5fa8", "#b8501f", "#2b8a6e", "#8a3f8f"),
    *("#8a6d00", "#c2316b", "#4b5a66", "#0f7d96"),
)
_LINES = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
CHANCE, TEXT, _SOFT, _GRID = "#5c6166", "#1d1f21", "#5c6166", "#e9e9e5"
WIDTH_INCHES, WIDE_INCHES = 4.4, 12.4
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
    "axes.labelcolor": TEXT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "text.color": TEXT,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "legend.frameon": False,
}


class Plot(NamedTuple):
    """A plot with its title and a description in words.

    `is_wide` says that it takes a whole row of the page.
    """

    title: str
    description: str
    svg: str
    is_wide: bool = False


def styled(rows: Sequence[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Each row with a colour and a line style."""
    return zip(rows, cycle(_COLOURS), islice(cycle(_LINES), len(rows)), strict=False)


@contextmanager
def plotted(
    height_inches: float, width_inches: float = WIDTH_INCHES
) -> "Iterator[tuple[Figure, Axes]]":
    """A figure with one plot, in our style; needs no display."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
        yield figure, figure.add_subplot()


def legend(figure: "Figure", axes: "Axes", columns: int) -> None:
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


def drawn(figure: "Figure", name: str) -> str:
    """The figure as an SVG element whose ids start with `name`, unique on a page."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _ID.sub(rf"\g<1>{word_of(name)}-", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def word_of(name: str) -> str:
    """`name` as part of an HTML id."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def short_name(name: str) -> str:
    """`name`, shortened if it is long."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def wrapped_name(name: str) -> str:
    """A group's name in short lines, for the label of a bar."""
    return "\n".join(wrap(short_name(name), _LINE_OF_NAME, break_long_words=False))
