"""How long `loupe explore` takes to open, and how much memory it needs.

    python -m benchmarks.explorer [--images 10000 100000]

The store is synthetic: images with three captions each, half of them with a rewrite, and vectors of
256 numbers in clusters. Measured are the reading of the store (fields, neighbours, Parquet file),
the start of LightlyStudio, which runs meanwhile, the loading into its database, and the first page
of the grid. Peaks are those of each process.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil

from benchmarks.measuring import peak_mib, run_apart
from loupe.db.embeddings import store_vectors
from loupe.db.entities import ActivityRecord, NewEntity, insert_derivations, new_entity, pages
from loupe.db.store import Store
from loupe.db.tables import Entity, insert_new_text
from loupe.db.work import register_plan, store_activity
from loupe.flows.engine.context import open_context
from loupe.flows.engine.embedding import CachedEmbedder
from loupe.flows.exploring.items import StoreItems
from loupe.flows.exploring.session import Session, folder_of
from loupe.models.profiles.settings import load_settings
from loupe.schemas.base import sha256_of
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite
from loupe.services.environments import ensure_environment, environments_root
from loupe.services.explorer import studio

DATASET = "explored"
DIMENSION = 256
CLUSTERS = 500


def entities_of(number: int) -> Iterator[NewEntity]:
    """Return an image with its texts."""
    image = new_entity(
        Image(
            source="synthetic",
            identity=str(number // 4),
            split="test" if number % 5 == 0 else "train",
            file_path=f"{number // 1000}/{number}.jpg",
            sha256=sha256_of(str(number).encode()),
            source_sha256=sha256_of(str(number).encode()),
            media_type="image/jpeg",
            width_px=128,
            height_px=256,
        ),
        DATASET,
    )
    yield image
    for place in range(3):
        text = f"Person {number} wears a jacket of shade {place} and walks in street {number % 97}."
        caption = new_entity(
            Caption(source="synthetic", text=text, position=place),
            DATASET,
            parents=[(Role.DESCRIBES, image.id)],
            group=image.id,
        )
        yield caption
        if number % 2:
            rewrite = Rewrite(source="synthetic", text=f"{text} Again.", author="model@1")
            parents = [(Role.REWRITE_OF, caption.id)]
            yield new_entity(rewrite, DATASET, parents=parents, group=image.id)


def fill(store: Store, count: int) -> None:
    """Store the images, their texts and their vectors."""
    plan = register_plan(store, "synthetic", "1", {})
    record = ActivityRecord(plan, DATASET, "", "benchmark", datetime.now(UTC))
    with store.write() as connection:
        activity = store_activity(connection, record, ())
    columns = ("id", "dataset", "kind", "split", "group_key", "state", "payload", "activity_id")
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(CLUSTERS, DIMENSION))
    space = CachedEmbedder(store, BuiltinEmbedder()).space("image")
    for page in pages(range(count)):
        made = [one for number in page for one in entities_of(number)]
        rows = [
            (one.id, one.dataset, one.kind, one.split, one.group, "proposed", one.payload, activity)
            for one in made
        ]
        with store.write() as connection:
            insert_new_text(connection, Entity, columns, rows)
            insert_derivations(connection, made)
        noise = generator.normal(scale=0.4, size=(len(page), DIMENSION))
        vectors = centres[generator.integers(CLUSTERS, size=len(page))] + noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        digests = [sha256_of(str(number).encode()) for number in page]
        store_vectors(store, space, digests, vectors.astype(np.float32))


def measure(home: Path) -> None:
    """Open the explorer once; print seconds and peaks as JSON."""
    context = open_context(load_settings(home=home))
    environment = ensure_environment("lightly-studio", environments_root())
    with closing(context.store):
        session = Session(
            context,
            StoreItems(context.store, context.blobs, DATASET),
            (),
            lambda _: "",
            lambda _, __: (False, ""),
        )
        started = time.perf_counter()
        with studio(environment, folder_of(home, DATASET), DATASET, 1) as running:
            images = session.write()
            read = time.perf_counter()
            running.wait_until_ready()
            ready = time.perf_counter()
            session.open(running)
            loaded = time.perf_counter()
            with running.client() as client:
                collections = client.get("/api/collections").raise_for_status().json()
                found = next(one for one in collections if one["name"] == DATASET)
                wanted = {"pagination": {"offset": 0, "limit": 100}}
                address = f"/api/collections/{found['collection_id']}/images/list"
                page = client.post(address, json=wanted).raise_for_status().json()
            shown = time.perf_counter()
            spent = sum(psutil.Process(running.process.pid).cpu_times()[:2])
            status = Path(f"/proc/{running.process.pid}/status").read_text(encoding="ascii")
            other = int(next(line for line in status.splitlines() if "VmHWM" in line).split()[1])
    print(
        json.dumps(
            {
                "images": images,
                "in page": len(page["data"]),
                "read": read - started,
                "wait": ready - read,
                "load": loaded - ready,
                "page": shown - loaded,
                "all": shown - started,
                "processor": time.process_time() + spent,
                "peak": peak_mib(),
                "studio peak": other / 1024,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    for count in arguments.images:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "home"
            home.mkdir()
            with closing(Store.open(f"sqlite:///{home / 'loupe.db'}", home)) as store:
                fill(store, count)
            found = run_apart("explorer", "--measure", home)
        seconds = ", ".join(
            f"{name} {found[name]:.1f}" for name in ("read", "wait", "load", "page")
        )
        print(
            f"{found['images']:,} images open in {found['all']:.1f} s ({seconds}), "
            f"{found['processor']:.1f} s of processor time; memory peaks "
            f"{found['peak']:,.0f} MiB, of LightlyStudio {found['studio peak']:,.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
