"""Read a source in two passes: first the split of each identity, then the rows."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from schemas.errors import FormatError
from sources.annotations import Importer
from sources.importer import IMPORTERS
from sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow

_BATCH_ROWS = 5000


def read_source(
    importer: Importer, path: Path, options: ReadOptions = DEFAULT_OPTIONS
) -> Iterator[Row]:
    """Yield the rows of `path`; those of identities in two splits become bad rows.

    The first pass runs before this returns, so a file of another format is rejected here.

    Raises:
        FormatError: the file is not of the importer's format.
    """
    try:
        torn = identities_in_two_splits(importer.rows(path, options))
    except FormatError as error:
        if others := likely_formats(path):
            raise FormatError(f"{error}; this looks like {' or '.join(others)}") from error
        raise
    rows = importer.rows(path, options)
    return (
        _torn_row(row, path.name, torn[row.identity])
        if isinstance(row, SourceRow) and row.identity in torn
        else row
        for row in rows
    )


def likely_formats(path: Path) -> list[str]:
    """Return the formats that can parse the first record of a file; lists of paths excepted."""
    found = []
    for name, importer in IMPORTERS.items():
        try:
            first = next(importer.rows(path), None)
        except FormatError:
            continue
        if isinstance(first, SourceRow) and name != "image-list":
            found.append(name)
    return found


def identities_in_two_splits(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Map identities in more than one split to their splits; a test set must have unseen ones.

    The pairs of identity and split are kept in a temporary SQLite database that spills to disk: if
    each image is its own identity there are as many pairs as images.
    """
    pairs = ((row.identity, row.split) for row in rows if isinstance(row, SourceRow))
    with closing(sqlite3.connect("")) as seen:
        seen.execute(
            "CREATE TABLE seen (identity TEXT, split TEXT, PRIMARY KEY (identity, split)) "
            "WITHOUT ROWID"
        )
        while batch := list(islice(pairs, _BATCH_ROWS)):
            seen.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", set(batch))
        found = seen.execute(
            "SELECT identity, split FROM seen WHERE identity IN "
            "(SELECT identity FROM seen GROUP BY identity HAVING count(*) > 1) "
            "ORDER BY identity, split"
        )
        torn: dict[str, tuple[str, ...]] = {}
        for identity, split in found:
            torn[identity] = (*torn.get(identity, ()), split)
    return torn


def _torn_row(row: SourceRow, file: str, splits: tuple[str, ...]) -> BadRow:
    return BadRow(
        file=file,
        index=row.index,
        field="split",
        reason="identity_in_two_splits",
        detail=(
            f"identity {row.identity!r} is in the splits {' and '.join(splits)}, wanted one: "
            f"a model would be tested on a person it was trained on"
        ),
        raw=row.model_dump_json(),
    )
