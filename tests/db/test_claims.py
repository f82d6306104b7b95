"""A claim holds while its process sends heartbeats; on the same machine its end is seen at once."""

import os
import time
import warnings

import pytest

from db.store import Claims, Store, drop_claims, process_id
from db.tables import Claim, Process
from tests.db.samples import hand_over_claims, row_count
from tests.separation import ended_place


def take(store: Store, subject: str = "a call") -> str | None:
    with store.write() as connection:
        return store.claims.take(connection, subject)


def test_a_subject_is_claimed_once_until_it_is_released(store: Store) -> None:
    ours = take(store)
    assert ours is not None
    assert take(store) is None, "a claim also excludes other threads of the same process"
    assert take(store, "another call") is not None
    drop_claims(store, ours)
    assert take(store) is not None


@pytest.mark.usefixtures("database_url")
def test_a_claim_of_a_silent_process_is_taken_over_after_its_lease(store: Store) -> None:
    take(store)
    hand_over_claims(store)
    assert take(store) is None
    store.claims.lease_seconds = 0
    assert take(store) is not None
    assert (row_count(store, Claim), row_count(store, Process)) == (1, 1)


def test_a_claim_of_a_dead_process_on_this_machine_is_taken_over_at_once(
    store: Store,
) -> None:
    first = take(store)
    hand_over_claims(store, ended_place())
    assert first is not None
    assert take(store) is not None
    with store.write() as connection:
        assert not store.claims.release(connection, first)
    assert take(store) is None


def test_a_lease_is_measured_on_the_clock_of_the_waiting_process(sqlite_store: Store) -> None:
    """SQLite has no clock, and the clocks of two processes may differ widely."""
    now = [1000.0]
    watching = Claims(sqlite_store.write, lease_seconds=60, clock=lambda: now[0])

    def is_taken() -> bool:
        with sqlite_store.write() as connection:
            return watching.is_taken(connection, "a call")

    take(sqlite_store)
    hand_over_claims(sqlite_store)
    for seconds in (0, 59):
        now[0] = 1000.0 + seconds
        assert is_taken()
    with sqlite_store.write() as connection:
        connection.exec_driver_sql("UPDATE process SET beats = beats + 1 WHERE id LIKE 'another%'")
    now[0] += 59
    assert is_taken(), "a heartbeat was sent in the meantime"
    now[0] += 60
    assert not is_taken()


def test_claims_are_renewed_during_a_slow_request(store: Store) -> None:
    store.claims.lease_seconds = 0.3
    other = Store(store.engine)  # as another process sees it
    other.claims.lease_seconds = 0.3
    with store.claims.renewed():
        take(store)
        before = beats(store)
        time.sleep(0.5)
        assert beats(store) > before
    after = beats(store)
    time.sleep(0.2)
    assert beats(store) == after, "no heartbeats are sent outside of `renewed`"


def beats(store: Store) -> int:
    with store.read() as connection:
        query = f"SELECT beats FROM process WHERE id = '{process_id()}'"  # noqa: S608 our own id
        return int(connection.exec_driver_sql(query).scalar_one())


def test_a_forked_child_has_another_process_id() -> None:
    """Otherwise the child would renew its parent's claims and treat them as its own."""
    ours = process_id()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads may be running
        child = os.fork()
    if child == 0:
        os._exit(process_id() == ours)
    assert os.waitpid(child, 0)[1] == 0
