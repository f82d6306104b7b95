"""Databases that lose connections, restart, are busy, full, damaged or read-only."""

import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import ProgrammingError

from loupe.db.entities import AgentRef, register_agents
from loupe.db.store import DatabaseLostError, Store, retried
from loupe.db.tables import Activity, Agent, Plan
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.schemas.processes import is_stopped
from tests.db.samples import activity_of, row_count

PID = "SELECT pg_backend_pid()"
PERSON = AgentRef("person", "annotator-7")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Any:
    server = request.getfixturevalue("postgres_server")
    store = Store.open(server.url(server.create_database()), patience_seconds=20)
    yield store
    store.close()


def end_backend(store: Store, pid: int) -> None:
    """Terminate a connection, as an administrator or a server restart does."""
    with store.engine.connect() as other:
        other.exec_driver_sql("SELECT pg_terminate_backend(%s)", (pid,))
    time.sleep(0.05)


class TerminateOnce:
    """Terminates the connection it is called with, but only on the first call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls = 0

    def __call__(self, connection: Connection) -> None:
        self.calls += 1
        if self.calls == 1:
            end_backend(self._store, connection.exec_driver_sql(PID).scalar_one())


@retried
def add_person(store: Store, interrupt: Callable[[Connection], None] = lambda _: None) -> None:
    with store.write() as connection:
        register_agents(connection, [PERSON])
        interrupt(connection)
        connection.exec_driver_sql("SELECT 1")


@pytest.mark.parametrize("is_named", [False, True])
def test_a_second_attempt_sees_all_items_of_an_iterator(
    sqlite_store: Store, is_named: bool
) -> None:
    seen: list[list[str]] = []

    @retried
    def look(_store: Store, items: Iterator[str]) -> None:
        seen.append(list(items))
        if len(seen) == 1:
            raise DatabaseLostError("gone for a moment")

    if is_named:
        look(sqlite_store, items=iter("abc"))
    else:
        look(sqlite_store, iter("abc"))
    assert seen == [["a", "b", "c"]] * 2


@pytest.mark.postgres
def test_a_transaction_is_repeated_if_its_connection_is_terminated(server: Store) -> None:
    terminate = TerminateOnce(server)
    add_person(server, terminate)
    assert (terminate.calls, row_count(server, Agent)) == (2, 1)


@pytest.mark.postgres
def test_terminated_idle_connections_are_replaced(server: Store) -> None:
    with server.read() as connection:
        pid = connection.exec_driver_sql(PID).scalar_one()
    with psycopg.connect(server.engine.url.render_as_string().replace("+psycopg", "")) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert row_count(server, Agent) == 0


@pytest.mark.postgres
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_commit_with_a_lost_response_is_stored_once(
    server: Store, *, is_carried_out: bool
) -> None:
    """The store asks the server whether the commit was carried out."""
    plan_id = register_plan(server, "stage", "1", {})
    lost: list[int] = []

    def lose(connection: Connection) -> None:
        if lost or not connection.get_execution_options().get("writes"):
            return
        pid = connection.exec_driver_sql(PID).scalar_one()
        lost.append(pid)
        if is_carried_out:
            connection.connection.commit()
        end_backend(server, pid)
        connection.exec_driver_sql("SELECT 1")

    event.listen(server.engine, "commit", lose)
    commit_chunk(server, activity_of(plan_id), [])
    assert lost
    assert row_count(server, Activity) == 1


@pytest.mark.postgres
def test_an_unreachable_server_is_retried_and_then_reported(server: Store) -> None:
    refused, most = [0], [3]

    def connect(*_: Any) -> None:
        refused[0] += 1
        if refused[0] <= most[0]:
            raise psycopg.OperationalError("connection refused")

    server.engine.dispose()
    event.listen(server.engine, "do_connect", connect)
    add_person(server)
    assert refused[0] == 4
    server.engine.dispose()
    most[0], server.patience_seconds = 1_000_000, 0.3
    with pytest.raises(ServiceError, match="failed: connection refused; finished work is stored"):
        add_person(server)


def test_a_write_waits_for_a_busy_database(sqlite_store: Store) -> None:
    event.listen(sqlite_store.engine, "connect", lambda c, _: c.execute("PRAGMA busy_timeout=0"))
    sqlite_store.engine.dispose()
    other = sqlite3.connect(str(sqlite_store.engine.url.database), check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.4, other.close)
    release.start()
    add_person(sqlite_store)
    release.join()
    assert row_count(sqlite_store, Agent) == 1


STOPPED_WRITER = """
import os, signal, sys
from loupe.db.store import Store
with Store.open(sys.argv[1]).write() as connection:
    connection.exec_driver_sql("UPDATE process SET beats = beats")
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who has a lock")
def test_a_process_that_is_stopped_while_it_writes_is_named_and_not_waited_for_for_ever(
    sqlite_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    url = sqlite_store.engine.url.render_as_string()
    with subprocess.Popen([sys.executable, "-c", STOPPED_WRITER, url]) as writer:
        try:
            while not is_stopped(writer.pid):
                time.sleep(0.01)
            sqlite_store.patience_seconds = 1.2
            begun = time.monotonic()
            with pytest.raises(
                ServiceError, match=rf"by process {writer.pid} \(stopped.*run again"
            ):
                add_person(sqlite_store)
            with pytest.raises(ServiceError, match="locked"):
                add_person(sqlite_store)
            assert time.monotonic() - begun < 20, "the patience is one for all writes"
            (said,) = [one for one in caplog.messages if "waiting for" in one]
            assert f"process {writer.pid} (stopped" in said
        finally:
            writer.send_signal(signal.SIGCONT)
    assert writer.returncode == 0
    add_person(sqlite_store)
    assert row_count(sqlite_store, Agent) == 1


def test_programming_errors_are_not_retried(sqlite_store: Store) -> None:
    calls = []

    @retried
    def ask(store: Store) -> None:
        calls.append(1)
        with store.read() as connection:
            connection.execute(text("SELECT :a"), [{"a": object()}])

    with pytest.raises(ProgrammingError):
        ask(sqlite_store)
    assert calls == [1]


def damage(file: Path) -> None:
    """Overwrite all pages except the first."""
    data = bytearray(file.read_bytes())
    data[4096:] = bytes(byte ^ 0x5A for byte in data[4096:])
    file.write_bytes(data)


def test_a_damaged_file_is_a_short_error(migrated_sqlite: Path, tmp_path: Path) -> None:
    file = tmp_path / "loupe.db"
    shutil.copy(migrated_sqlite, file)
    damage(file)
    with pytest.raises((ConfigurationError, ServiceError), match="malformed"):
        row_count(Store.open(f"sqlite:///{file}"), Plan)
    file.write_bytes(b"no database" * 1000)
    with pytest.raises((ConfigurationError, ServiceError), match="not a database"):
        Store.open(f"sqlite:///{file}")


def test_a_full_disk_is_a_short_error_and_stores_nothing(sqlite_store: Store) -> None:
    """A limit on the file size makes writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        with pytest.raises(ServiceError, match=r"failed: .*: the disk is full|; the disk is full"):
            register_plan(sqlite_store, "stage", "1", {"much": "x" * 2_000_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert row_count(sqlite_store, Plan) == 0
    register_plan(sqlite_store, "stage", "1", {})
    assert row_count(sqlite_store, Plan) == 1
