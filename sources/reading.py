"""A whole source read in two passes: first who is in which split, then the rows."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from sources.importer import Importer
from sources.records import BadRow, ReadOptions, Row, SourceRow

_BATCH_ROWS = 5000


def read_source(
    importer: Importer, path: Path, options: ReadOptions | None = None
) -> Iterator[Row]:
    """The rows of `path`, those of identities in two splits taken out as bad rows.

    The first pass runs before this returns, so a file of another format is refused here.

    Raises:
        FormatError: the file is not of the importer's format.
    """
    torn = identities_in_two_splits(importer.rows(path, options))
    return _without_torn(importer.rows(path, options), path.name, torn)


def identities_in_two_splits(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Identity → its splits, for those that have more than one; a test set must know nobody twice.

    The pairs seen are kept in a temporary SQLite database that spills to disk: where each image is
    its own identity there are as many of them as images.
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


def _without_torn(
    rows: Iterable[Row], file: str, torn: dict[str, tuple[str, ...]]
) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, SourceRow) and row.identity in torn:
            yield _torn_row(row, file, torn[row.identity])
        else:
            yield row


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
