"""Fixtures shared by several packages: migrated databases and stores on SQLite and PostgreSQL."""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from loupe.db.store import Store
from loupe.db.tables import Base
from tests.postgres import Postgres, postgres_programs, private_postgres
from tests.requirements import unavailable

# Processes that tests start find the helpers of tests, as these are not installed.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])

# Half the usual number of examples, and no deadline, because machines may be busy. CI derives the
# examples from the code, so that a failure can be repeated; elsewhere they are random.
settings.register_profile(
    "loupe",
    deadline=None,
    max_examples=50,
    suppress_health_check=(HealthCheck.too_slow,),
    derandomize="LOUPE_TESTS_REQUIRE_ALL" in os.environ,
)
settings.load_profile("loupe")

pytest_plugins = [
    "tests.closing_report",
    "tests.grouping",
    "tests.chromium",
    "tests.services.fixtures",
    "tests.servers.fixtures",
    "tests.annotate.browser",
]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, because collecting creates no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_list_of_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep homes that tests make out of the user's list."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A private PostgreSQL server, started once. Mark tests that use it with `postgres`."""
    programs = postgres_programs()
    if programs is None:
        unavailable("PostgreSQL is not installed: apt-get install postgresql")
    with private_postgres(programs) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with our empty tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "loupe.db"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: Postgres) -> str:
    """The name of a PostgreSQL database with our tables; its users empty it afterwards."""
    name = postgres_server.create_database()
    Store.open(postgres_server.url(name)).close()
    return name


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    server: Postgres = request.getfixturevalue("postgres_server")
    return server.url(server.create_database())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database with our tables, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        path = tmp_path / "loupe.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    name: str = request.getfixturevalue("migrated_postgres")
    yield server.url(name)
    server.empty(name, Base.metadata.tables)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store, on SQLite and on PostgreSQL."""
    store = Store.open(database_url)
    yield store
    store.close()


@pytest.fixture
def postgres_store(postgres_server: Postgres, migrated_postgres: str) -> Iterator[Store]:
    """An empty store on PostgreSQL. Mark tests that use it with `postgres`."""
    store = Store.open(postgres_server.url(migrated_postgres))
    yield store
    store.close()
    postgres_server.empty(migrated_postgres, Base.metadata.tables)


@pytest.fixture
def sqlite_store(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite, for tests that do not depend on the database."""
    path = tmp_path / "loupe.db"
    shutil.copy(migrated_sqlite, path)
    store = Store.open(f"sqlite:///{path}")
    yield store
    store.close()
