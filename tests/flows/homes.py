"""What a run leaves behind, to be compared with what another run leaves."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def files_of(home: Path) -> set[str]:
    """All that lies in a home but the database, whose files come and go with its readers."""
    paths = (str(path.relative_to(home)) for path in home.rglob("*"))
    return {path for path in paths if not path.startswith("loupe.db")}


def problems_of(home: Path) -> list[Any]:
    """What SQLite finds wrong with the store."""
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        found = [row for row in database.execute("PRAGMA integrity_check") if row != ("ok",)]
        return found + list(database.execute("PRAGMA foreign_key_check"))


def contents_of(home: Path) -> dict[str, Counter[Any]]:
    """What the store holds, numbers, times and searches that were lost with a run left out.

    So are activations: how often a run makes what it proposed inactive, and active again, depends
    on where the run before it was killed. What they come to is the state.
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
