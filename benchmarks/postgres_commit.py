"""Commits on PostgreSQL compared with COPY of the same rows into the same tables.

    python -m benchmarks.postgres_commit [--records 20000]

Chunks of copied records are committed as the stage runner does: entities, links to their parents,
work rows and one activity per chunk, in one transaction per chunk. COPY receives prepared rows of
the three tables with known numbers of children and parents; indexes and foreign keys are in place.
Reported is the ratio of speeds over alternating chunks, on a private server.
"""

import argparse
import time
from datetime import UTC, datetime

import psycopg

from benchmarks.stage_runner import caption
from loupe.db.entities import ActivityRecord, NewEntity, WorkResult, fetch, new_entity, pages
from loupe.db.store import Store
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from tests.postgres import postgres_programs, private_postgres

CHUNK = 1000
FIRST_OF_COPY = 10**9
TABLES = {
    "entity": "seq, id, dataset, kind, state, payload, activity_id",
    "work": "plan_id, input, status, activity_id",
    "derivation": "child_seq, role, parent_seq",
}
WANTED = 0.4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    count: int = parser.parse_args().records
    programs = postgres_programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed: apt-get install postgresql")
    with private_postgres(programs) as server:
        url = server.url(server.create_database())
        committed, copied = measure(url, count)
    print(f"committed with provenance   {count / committed:>8,.0f} records/s")
    print(f"COPY into the same tables   {count / copied:>8,.0f} records/s")
    print(f"  ratio                     {copied / committed:>8.2f}  (wanted: {WANTED:g})")


def measure(url: str, count: int) -> tuple[float, float]:
    """Seconds to commit `count` records, and to copy them."""
    store = Store.open(url)
    plan_id, copy_plan = (register_plan(store, name, "1", {}) for name in ("commit", "copy"))
    activity = ActivityRecord(plan_id, "bench", "", "", datetime.now(UTC))
    committed = copied = 0.0
    with psycopg.connect(url) as connection:
        for numbers in pages(range(count), CHUNK):
            sources = [caption(number) for number in numbers]
            commit_chunk(store, activity, [WorkResult(-1 - numbers[0], tuple(sources))])
            seqs = {one.id: one.seq for one in fetch(store, [one.id for one in sources]).values()}
            results = [
                WorkResult(number, (child(one, "committed"),))
                for number, one in zip(numbers, sources, strict=True)
            ]
            started = time.perf_counter()
            commit_chunk(store, activity, results)
            committed += time.perf_counter() - started
            children = [child(one, "copied") for one in sources]
            started = time.perf_counter()
            copy(connection, copy_plan, numbers, children, seqs)
            copied += time.perf_counter() - started
    store.close()
    return committed, copied


def child(source: NewEntity, dataset: str) -> NewEntity:
    record = Caption.model_validate_json(source.payload)
    return new_entity(record, dataset, parents=[(Role.SAMPLED_FROM, source.id)])


def copy(
    connection: psycopg.Connection,
    plan_id: int,
    numbers: list[int],
    children: list[NewEntity],
    seqs: dict[str, int],
) -> None:
    """Copy entities, their work rows and derivations in one transaction."""
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    for number, one in zip(numbers, children, strict=True):
        seq, ((role, parent),) = FIRST_OF_COPY + number, one.parents
        entity = (seq, one.id, one.dataset, one.kind, "proposed", one.payload, 1)
        rows["entity"].append(entity)
        rows["work"].append((plan_id, number, "done", 1))
        rows["derivation"].append((seq, role, seqs[parent]))
    with connection.cursor() as cursor:
        for table, columns in TABLES.items():
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copying:
                for row in rows[table]:
                    copying.write_row(row)
    connection.commit()


if __name__ == "__main__":
    main()
