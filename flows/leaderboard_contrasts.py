"""How alike contrastive pairs are to each model (CCD, figure 5), and other samples (table 1)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flows.leaderboard_drawing import (
    TEXT,
    WIDE_INCHES,
    Plot,
    drawn,
    legend,
    plotted,
    short_name,
    styled,
    wrapped_name,
)
from flows.leaderboard_groups import GroupTable
from retrieval.published import accuracies, error_table
from schemas.evaluation import ContrastiveResult, PairSimilarities

_MOST_MODELS = 8
_LEGEND_COLUMNS = 4
_BOX = ("0.05", "0.25", "0.5", "0.75", "0.95")


class ContrastRow(NamedTuple):
    """A model and how alike samples are to it."""

    name: str
    found: ContrastiveResult


class PublishedLine(NamedTuple):
    """FG-CDA of a model as the paper prints it, by the groups of a table, as it is shown."""

    name: str
    values: tuple[str, ...]


class PublishedTypes(NamedTuple):
    """What the paper prints of all models, and where."""

    place: str
    lines: tuple[PublishedLine, ...]


def published_types(table: GroupTable, like: str | None) -> PublishedTypes | None:
    """What stands below a table by difference; None for others, and where nothing is like it."""
    found = error_table(like, table.direction) if like and table.dimension == "difference" else None
    if found is None:
        return None
    lines = []
    for row in found.rows:
        known = accuracies(row)
        lines.append(PublishedLine(row.model, tuple(f"{known[one]:.1f}" for one in table.groups)))
    return PublishedTypes(found.place, tuple(lines))


class NearestLine(NamedTuple):
    """Mean cosines with the five nearest other samples, as they are shown."""

    name: str
    images: str
    texts: str


def nearest_lines(rows: Sequence[ContrastRow]) -> list[NearestLine]:
    """A line for each model."""
    return [
        NearestLine(row.name, _shown(row.found.nearest_images), _shown(row.found.nearest_texts))
        for row in rows
    ]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def contrast_plot(rows: Sequence[ContrastRow]) -> Plot | None:
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
    told = "; ".join(f"{row.name}: {_means(row.found.similarities)}" for row in shown)
    return Plot(
        "How similar the images of contrastive pairs are",
        f"Cosines by type of difference: median, middle half, 5 % to 95 %. Means: {told}.",
        svg,
        is_wide=True,
    )


def _box(one: PairSimilarities) -> dict[str, Any]:
    quantiles = {f"{share:g}": value for share, value in one.quantiles}
    low, lower, median, upper, high = (quantiles[share] for share in _BOX)
    return {"whislo": low, "q1": lower, "med": median, "q3": upper, "whishi": high}


def _means(similarities: Sequence[PairSimilarities]) -> str:
    means = (f"{one.difference} {one.mean:.3f}" for one in similarities if one.mean is not None)
    return ", ".join(means)
