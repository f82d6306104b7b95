"""Opening databases: migrations, and errors for databases that cannot be used."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from loupe.db.store import Store, migrate
from loupe.db.tables import SCHEMA, Base, escape_like
from loupe.db.work import register_plan
from loupe.schemas.base import digest_of
from loupe.schemas.errors import ConfigurationError


def test_migrations_create_the_tables_of_the_models_once(empty_database_url: str) -> None:
    store = Store.open(empty_database_url)
    migrate(store.engine)
    with store.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert set(Base.metadata.tables) < set(inspect(connection).get_table_names())
        versions = connection.execute(text("SELECT version_num FROM alembic_version"))
        assert versions.scalars().all() == [SCHEMA]
    store.close()


def test_the_version_of_the_tables_changes_with_their_definition() -> None:
    parts: list[CreateTable | CreateIndex] = []
    for table in Base.metadata.sorted_tables:
        parts.append(CreateTable(table))
        parts += map(CreateIndex, sorted(table.indexes, key=lambda one: str(one.name)))
    dialects = (sqlite.dialect(), postgresql.dialect())  # type: ignore[no-untyped-call]
    statements = [str(one.compile(dialect=dialect)) for dialect in dialects for one in parts]
    number, _, digest = SCHEMA.partition("_")
    assert digest == digest_of(*statements)[:12], f"set it, and raise the number {number}"


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("0001", "written by an older Loupe .* continue with that one, or build again in a new"),
        ("9999_abc", "written by a newer Loupe .* update Loupe"),
        (f"{SCHEMA[:4]}_abc", "written by another Loupe"),
        ("ae3f", "is not one of Loupe: its tables have the version 'ae3f'"),
    ],
)
def test_a_database_of_another_version_is_refused(
    sqlite_store: Store, version: str, sentence: str
) -> None:
    store = sqlite_store
    with store.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})
    store.close()
    with pytest.raises(ConfigurationError, match=sentence):
        Store.open(store.engine.url.render_as_string())


@pytest.mark.parametrize("lost", ["DELETE FROM alembic_version", "DROP TABLE alembic_version"])
def test_a_database_that_does_not_state_its_version_is_refused(
    sqlite_store: Store, lost: str
) -> None:
    store = sqlite_store
    with store.write() as connection:
        connection.execute(text(lost))
    store.close()
    with pytest.raises(ConfigurationError, match="does not say of which version: it is damaged"):
        Store.open(store.engine.url.render_as_string())


def test_the_file_is_whole_when_the_store_is_closed_while_others_read_it(
    sqlite_store: Store, tmp_path: Path
) -> None:
    reader = Store.open(sqlite_store.engine.url.render_as_string())
    with reader.read() as connection:
        connection.execute(text("SELECT 1"))
        register_plan(sqlite_store, "stage", "1", {})
        sqlite_store.close()
        shutil.copy(tmp_path / "loupe.db", tmp_path / "copy.db")
    reader.close()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT stage FROM plan").fetchall() == [("stage",)]


_LEFT_OPEN = """
import gc, sys
from loupe.db.store import Store
from loupe.db.work import register_plan
store = Store.open(sys.argv[1])
register_plan(store, "stage", "1", {})
gc.freeze()  # as runs do: nothing is collected at the end
raise SystemExit("it fails")
"""


def test_the_file_is_whole_when_a_failed_command_left_the_store_open(tmp_path: Path) -> None:
    file = tmp_path / "loupe.db"
    command = [sys.executable, "-c", _LEFT_OPEN, f"sqlite:///{file}"]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 1
    file.with_name("loupe.db-wal").unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as whole:
        assert whole.execute("SELECT stage FROM plan").fetchall() == [("stage",)]


def test_an_unusable_url_is_an_error_that_gives_the_reason() -> None:
    for url, sentence in (
        ("nonsense", "database URL must be like"),
        ("mysql://me@host/db", "must be one of sqlite, postgresql; got 'mysql'"),
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("postgresql://me@127.0.0.1:port/db", "database URL must be like"),
        ("postgresql://me@127.0.0.1:1/db", "does not answer"),
        ("postgresql://me@127.0.0.1/db?colour=blue", "colour"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            Store.open(url)


def test_a_password_in_a_url_is_not_shown() -> None:
    for url in (
        "postgresql://me:hunter2@127.0.0.1:port/db",
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "mysql://me:hunter2@host/db",
        "me:hunter2@host",
    ):
        with pytest.raises(ConfigurationError) as raised:
            Store.open(url)
        assert "hunter2" not in str(raised.value), url


def test_an_error_names_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, whatever its name\n" * 100, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"notes\.txt.*not a database"):
        Store.open(f"sqlite:///{path}")


def test_an_error_names_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"file/deeper"):
        Store.open(f"sqlite:///{tmp_path}/file/deeper/loupe.db")


def test_sqlite_uses_a_write_ahead_log_and_enforces_foreign_keys(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'new folder' / 'loupe.db'}")
    with store.read() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
    store.close()


def test_escaped_text_is_matched_literally_by_like() -> None:
    engine = create_engine("sqlite://")
    query = text(r"SELECT :value LIKE :pattern ESCAPE '\'")
    with engine.connect() as connection:
        for value, literal in [("50%", "50%"), ("a_b", "a_b"), ("a\\b", "a\\b")]:
            pattern = escape_like(literal)
            assert connection.execute(query, {"value": value, "pattern": pattern}).scalar_one() == 1
        for value, literal in [("50 per cent", "50%"), ("acb", "a_b")]:
            pattern = escape_like(literal)
            assert connection.execute(query, {"value": value, "pattern": pattern}).scalar_one() == 0
    engine.dispose()
