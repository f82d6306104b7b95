"""The store of these tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.store import Store


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite, or on both databases.

    Tests whose statements may behave differently on PostgreSQL use the fixture `database_url`.
    """
    if "database_url" in request.fixturenames:
        url = request.getfixturevalue("database_url")
    else:
        url = f"sqlite:///{tmp_path / 'loupe.db'}"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "loupe.db")
    store = Store.open(url)
    yield store
    store.close()
