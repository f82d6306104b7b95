"""Query a SQLite store without SQLAlchemy, which takes longer to import than the query.

Commands that read a release but not the store start in half the time.
"""

import sqlite3
from contextlib import closing
from pathlib import Path


def may_have_notices(path: Path) -> bool:
    """Return whether a store has notices of withdrawals; True if its file cannot tell."""
    return _may_have(path, "SELECT 1 FROM withdrawal_notice")


def may_have_releases(path: Path, dataset: str) -> bool:
    """Return whether a store has releases of a dataset; True if its file cannot tell."""
    return _may_have(path, "SELECT 1 FROM release WHERE dataset = ?", dataset)


def _may_have(path: Path, query: str, *values: str) -> bool:
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            return bool(store.execute(f"SELECT EXISTS ({query})", values).fetchone()[0])
    except sqlite3.Error:
        return True
