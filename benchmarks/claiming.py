"""Cost of looking for work, which must not depend on the number of finished inputs.

    python -m benchmarks.claiming [--finished 10000 100000 1000000]

A stage with many finished inputs looks for more, as the stage runner does: once without new
inputs, and once with a new input, which is claimed. Reported are the median milliseconds of
processor time per look, the part in which the database is locked for writing, and the first look,
which passes all finished inputs once without locking the database.
"""

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from sqlalchemy import Connection

from loupe.db.entities import ActivityRecord, pages
from loupe.db.store import Store, drop_claims, open_engine
from loupe.db.tables import Entity, Work, insert_new_text
from loupe.db.work import (
    Pending,
    claim_chunk,
    live_claims,
    low_water,
    register_plan,
    store_activity,
)

LIMIT_MS = 5.0
LOOKS = 200
DATASET, KIND = "finished", "caption"
INPUTS = Pending(DATASET, KIND, ("proposed",))


class WatchedStore(Store):
    """A store that counts the processor time during which it is locked for writing."""

    locked = 0.0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a write transaction and count its processor time."""
        with super().write() as connection:
            started = time.process_time()
            yield connection
        self.locked += time.process_time() - started


class Look(NamedTuple):
    """Milliseconds of a look in total and while the store is locked for writing."""

    all: float
    locked: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [10_000, 100_000, 1_000_000]
    parser.add_argument("--finished", type=int, nargs="+", default=sizes)
    finished: list[int] = parser.parse_args().finished
    print("milliseconds   first look   idle look (locked)   look with a claim (locked)")
    slowest = 0.0
    for count in finished:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'loupe.db'}"
            Store.open(url).close()
            first, idle, claim = measure(WatchedStore(open_engine(url)), count)
        print(
            f"{count:>12,} {first:>12,.1f} {idle.all:>11.2f} ({idle.locked:.2f})"
            f" {claim.all:>19.2f} ({claim.locked:.2f})"
        )
        slowest = max(slowest, idle.all)
    print(f"slowest idle look {slowest:.2f} ms  (wanted: below {LIMIT_MS:g})")


def measure(store: WatchedStore, finished: int) -> tuple[float, Look, Look]:
    """Milliseconds of the first look, and medians without and with an input to claim."""
    plan_id = register_plan(store, "measure", "1", {})
    fill(store, plan_id, finished)
    first = timed(store, plan_id).all
    idle = median_look(store, plan_id)
    with store.write() as connection:
        add_inputs(connection, [finished + 1])
    claim = median_look(store, plan_id)
    store.close()
    return first, idle, claim


def median_look(store: WatchedStore, plan_id: int) -> Look:
    looks = [timed(store, plan_id) for _ in range(LOOKS)]
    return Look(median(one.all for one in looks), median(one.locked for one in looks))


def timed(store: WatchedStore, plan_id: int) -> Look:
    store.locked = 0.0
    started = time.process_time()
    claim_id = look(store, plan_id)
    found = Look(1000 * (time.process_time() - started), 1000 * store.locked)
    if claim_id is not None:
        drop_claims(store, claim_id)
    return found


def look(store: Store, plan_id: int) -> str | None:
    """Look for the next chunk like `loupe.flows.engine.runner`; return the id of its claim."""
    live_claims(store, plan_id, DATASET)
    chunk = claim_chunk(store, plan_id, INPUTS, 200, low_water(store, plan_id, INPUTS))
    return chunk.claim_id if chunk else None


def fill(store: Store, plan_id: int, finished: int) -> None:
    """Insert finished inputs directly, because the stage runner would take hours."""
    record = ActivityRecord(plan_id, DATASET, "", "", datetime.now(UTC))
    with store.write() as connection:
        activity_id = store_activity(connection, record, ())
    for numbers in pages(range(1, finished + 1), 100_000):
        rows = [(plan_id, number, "done", activity_id) for number in numbers]
        with store.write() as connection:
            add_inputs(connection, numbers)
            insert_new_text(connection, Work, ("plan_id", "input", "status", "activity_id"), rows)


def add_inputs(connection: Connection, numbers: Iterable[int]) -> None:
    columns = ("seq", "id", "dataset", "kind", "state", "payload", "activity_id")
    rows = [(one, f"{one:032x}", DATASET, KIND, "proposed", "{}", 1) for one in numbers]
    insert_new_text(connection, Entity, columns, rows)


if __name__ == "__main__":
    main()
