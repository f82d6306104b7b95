"""Shards compared with single records: equal results, processing time and bytes in the store.

    python -m benchmarks.shards [--captions 20000] [--same 2000]

Imports captions of drawn people, two per image, into shards and rewrites them with a built-in
model; `--same` captions are also imported and rewritten record by record, and compared. The bytes
of the ledger are measured with shards of one record, as they do not depend on the size of a shard.
"""

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from db.entities import find
from flows.engine.context import RunContext, open_context
from flows.engine.importing import import_source
from flows.shards.files import RECORDS, RecordResult, computed_shards, imported_shards, read_shard
from flows.shards.steps import import_shards, rewrite_shards
from flows.ufine3c.faithfulness import check_rewrites
from flows.ufine3c.rewriting import rewrite_captions
from models.profiles.loader import load_profile
from models.profiles.settings import load_settings
from schemas.build import SourceSpec
from schemas.profile import Profile
from schemas.records import Granularity
from tests.flows.worlds import write_people

NAME = "people"
CAPTIONS = 2
MILLION = 1_000_000
WANTED_BYTES = 1_000_000
KINDS = ("image", "caption", "rewrite", "faithfulness")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=int, default=20_000)
    parser.add_argument("--same", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        print_ledger(root / "ledger")
        compare_results(root / "same", arguments.same)
        print_speed(root / "speed", arguments.captions)


def open_home(home: Path) -> RunContext:
    return open_context(load_settings(home=home))


def profile() -> Profile:
    """Profile of built-in models with a single rewriter."""
    builtin = load_profile("builtin")
    one = builtin.rewrite.model_copy(update={"models": builtin.rewrite.models[:1]})
    return builtin.model_copy(update={"rewrite": one})


def source(folder: Path, captions: int) -> SourceSpec:
    people = write_people(
        folder / "people",
        Granularity.FINE,
        identities=captions // (2 * CAPTIONS),
        images=2,
        captions=CAPTIONS,
    )
    return SourceSpec(
        name=NAME,
        format="cuhk-pedes",
        annotations=people,
        images=people.parent,
        licence="CC0-1.0",
        citation="none",
    )


def print_ledger(folder: Path) -> None:
    shards = 200
    context = open_home(folder / "home")
    before = store_bytes(folder / "home")
    import_shards(context, source(folder, shards * CAPTIONS), size=1)
    rewrite_shards(context, NAME, profile())
    each = (store_bytes(folder / "home") - before) / shards
    million = each * MILLION / (RECORDS * CAPTIONS)
    print(f"ledger per shard, imported and rewritten   {each:>10,.0f} bytes")
    print(f"  of a million captions                    {million:>10,.0f}  (below {WANTED_BYTES:,})")
    million *= CAPTIONS
    print(f"  with one caption per record              {million:>10,.0f}")


def store_bytes(home: Path) -> int:
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("VACUUM")
    return (home / "loupe.db").stat().st_size


def compare_results(folder: Path, captions: int) -> None:
    spec, chosen = source(folder, captions), profile()
    context = open_home(folder / "items")
    before = store_bytes(folder / "items")
    started = time.process_time()
    import_source(context, spec)
    (model,) = chosen.rewrite.models
    rewrite_captions(context, NAME, model, chosen.rewrite)
    check_rewrites(context, NAME, chosen.faithfulness, [str(model.ref)])
    each = 1000 * (time.process_time() - started) / captions
    stored = {one.id for kind in KINDS for one in find(context.store, NAME, kind)}
    size = (store_bytes(folder / "items") - before) * MILLION / captions
    print(f"record by record, a million captions       {size:>10,.0f} bytes in the store")
    print(f"  the run's processor time                 {each:>10.2f} ms per caption")

    context = open_home(folder / "shards")
    import_shards(context, spec, captions // 4)
    rewrite_shards(context, NAME, chosen)
    found = {
        entity.id
        for imported in imported_shards(context.store, NAME)
        for shard in (imported, *computed_shards(context.store, imported))
        for row in read_shard(context.blobs, shard)
        for entity in RecordResult.of(row).entities
    }
    print(
        f"entities of {captions:,} captions {'equal' if found == stored else 'DIFFERENT'}: "
        f"{len(found):,}"
    )


def print_speed(folder: Path, captions: int) -> None:
    spec = source(folder, captions)
    context = open_home(folder / "home")
    timed("import", captions, partial(import_shards, context, spec))
    timed("rewrite and check", captions, partial(rewrite_shards, context, NAME, profile()))
    files = list((folder / "home" / "blobs" / "shards").rglob("*.parquet"))
    size = sum(one.stat().st_size for one in files) / captions
    print(f"{len(files)} shards, {size:,.0f} bytes per caption")


def timed(name: str, captions: int, step: Callable[[], object]) -> None:
    started, used = time.perf_counter(), time.process_time()
    step()
    seconds = time.perf_counter() - started
    each = 1e6 * (time.process_time() - used) / captions
    hours = seconds * MILLION / captions / 3600
    print(f"{name:<18} {captions:,} captions in {seconds:,.0f} s; a million in {hours:.2f} h")
    print(f"  the run's processor time                 {each:>10,.0f} µs per caption")


if __name__ == "__main__":
    main()
