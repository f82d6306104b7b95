"""Tables of texts, as spreadsheets save them: CSV with any of the usual delimiters."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from loupe.schemas.errors import ColumnError
from loupe.schemas.json_stream import Element

IsOurs = Callable[[AbstractSet[str]], bool]
"""Whether the names of fields are those of a format."""
_DELIMITERS: Final = ",;\t|"
_STATED: Final = "sep="
"""Begins a first line in which Excel states the delimiter."""
_SAMPLED_BYTES: Final = 64 * 1024


class TableBreak(Exception):  # noqa: N818 - a place in a file, turned into a record by its reader
    """Where a file stops being a readable table, or a line with cells of no column."""

    def __init__(self, what: str, line: int, index: int, *, ends: bool) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.index = index
        self.ends = ends


def repeated_name(names: Iterable[str]) -> str | None:
    """Return the first name that comes a second time; blank ones are none."""
    seen: set[str] = set()
    for name in filter(None, names):
        if name in seen:
            return name
        seen.add(name)
    return None


def refuse_repeated(names: Iterable[str], path: Path) -> None:
    """Refuse a table with two columns of one name.

    Raises:
        ColumnError: there are two.
    """
    if (name := repeated_name(names)) is not None:
        raise ColumnError(f"{path} has two columns called {name!r}; rename or remove one of them")


class Table:
    """A table with names of columns in its first line (lower case), and texts below."""

    def __init__(self, file: io.BufferedReader, path: Path, delimiter: str | None = None) -> None:
        self._path = path
        self._quotes = _quotes_of(file)
        self._text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")
        self.first = self._text.readline()
        self._lines_before = 1
        self._delimiters = delimiter or _DELIMITERS
        if self.first.casefold().startswith(_STATED):
            self._delimiters = self.first[len(_STATED) :].strip("\r\n")[:1] or _DELIMITERS
            self.first = self._text.readline()
            self._lines_before = 2

    def close(self) -> None:
        """Leave the file, which stays open."""
        self._text.detach()

    def header(self, wanted: AbstractSet[str]) -> list[str]:
        """Return the names of the columns with the delimiter that shows the most wanted ones.

        That delimiter is used from here on; among equals, the one with the most columns.

        Raises:
            ColumnError: two of them are the same.
        """

        def score(delimiter: str) -> tuple[int, int]:
            cells = self._cells(delimiter)
            return len(wanted & frozenset(cells)), len(cells)

        self._delimiters = max(self._delimiters, key=score)
        cells = self._cells(self._delimiters)
        refuse_repeated(cells, self._path)
        return cells

    def rows(self, is_ours: IsOurs) -> Iterator[Element | TableBreak] | None:
        """Return the rows as texts by column, or None if the first line has other columns.

        Raises:
            ColumnError: two of them are the same.
        """
        for delimiter in self._delimiters:
            header = self._cells(delimiter)
            if is_ours(frozenset(header)):
                refuse_repeated(header, self._path)
                return self._rows(header, delimiter)
        return None

    def _rows(self, header: list[str], delimiter: str) -> Iterator[Element | TableBreak]:
        reader = csv.reader(self._text, delimiter=delimiter, strict=True, **self._quotes)
        index, before, ended = 0, self._lines_before, 0
        try:
            for cells in reader:
                ended = reader.line_num
                if not any(cell.strip() for cell in cells):
                    continue
                if any(cell.strip() for cell in cells[len(header) :]):
                    what = f"has {len(cells)} cells, wanted {len(header)}: {', '.join(header)}"
                    quotes = f"a text that contains {delimiter!r} must be in double quotes"
                    line = before + reader.line_num
                    yield TableBreak(f"{what}; {quotes}", line, index, ends=False)
                else:
                    yield Element("", index, dict(zip(header, cells, strict=False)))
                index += 1
        except csv.Error as fault:
            what = f"a cell that begins here is not closed as it is quoted ({fault})"
            yield TableBreak(what, before + ended + 1, index, ends=True)

    def _cells(self, delimiter: str) -> list[str]:
        """Return the names of columns in the first line; none if it is no header."""
        try:
            line = csv.reader([self.first], delimiter=delimiter, strict=True, **self._quotes)
            cells = next(line, [])
        except csv.Error:
            return []
        return [cell.strip().casefold() for cell in cells]


def _quotes_of(file: io.BufferedReader) -> dict[str, Any]:
    """Return how cells are quoted, as `csv.reader` takes it.

    Quotes are double, and doubled inside a cell, unless the beginning shows single quotes, or
    backslashes before quotes, as some databases write them.
    """
    sample = file.peek(_SAMPLED_BYTES)[:_SAMPLED_BYTES].decode("utf-8", "replace")
    if '\\"' in sample and '""' not in sample:
        return {"escapechar": "\\", "doublequote": False}
    if '"' in sample:
        return {}
    try:
        found = csv.Sniffer().sniff(sample, _DELIMITERS)
    except csv.Error:
        return {}
    return {"quotechar": "'"} if _quotes_cells(sample, found) else {}


def _quotes_cells(sample: str, dialect: type[csv.Dialect]) -> bool:
    """Tell whether single quotes surround cells; apostrophes of a language do not."""
    opened = sample.count(f"{dialect.delimiter}'")
    closed = sum(sample.count(f"'{end}") for end in (dialect.delimiter, "\n", "\r"))
    return dialect.quotechar == "'" and opened > 1 and closed > 1
