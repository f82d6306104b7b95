"""Shards compared with single records: equal results, processing time, memory, bytes in the store.

    python -m benchmarks.shards [--captions 1000000] [--rewritten 20000] [--same 10000]
        [--no-ledger]
    python -m benchmarks.shards --rewrite 1000000

`--captions` captions, four per image, are imported into shards and their images compared; one image
of a hundred is a re-encoded copy. Of a smaller source, `--rewritten` captions are also rewritten by
a built-in model and checked, and the images embedded. `--same` captions go through all steps twice,
in shards and record by record, and the results are compared. `--rewrite` does nothing but import so
many captions, rewrite and check them. Images are drawn at random; captions repeat 20,000
descriptions with a number added.
"""

import argparse
import io
import json
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from PIL import Image as Pictures

from loupe.db.entities import find
from loupe.db.quarantine import quarantine_counts
from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import View, draw_pose
from loupe.demo.worlds.people import draw_person_attributes
from loupe.flows.engine.contamination import fingerprint_images, fingerprints_of
from loupe.flows.engine.context import RunContext, open_context
from loupe.flows.engine.embedding import CachedEmbedder, stored_image
from loupe.flows.engine.importing import import_source
from loupe.flows.faithfulness import check_rewrites
from loupe.flows.rewriting import plan_rewriting, rewrite_captions
from loupe.flows.shards.files import (
    RecordResult,
    ShardRow,
    computed_shards,
    imported_shards,
    read_shard,
)
from loupe.flows.shards.steps import (
    embed_shards,
    find_shard_duplicates,
    import_shards,
    rewrite_shards,
)
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import load_settings
from loupe.retrieval.similarity.near_duplicates import find_near_duplicates
from loupe.schemas.build import SourceSpec
from loupe.schemas.profile import Profile
from loupe.schemas.records import Granularity, Image
from loupe.sources.chance import Chance

