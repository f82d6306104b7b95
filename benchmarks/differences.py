"""The page of differences from the papers, written from `docs/differences.toml`.

`python -m benchmarks.differences` (`make reference`) writes `docs/differences.md`.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loupe.retrieval.published import published_tables
from loupe.retrieval.reproduction import absent_from

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "differences.md"
PAPERS = ("UFineBench", "ReCoS", "CCD")
_HEAD = """# Differences from the papers

Loupe builds what three papers describe. In some places it differs from them on purpose, in others the papers are silent and Loupe had to choose, and a few things are misprinted. This page lists all of them, paper by paper, each with the file that decides it and the test that checks it. It also lists the tables and figures that [`loupe reproduce`](reproduction.md) does not have.

This page is written by `make reference` from `differences.toml`, `retrieval/published.toml` and `retrieval/reproduce/`."""  # noqa: E501 - a line of Markdown


def differences() -> list[dict[str, Any]]:
    """Return all differences, in the order of the file."""
    found: list[dict[str, Any]] = tomllib.loads((DOCS / "differences.toml").read_text("utf-8"))[
        "differences"
    ]
    return found


def page() -> str:
    """Return the page: for each paper a table of each kind, and of what is absent."""
    parts = [_HEAD]
    for paper in PAPERS:
        columns = ("place", "the paper", "Loupe", "where, checked by")
        missing: list[tuple[str, ...]] = [
            (", ".join(one.what), one.because) for one in absent_from(paper.lower())
        ]
        parts += [
            f"## {paper}",
            _table(columns, _read(paper, "difference")),
            "Where the paper is silent:",
            _table(columns, _read(paper, "silent")),
            "Misprints, and rows of tables that the paper contradicts:",
            _table(("place", "printed", "but"), [*_misprints(paper)]),
            "Not reproduced:",
            _table(("table or figure", "because"), missing),
        ]
    return "\n\n".join(parts) + "\n"


def _read(paper: str, kind: str) -> list[tuple[str, ...]]:
    """Return a row for each difference of a kind."""
    rows: list[tuple[str, ...]] = []
    for one in _of(paper, kind):
        files = [one["where"], one["checked"]]
        links = ", ".join(f"[{Path(file).name}](../{file})" for file in files)
        rows.append((one["place"], one["says"], one["does"], links))
    return rows


def _misprints(paper: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each misprint of the text and each disputed row of a table."""
    for one in _of(paper, "misprint"):
        yield one["place"], one["says"], one["does"]
    for table in published_tables():
        if table.paper == paper.lower():
            for row in table.rows:
                if row.disputed:
                    place = f"{table.place}, {table.dataset}, {table.direction}"
                    scores = " ".join(f"{score:g}" for score in row.scores)
                    yield place, f"{row.model}: {scores}", row.disputed


def _of(paper: str, kind: str) -> list[dict[str, Any]]:
    """Return the differences of a kind in a paper."""
    own = [one for one in differences() if one["paper"] == paper]
    return [one for one in own if one.get("kind", "difference") == kind]


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    head, *body = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return "\n".join([head, f"|{'---|' * len(columns)}", *body])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
