"""The leaderboard as files: a self-contained HTML page, Markdown and JSON."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loupe.flows.engine.pages import flow_pages, shrunk_uri
from loupe.flows.evaluation.leaderboard import (
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
from loupe.release.card.markup import as_text
from loupe.release.card.published import CCD_TABLE
from loupe.retrieval.published import PublishedTable, published_on
from loupe.schemas.base import sha256_of
from loupe.schemas.evaluation import Direction, Score, ShownItem

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
    """Writes `leaderboard.html`, `.md` and `.json` to `out`.

    Existing files are replaced, once all three are complete.

    Raises:
        OSError: a file cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = Written(*(out / f"leaderboard.{ending}" for ending in ("html", "md", "json")))
    document = json.dumps(leaderboard_document(board), indent=1, ensure_ascii=False)
    texts = (render_page(board), render_markdown(board), document + "\n")
    unfinished = [path.with_name(f".{path.name}") for path in written]
    for path, text in zip(unfinished, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    for path, complete in zip(unfinished, written, strict=True):
        path.replace(complete)
    return written


_METHODS_NOTE = (
    "Edited or found: how often logistic regression on a contrastive image's vector, "
    "cross-validated by group, is right; – with too few images of either kind. Original of its "
    "group: how often such a head on the vectors of all images finds it; – with too few groups."
)


def render_page(board: Leaderboard) -> str:
    """The leaderboard as one HTML page."""
    return _rendered(
        "leaderboard.html.j2",
        board,
        sections=[_section(board, one) for one in board.boards],
        thumbnail=_thumbnails(board.folder),
        contrasts=_contrast_plot(board.contrasts),
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
        cell=as_text,
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

    It returns None if the file is missing, changed or not an image.
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


def _published_types(table: GroupTable, like: str | None) -> PublishedTable | None:
    """The published FG-CDE below a table of FG-CDA by difference; None if there is none."""
    if table.dimension != "difference":
        return None
    return next(iter(published_on(like or "", table.direction, by_difference=True)), None)


# What the plots of a leaderboard show, which the template draws as SVG.

_MOST_MODELS = 8
"""The number of models that a plot can show distinguishably; it shows the best."""
_WHISKERS = (0.05, 0.95)


def _rank_plot(board: Board) -> dict[str, Any] | None:
    """The share of queries with a match among the first k; None if no curve is known."""
    found = [(row.name, row.found.rank_curve) for row in board.models if row.found]
    curves = [(name, curve) for name, curve in found if curve][:_MOST_MODELS]
    if not curves:
        return None
    first = ", ".join(f"{name} {curve[0]:.1f} %" for name, curve in curves)
    description = f"Queries with a match among the first k of the gallery. At k = 1: {first}."
    return {"curves": dict(curves), "description": description}


def _similarity_plot(row: Row) -> dict[str, Any] | None:
    """The similarities of matches and of others for one model, in percent; None if unknown."""
    spread = row.found.histogram if row.found else None
    if spread is None:
        return None
    bins = len(spread.matches)
    middles = np.linspace(spread.low, spread.high, 2 * bins + 1)[1::2]
    shares, pairs = dict[str, list[float]](), list[str]()
    for name, counts in (("matches", spread.matches), ("others", spread.others)):
        total = sum(counts)
        shares[name] = [100 * count / max(1, total) for count in counts]
        mean = np.average(middles, weights=counts) if total else float("nan")
        pairs.append(f"{total:,} {name} (mean {mean:.3f})")
    description = f"Cosines of {' and '.join(pairs)}, of {spread.queries:,} queries."
    return {"name": row.name, "spread": spread, "shares": shares, "description": description}


def _contrast_plot(rows: Sequence[ContrastRow]) -> dict[str, Any] | None:
    """The cosines of contrastive pairs by type and model: the middle half, and 5 % to 95 %."""
    boxes = {
        row.name: [one for one in row.found.similarities if one.pairs]
        for row in rows[:_MOST_MODELS]
    }
    found = [one for ones in boxes.values() for one in ones]
    if not found:
        return None
    ends = [value for one in found for share, value in one.quantiles if share in _WHISKERS]
    means = "; ".join(
        f"{name}: " + ", ".join(f"{one.difference} {one.mean:.3f}" for one in ones)
        for name, ones in boxes.items()
    )
    low = np.floor(10 * min(ends)) / 10
    return {
        "boxes": boxes,
        "low": low,
        "high": max(low + 0.1, np.ceil(10 * max(ends)) / 10),
        "description": "Cosines by type of difference: median, middle half, 5 % to 95 %. "
        f"Means: {means}.",
    }
