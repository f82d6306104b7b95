"""Overhead of Ray: time of chunks of about a second in its actors and in local processes.

    python -m benchmarks.ray_engine [--chunks 16] [--rounds 5] [--workers 2]

Each chunk has 200 records of half a kilobyte, whose digests are computed for a second. Both engines
are open and their workers warm; rounds alternate, and the ratio is that of the medians.
"""

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median

from loupe.db.entities import StoredEntity, WorkResult, find, new_entity
from loupe.flows.engine.context import RunContext, open_context
from loupe.flows.engine.engines import Engine, open_engine
from loupe.flows.engine.programs import Program
from loupe.flows.engine.runner import Stage, run_each
from loupe.models.profiles.settings import load_settings
from loupe.schemas.records import Caption, Rejection

WANTED = 1.05
RECORDS = 200
DATASET = "bench"


@dataclass(frozen=True)
class Digests(Program[StoredEntity]):
    """Computes the digest of each caption many times."""

    stage = "bench"
    seconds = 0.005

    turns: int

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        """Compute the digests of all captions."""
        return [self._result(one) for one in items]

    def _result(self, one: StoredEntity) -> WorkResult:
        digest = one.payload.encode()
        for _ in range(self.turns):
            digest = hashlib.sha256(digest * 8).digest()
        return WorkResult(
            one.seq, rejection=Rejection(stage="bench", reason=digest.hex(), detail="")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    importable = import_module("benchmarks.ray_engine")  # workers cannot import `__main__`
    taken: dict[str, list[float]] = {"processes": [], "ray": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        context = open_context(load_settings(home=Path(folder)))
        captions = stored_captions(context)
        program: Digests = importable.Digests(turns_of_a_second(captions[:10]) // RECORDS)
        numbers = [one.seq for one in captions]
        engines = {}
        print(f"load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors", flush=True)
        for way in taken:
            settings = load_settings(
                home=Path(folder), engine=way, engine_workers=arguments.workers
            )
            engines[way] = opened.enter_context(
                open_engine(settings, program, RECORDS, context.store)
            )
            started = time.perf_counter()
            work(engines[way], numbers, arguments.workers)
            print(f"{way:<10} first chunks {time.perf_counter() - started:.2f} s", flush=True)
        for _ in range(arguments.rounds):
            for way, engine in engines.items():
                started = time.perf_counter()
                work(engine, numbers, arguments.chunks)
                taken[way].append(time.perf_counter() - started)
    print(f"load after: {os.getloadavg()[0]:.2f}")
    for way, times in taken.items():
        chunk = arguments.workers / arguments.chunks
        spread = f"{min(times) * chunk:.3f} to {max(times) * chunk:.3f}"
        print(f"{way:<10} {median(times) * chunk:.3f} s per chunk  ({spread})")
    ratio = median(taken["ray"]) / median(taken["processes"])
    print(f"ray to processes {ratio:.3f}  (wanted: {WANTED})")


def stored_captions(context: RunContext) -> list[StoredEntity]:
    """Store the captions of a chunk and return them."""

    def stored(number: int, text: str) -> WorkResult:
        caption = Caption(source="bench", text=text, position=number)
        return WorkResult(number, entities=(new_entity(caption, DATASET),))

    texts = [(number, "said of them " * 40) for number in range(RECORDS)]
    run_each(context, Stage("seed", "1", DATASET, {}), texts, stored)
    return list(find(context.store, DATASET, Caption.kind))


def work(engine: Engine, numbers: Sequence[int], chunks: int) -> None:
    """Process `chunks` chunks, on enough threads to keep the engine busy."""
    with ThreadPoolExecutor(engine.threads) as threads:
        list(threads.map(engine.work, [numbers] * chunks))


def turns_of_a_second(captions: Sequence[StoredEntity]) -> int:
    """Number of digests computed in a second of processor time."""
    program, started = Digests(2000), time.process_time()
    program.work(captions)
    return int(program.turns * len(captions) / (time.process_time() - started))


if __name__ == "__main__":
    main()
