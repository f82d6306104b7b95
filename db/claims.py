"""Claims on work under way, so that concurrent runs do not repeat work or pay for it twice.

A claim is on a subject (a model call, a plan's work on a dataset) or on a range of numbers within
one. It belongs to a process, which has a random id and a heartbeat in the store. A claim ends with
the heartbeat of its process, or as soon as the process is known to have died (`schemas.processes`).

The clocks of two machines are never compared. On PostgreSQL, the server's clock gives the age of a
heartbeat. SQLite has no clock of its own (its `now` is the caller's): a heartbeat has ended if it
did not change during one lease on the monotonic clock of the process that waits for it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from uuid import uuid4

from sqlalchemy import Connection, delete, func, null, select

from db.engine import insert_into
from db.tables.work import Claim, Process
from schemas.errors import ServiceError
from schemas.processes import is_process_dead, own_place

_log = logging.getLogger(__name__)
LEASE_SECONDS = 60.0
"""How long the claims of a process outlive its last heartbeat."""
_BEATS_A_LEASE = 6


def process_id() -> str:
    """Return the random id of this process as the owner of claims; a forked child gets another."""
    return _random_id(os.getpid())


@cache
def _random_id(_pid: int) -> str:
    return uuid4().hex


class Claims:
    """The claims of one store: this process's own and those of others.

    Methods that take a connection take part in its transaction. Thread-safe.
    """

    def __init__(
        self,
        write: Callable[[], AbstractContextManager[Connection]],
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._write = write
        self._clock = clock
        self._renewals = 0  # number of nested `renewed` blocks
        self._changing = threading.Lock()
        self._stop = threading.Event()
        self._renewal: threading.Thread | None = None
        self._last_beats: dict[
            str, tuple[int, float]
        ] = {}  # for each process: beats, and since when

    def take(
        self, connection: Connection, subject: str, lower: int = 0, upper: int = 0
    ) -> str | None:
        """Claim a subject, or numbers from `lower` to `upper` in it; return the claim's id.

        Returns None if there is a claim on the subject that begins at `lower`, also one of another
        thread of this process.
        """
        self.beat(connection)
        claim_id = uuid4().hex
        values = {
            "id": claim_id,
            "subject": subject,
            "lower": lower,
            "upper": upper,
            "process_id": process_id(),
        }
        new = insert_into(connection, Claim).on_conflict_do_nothing().returning(Claim.id)
        if connection.execute(new, values).first() is None:
            self.drop_ended(connection)
            if connection.execute(new, values).first() is None:
                return None
        return claim_id

    def release(self, connection: Connection, claim_id: str) -> bool:
        """Release a claim; return False if another process has taken it over."""
        gone = connection.execute(delete(Claim).where(Claim.id == claim_id))
        return gone.rowcount == 1

    def is_taken(self, connection: Connection, subject: str) -> bool:
        """Return whether there is a claim on the subject or a part of it; writes nothing."""
        is_live = Claim.process_id.not_in([*self.ended(connection)])
        query = select(Claim.id).where(Claim.subject == subject, is_live)
        return connection.execute(query.limit(1)).first() is not None

    def beat(self, connection: Connection) -> None:
        """Renew all claims of this process; call it well within `lease_seconds`."""
        row = {"id": process_id(), "place": own_place(), "beats": 0, "beat_at": func.now()}
        connection.execute(
            insert_into(connection, Process)
            .values(row)
            .on_conflict_do_update(
                index_elements=[Process.id],
                set_={"beats": Process.beats + 1, "beat_at": func.now()},
            )
        )

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew this process's claims from a thread while the block runs; blocks may be nested."""
        with self._changing:
            self._renewals += 1
            if self._renewals == 1:
                self._stop.clear()
                self._renewal = threading.Thread(target=self._keep_beating, daemon=True)
                self._renewal.start()
        try:
            yield
        finally:
            with self._changing:
                self._renewals -= 1
                if self._renewals == 0 and self._renewal is not None:
                    self._stop.set()
                    self._renewal.join()

    def _keep_beating(self) -> None:
        while not self._stop.wait(self.lease_seconds / _BEATS_A_LEASE):
            try:
                with self._write() as connection:
                    self.beat(connection)
            except ServiceError as error:
                _log.warning("claims are not renewed: %s", error)  # the next attempt may succeed

    def drop_ended(self, connection: Connection) -> None:
        """Delete the processes that died or have no heartbeat any more, with their claims."""
        for id_, beats in self.ended(connection).items():
            # Claims are deleted with their process. A process with a heartbeat since then stays.
            same = (Process.id == id_, Process.beats == beats)
            connection.execute(delete(Process).where(*same))

    def ended(self, connection: Connection) -> dict[str, int]:
        """Return the processes that died or have no heartbeat any more, by id, with their beats."""
        has_clock = connection.dialect.name == "postgresql"
        # While the server was down, no heartbeat could be stored.
        heard_at = func.greatest(Process.beat_at, func.pg_postmaster_start_time())
        age = func.extract("epoch", func.now() - heard_at) if has_clock else null()
        query = select(Process.id, Process.place, Process.beats, age).order_by(Process.id)
        others = connection.execute(query.where(Process.id != process_id())).all()
        found: dict[str, int] = {}
        for id_, place, beats, seconds in others:
            silent = self._seconds_unchanged(id_, beats) if seconds is None else float(seconds)
            if silent >= self.lease_seconds or is_process_dead(place):
                found[id_] = beats
        return found

    def _seconds_unchanged(self, id_: str, beats: int) -> float:
        """Return for how many seconds this process has seen no change of that heartbeat."""
        now = self._clock()
        counted, since = self._last_beats.get(id_, (None, now))
        if counted != beats:
            since = now
        self._last_beats[id_] = (beats, since)
        return now - since


def pauses() -> Iterator[float]:
    """Yield the seconds to wait for another process's claim, from 0.01 up to 1."""
    seconds = 0.01
    while True:
        yield seconds
        seconds = min(2 * seconds, 1.0)
