"""What a SQLite store holds, asked without SQLAlchemy, which takes longer to load than the answer.

Commands that read a release and not the store start in half the time.
"""

import sqlite3
from contextlib import closing
from pathlib import Path


def may_have_notices(path: Path) -> bool:
    """Whether the store in a file has notices of withdrawals; True where the file cannot tell."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            return bool(
                store.execute("SELECT EXISTS (SELECT 1 FROM withdrawal_notice)").fetchone()[0]
            )
    except sqlite3.Error:
        return True