NAME = "people"
CAPTIONS = 4
DESCRIPTIONS = 20_000
COPIES = 100
MILLION = 1_000_000
WANTED_BYTES = 1_000_000
KINDS = ("image", "caption", "rewrite", "faithfulness", "image_fingerprint")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=int, default=MILLION)
    parser.add_argument("--rewritten", type=int, default=20_000)
    parser.add_argument("--same", type=int, default=10_000)
    parser.add_argument("--ledger", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rewrite", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if arguments.rewrite:
            measure(root, arguments.rewrite, ("rewrite",))
            return
        if arguments.same:
            compare_results(root / "same", arguments.same)
        if arguments.ledger:
            print_ledger(root / "ledger")
        if arguments.rewritten:
            measure(root / "rewritten", arguments.rewritten, ("rewrite", "embed", "compare"))
        if arguments.captions:
            measure(root / "all", arguments.captions, ("compare",))


def profile() -> Profile:
    """Profile of built-in models with a single rewriter."""
    builtin = load_profile("builtin")
    one = builtin.rewrite.model_copy(update={"models": builtin.rewrite.models[:1]})
    return builtin.model_copy(update={"rewrite": one})


def source(folder: Path, captions: int) -> SourceSpec:
    """Write images of random patches, and an annotation file with captions of people."""
    images = folder / "images"
    images.mkdir(parents=True)
    texts = list(map(description, range(min(captions, DESCRIPTIONS))))
    with (folder / "people.json").open("w") as file:
        for number in range(captions // CAPTIONS):
            name = f"{number:07d}.jpg"
            (images / name).write_bytes(picture(number))
            first = number * CAPTIONS
            said = [f"{texts[at % len(texts)]} {at}." for at in range(first, first + CAPTIONS)]
            row = {"id": 1 + number // 2, "split": "test", "file_path": name, "captions": said}
            file.write(("," if number else "[") + json.dumps(row))
        file.write("]")
    return SourceSpec(
        name=NAME,
        format="cuhk-pedes",
        annotations=folder / "people.json",
        images=images,
        licence="CC0-1.0",
        citation="none",
    )


def description(number: int) -> str:
    chance = Chance("shards", number)
    person = draw_person_attributes(chance)
    pose = draw_pose(chance, chance.pick(tuple(View)))
    return describe(person, pose, Granularity.FINE, 0, chance)


def picture(number: int) -> bytes:
    """An image of random patches; one of a hundred is an earlier one in lower quality."""
    is_copy = number % COPIES == COPIES - 1
    random = np.random.default_rng(number - 1 if is_copy else number)
    patches = Pictures.fromarray(random.integers(0, 256, (12, 6, 3), dtype=np.uint8))
    file = io.BytesIO()
    patches.resize((24, 48), Pictures.Resampling.BICUBIC).save(
        file, "JPEG", quality=85 if is_copy else 95
    )
    return file.getvalue()


def open_home(home: Path) -> RunContext:
    return open_context(load_settings(home=home))


def store_bytes(home: Path) -> int:
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("VACUUM")
    return (home / "loupe.db").stat().st_size


def compare_results(folder: Path, captions: int) -> None:
    """Compare the results of all steps in shards with those of single records."""
    spec, chosen = source(folder / "source", captions), profile()
    items, shards = open_home(folder / "items"), open_home(folder / "shards")
    before = store_bytes(folder / "items")
    started = time.process_time()
    import_source(items, spec)
    (model,) = chosen.rewrite.models
    rewrite_captions(items, plan_rewriting(NAME, model, chosen.rewrite), chosen.rewrite)
    check_rewrites(items, NAME, chosen.faithfulness, [str(model.ref)])
    each = 1000 * (time.process_time() - started) / captions
    size = (store_bytes(folder / "items") - before) * MILLION / captions
    print(f"record by record, a million captions       {size:>10,.0f} bytes in the store")
    print(f"  the run's processor time                 {each:>10.2f} ms per caption", flush=True)
    fingerprint_images(items, NAME)
    images = list(find(items.store, NAME, Image.kind))
    embedder = CachedEmbedder(items.store, chosen.captioning.embedder)
    vectors = embedder.embed_images([stored_image(items.blobs, one) for one in images])
    kept = find_near_duplicates(
        fingerprints_of(items.store, [one.id for one in images]),
        chosen.captioning.near_duplicates,
        embeddings=vectors,
    )
    stored = {one.id for kind in KINDS for one in find(items.store, NAME, kind)}
    refused = Counter[str]()
    for one in quarantine_counts(items.store, NAME):
        refused[one.reason] += one.inputs

    import_shards(shards, spec, captions // (4 * CAPTIONS))
    rewrite_shards(shards, NAME, chosen)
    embed_shards(shards, NAME, chosen.captioning.embedder)
    report = find_shard_duplicates(shards, NAME, chosen.captioning.near_duplicates)
    rows = list(all_rows(shards))
    results = [(step, RecordResult.of(row)) for step, row in rows]
    found = {entity.id for _, result in results for entity in result.entities}
    reasons = Counter(one.reason for _, result in results for one in result.rejections)
    names = {row.number: row.image for _, row in rows if row.image}
    dropped = {
        names[row.number]
        for step, row in rows
        if step == "near_duplicates" and RecordResult.of(row).rejections
    }
    embedded = {names[row.number]: row.vector for _, row in rows if row.vector}
    refused["near_duplicate"] = len(dropped)
    for name, is_same in {
        f"{len(found):,} entities": found == stored,
        f"{sum(refused.values()):,} rejections": reasons == +refused,
        f"{len(images):,} embeddings": embedded
        == {one.id: vector.tobytes() for one, vector in zip(images, vectors, strict=True)},
        f"{len(dropped):,} near-duplicates": report == kept.report
        and dropped == {one.id for one in images} - set(kept.kept),
    }.items():
        print(f"{name} of {captions:,} captions {'equal' if is_same else 'DIFFERENT'}", flush=True)


def all_rows(context: RunContext) -> Iterator[tuple[str | None, ShardRow]]:
    """Yield the step and each row of all shards."""
    for imported in imported_shards(context.store, NAME):
        for shard in (imported, *computed_shards(context.store, imported)):
            yield from ((shard.group, row) for row in read_shard(context.blobs, shard))


def measure(folder: Path, captions: int, steps: Collection[str]) -> None:
    """Print time and memory of the import and of `steps` of one source, and the bytes they take."""
    spec, chosen, home = source(folder / "source", captions), profile(), folder / "home"
    context = open_home(home)
    before = store_bytes(home)
    timed("import", captions, partial(import_shards, context, spec))
    if "rewrite" in steps:
        timed("rewrite and check", captions, partial(rewrite_shards, context, NAME, chosen))
    if "embed" in steps:
        embed = partial(embed_shards, context, NAME, chosen.captioning.embedder)
        timed("embed", captions, embed)
    if "compare" in steps:
        settings = chosen.captioning.near_duplicates
        timed("near-duplicates", captions, partial(find_shard_duplicates, context, NAME, settings))
    shards = list((home / "blobs" / "shards").rglob("*.parquet"))
    size = sum(one.stat().st_size for one in shards)
    stored = store_bytes(home) - before
    print(
        f"{len(shards):,} shards, {size / captions:,.0f} bytes per caption; "
        f"{stored:,.0f} bytes in the store, {stored * MILLION / captions:,.0f} a million captions",
        flush=True,
    )


def print_ledger(folder: Path) -> None:
    """Print the bytes of the store for a shard; its number of records makes no difference."""
    shards, home = 200, folder / "home"
    context, chosen = open_home(home), profile()
    before = store_bytes(home)
    import_shards(context, source(folder / "source", shards * CAPTIONS), size=1)
    rewrite_shards(context, NAME, chosen)
    embed_shards(context, NAME, chosen.captioning.embedder)
    find_shard_duplicates(context, NAME, chosen.captioning.near_duplicates)
    each = (store_bytes(home) - before) / shards
    print(f"10,000 records through all five steps take {each:,.0f} bytes in the store;")
    print(f"  a million {100 * each:,.0f} (below {WANTED_BYTES:,})", flush=True)


def timed(name: str, captions: int, step: Callable[[], object]) -> None:
    """Print the time of a step with its worker processes, and the peak of the run's own memory."""
    started = time.perf_counter()
    with sampled() as samples:
        step()
    seconds = time.perf_counter() - started
    used = sum(last - first for first, last in samples.processors.values())
    memory = samples.memory
    print(
        f"{name:<18} {captions:,} captions: {used:,.0f} processor s, {seconds:,.0f} s; "
        f"{1e6 * used / captions:,.0f} µs each; {max(memory):,.0f} MiB, before {memory[0]:,.0f}; "
        f"{max(samples.workers):,.0f} MiB in a worker",
        flush=True,
    )


def mebibytes(process: psutil.Process) -> float:
    """Return the memory of a process without pages of files; 0 if it has ended."""
    with suppress(OSError, StopIteration):
        status = Path(f"/proc/{process.pid}/status").read_text()
        return next(int(one.split()[1]) for one in status.splitlines() if "RssAnon" in one) / 1024
    return 0.0


class Samples(NamedTuple):
    """Memory and processor time of this process, and the times of its worker processes.

    Attributes:
        memory: MiB without pages of files, which can be freed.
        workers: the same of the largest worker process.
        processors: the first and the last number of seconds that each process had used.
    """

    memory: list[float]
    workers: list[float]
    processors: dict[int, tuple[float, float]]

    def add(self) -> None:
        """Add a sample."""
        own = psutil.Process()
        children = own.children(recursive=True)
        self.memory.append(mebibytes(own))
        self.workers.append(max(map(mebibytes, children), default=0))
        for one in (own, *children):
            with suppress(psutil.Error):
                times = one.cpu_times()
                now = times.user + times.system
                first, _ = self.processors.get(one.pid, (now if len(self.memory) == 1 else 0.0, 0))
                self.processors[one.pid] = first, now


@contextmanager
def sampled() -> Iterator[Samples]:
    """Take samples while the block runs."""
    samples, stop = Samples([], [], {}), threading.Event()
    samples.add()

    def sample() -> None:
        while not stop.wait(0.2):
            samples.add()

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
        samples.add()


if __name__ == "__main__":
    main()
