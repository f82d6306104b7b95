"""A claim holds while its process sends heartbeats; on the same machine its end is seen at once."""

import os
import time
import warnings

import pytest
from sqlalchemy import Connection, update

from loupe.db.store import Claims, Store, claim_subject, drop_claims, process_id
from loupe.db.tables import Claim, Process
from tests.db.samples import hand_over_claims, row_count
from tests.separation import ended_place

CALL = "a call"


def test_a_subject_is_claimed_once_until_it_is_released(store: Store) -> None:
    ours = claim_subject(store, CALL)
    assert ours is not None
    assert claim_subject(store, CALL) is None, (
        "a claim also excludes other threads of the same process"
    )
    assert claim_subject(store, "another call") is not None
    drop_claims(store, ours)
    assert claim_subject(store, CALL) is not None


@pytest.mark.usefixtures("database_url")
def test_a_claim_of_a_silent_process_is_taken_over_after_its_lease(store: Store) -> None:
    claim_subject(store, CALL)
    hand_over_claims(store)
    assert claim_subject(store, CALL) is None
    store.claims.lease_seconds = 0
    assert claim_subject(store, CALL) is not None
    assert (row_count(store, Claim), row_count(store, Process)) == (1, 1)


def test_a_claim_of_a_dead_process_on_this_machine_is_taken_over_at_once(
    store: Store,
) -> None:
    first = claim_subject(store, CALL)
    hand_over_claims(store, ended_place())
    assert first is not None
    assert claim_subject(store, CALL) is not None
    with store.write() as connection:
        assert not store.claims.release(connection, first)
    assert claim_subject(store, CALL) is None


def test_a_lease_is_measured_on_the_clock_of_the_waiting_process(sqlite_store: Store) -> None:
    """SQLite has no clock, and the clocks of two processes may differ widely."""
    now = [1000.0]
    watching = Claims(sqlite_store.write, lease_seconds=60, clock=lambda: now[0])

    def is_taken() -> bool:
        with sqlite_store.write() as connection:
            return watching.is_taken(connection, "a call")

    claim_subject(sqlite_store, CALL)
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


def test_a_process_that_beats_while_it_is_dropped_keeps_its_claims(sqlite_store: Store) -> None:
    class Slow(Claims):
        def ended(self, connection: Connection) -> dict[str, int]:
            found = super().ended(connection)
            connection.execute(update(Process).values(beats=Process.beats + 1))
            return found

    claim_subject(sqlite_store, CALL)
    hand_over_claims(sqlite_store)
    for claims, left in ((Slow, 1), (Claims, 0)):
        with sqlite_store.write() as connection:
            claims(sqlite_store.write, lease_seconds=0).drop_ended(connection)
        assert row_count(sqlite_store, Claim) == left


def test_a_claim_that_was_given_up_counts_as_released(sqlite_store: Store) -> None:
    """It cannot be deleted now, as where the disk is full, and must not look alive for ever."""
    ours = claim_subject(sqlite_store, CALL)
    assert ours is not None

    def is_taken() -> bool:
        with sqlite_store.read() as connection:
            return sqlite_store.claims.is_taken(connection, CALL)

    assert is_taken()
    sqlite_store.claims.give_up(ours)
    assert not is_taken()
    assert row_count(sqlite_store, Claim) == 1
    sqlite_store.claims.delete_given_up()
    assert row_count(sqlite_store, Claim) == 0


def test_claims_are_renewed_during_a_slow_request(store: Store) -> None:
    store.claims.lease_seconds = 0.3
    other = Store(store.engine)  # as another process sees it
    other.claims.lease_seconds = 0.3
    with store.claims.renewed():
        claim_subject(store, CALL)
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
