"""The state that a run leaves in a home, for comparison with other runs."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file below `folder`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def files_of(home: Path) -> set[str]:
    """Return all paths in a home, except those of the database, which depend on its readers."""
    paths = (str(path.relative_to(home)) for path in home.rglob("*"))
    return {path for path in paths if not path.startswith("loupe.db")}


def problems_of(home: Path) -> list[Any]:
    """Return the problems that SQLite finds in the store."""
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        found = [row for row in database.execute("PRAGMA integrity_check") if row != ("ok",)]
        return found + list(database.execute("PRAGMA foreign_key_check"))


def contents_of(home: Path) -> dict[str, Counter[Any]]:
    """Return the contents of the store, without row numbers, times and searches lost in a kill.

    Activations are left out, too: how often proposals are deactivated and activated again depends
    on where the previous run was killed. Their result, the state, is compared.
    """
    queries = {
        "entities": "SELECT id, state FROM entity",
        "links": "SELECT child.id, role, parent.id FROM derivation "
        "JOIN entity child ON child.seq = child_seq JOIN entity parent ON parent.seq = parent_seq",
        "work": "SELECT plan.key, status, reason, rejection FROM work "
        "JOIN plan ON plan.id = plan_id",
        "calls": "SELECT key, CASE stage WHEN 'search' THEN json_remove(response, '$.seconds') "
        "ELSE response END, tokens_in, tokens_out FROM model_call WHERE status <> 'lost'",
        "decisions": "SELECT entity_id, verdict, reason, agent_id FROM decision",
        "release": "SELECT id FROM release",
        "claims": "SELECT subject FROM claim",
    }
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        return {name: Counter(database.execute(query)) for name, query in queries.items()}
