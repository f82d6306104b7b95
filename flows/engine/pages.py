"""HTML pages of flows: templates, crops and histograms."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.blobs import BlobStore
from loupe.schemas.decoders import small_jpeg
from loupe.schemas.errors import IntegrityError
from loupe.schemas.pages import page_environment
from loupe.schemas.records import Picture

if TYPE_CHECKING:
    from jinja2 import Environment


# HTML pages: templates, and crops embedded in the page


def flow_pages() -> "Environment":
    """Return the templates of `flows/templates`, with filters for numbers."""
    environment = page_environment("loupe.flows")
    environment.filters.update(figure=figure, threshold="{:g}".format, number="{:,}".format)
    return environment


def write_report_page(home: Path, name: str, page: str) -> Path:
    """Write a page into the folder `reports` of a home, replacing an existing one."""
    path = home / "reports" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def figure(value: float, *, is_count: bool = False) -> str:
    """Format a measured value with about three digits (0.253, 72.4), and a count as an integer."""
    size = abs(value)
    decimals = (
        0 if is_count or size >= 100 or not size else 1 if size >= 10 else 2 if size >= 1 else 3
    )
    return f"{value:,.{decimals}f}".replace("-", "−")


def thumbnail_uri(blobs: BlobStore, picture: Picture, side_px: int) -> str | None:
    """Return an image of at most `side_px` a side as a `data:` URI, or None if not stored."""
    try:
        data = blobs.read(picture.sha256, picture.media_type)
    except IntegrityError:
        return None
    if max(picture.width_px, picture.height_px) > side_px:
        return shrunk_uri(data, side_px)
    return _data_uri(data, picture.media_type)


def shrunk_uri(data: bytes, side_px: int) -> str | None:
    """Return `small_jpeg` as a `data:` URI."""
    small = small_jpeg(data, side_px)
    return _data_uri(small, "image/jpeg") if small else None


def _data_uri(data: bytes, media_type: str) -> str:
    """Return bytes as a `data:` URI."""
    return f"data:{media_type};base64,{b64encode(data).decode('ascii')}"


# Histograms of measured values, in percent of the drawing's size

BINS = 48
_FEWEST_WHOLE, _MOST_WHOLE = 6, 66
_OUTER_PERCENT = 1.0


class HistogramBar(NamedTuple):
    """A stacked bar: left edge and width in percent, and its parts from the bottom.

    A part is (series, top, height), in percent from the top; `title` describes it.
    """

    left: float
    width: float
    parts: tuple[tuple[int, float, float], ...]
    title: str


class Histogram(NamedTuple):
    """A histogram with a threshold.

    `marks` are (percent from the left, value); `highest` is the count of the highest bar. If
    `cut_low` or `cut_high` is set, the outermost bar includes the values beyond the end of the
    scale.
    """

    bars: tuple[HistogramBar, ...]
    marks: tuple[tuple[float, float], ...]
    threshold: float
    highest: int
    cut_low: bool
    cut_high: bool


def histogram(
    values: NDArray[np.float64], series: NDArray[np.int8], count: int, threshold: float
) -> Histogram:
    """Return the histogram of `values`, stacked by `series` (0 to `count` - 1).

    The scale includes the threshold and all values except the outermost percent on each side, so
    that one extreme value does not compress the others. Integers get one bar each. Pass a threshold
    between two integers as such, for example 4.5 for values that must exceed 4.
    """
    is_whole = bool((values == values.round()).all())
    edges = _whole_edges(values, threshold) if is_whole else None
    if edges is None:
        edges = _edges(values, threshold)
    low, high = float(edges[0]), float(edges[-1])
    (bars,), highest = stacked_bars(edges, [[values[series == one] for one in range(count)]])
    return Histogram(
        bars,
        tuple(
            (_place_of(edges, mark), mark) for mark in _marks(low, high, least_step=float(is_whole))
        ),
        _place_of(edges, threshold),
        highest,
        bool((values < low).any()),
        bool((values > high).any()),
    )


def _whole_edges(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64] | None:
    """Return the edges of one bar per integer, if there are few enough."""
    low, high = min(values.min(), np.floor(threshold)), max(values.max(), np.ceil(threshold))
    if high - low >= _MOST_WHOLE:
        return None
    edges: NDArray[np.float64] = np.arange(low, max(high, low + _FEWEST_WHOLE) + 2) - 0.5
    return edges


def _edges(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    outermost = np.percentile(values, (_OUTER_PERCENT, 100 - _OUTER_PERCENT))
    low, high = min(float(outermost[0]), threshold), max(float(outermost[1]), threshold)
    room = 0.03 * (high - low) or 1.0
    return np.linspace(max(low - room, 0.0) if low >= 0 else low - room, high + room, BINS + 1)


def stacked_bars(
    edges: NDArray[np.float64],
    histograms: Sequence[Sequence[NDArray[np.float64]]],
    digits: str = ".4g",
) -> tuple[list[tuple[HistogramBar, ...]], int]:
    """Return the bars of histograms with the same scale, and the count of the highest bar.

    Args:
        edges: the edges of the bins; values beyond them are in the outermost bins.
        histograms: the values of each series of each histogram.
        digits: the format of the edges in titles.
    """
    low, high = edges[0], edges[-1]
    counts = [
        np.array([np.histogram(np.clip(values, low, high), edges)[0] for values in series])
        for series in histograms
    ]
    highest = max((int(one.sum(axis=0).max()) for one in counts), default=0)

    def bar(place: int, found: NDArray[np.int64]) -> HistogramBar:
        left, right = _place_of(edges, edges[place]), _place_of(edges, edges[place + 1])
        title = f"{found.sum():,} from {edges[place]:{digits}} to {edges[place + 1]:{digits}}"
        return HistogramBar(left, round(0.92 * (right - left), 3), _stacked(found, highest), title)

    return [
        tuple(bar(place, one[:, place]) for place in np.flatnonzero(one.any(axis=0)).tolist())
        for one in counts
    ], highest


def _stacked(counts: NDArray[np.int64], highest: int) -> tuple[tuple[int, float, float], ...]:
    """Return the parts of a `HistogramBar` for the counts of its series."""
    parts, below = [], 0.0
    for one, found in enumerate(counts.tolist()):
        if found:
            height = 100 * found / highest
            parts.append((one, round(100 - below - height, 2), round(height, 2)))
            below += height
    return tuple(parts)


def _place_of(edges: NDArray[np.float64], value: float) -> float:
    """Return the position of a value, in percent from the left."""
    return round(100 * float((value - edges[0]) / (edges[-1] - edges[0])), 3)


def _marks(low: float, high: float, least_step: float) -> list[float]:
    """Return three to seven round numbers from `low` to `high`, at least one step apart."""
    raw = max((high - low) / 6, least_step)
    size = 10.0 ** np.floor(np.log10(raw))
    step = next(size * digit for digit in (1, 2, 5, 10) if size * digit >= raw)
    first = int(np.ceil(low / step))
    return [round(step * number, 10) for number in range(first, int(np.floor(high / step)) + 1)]
