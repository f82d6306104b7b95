"""Records per second of a stage in threads, in one worker process and in several.

    python -m benchmarks.worker_processes [--records 6000] [--rounds 3] [--workers 2]

The rewrites of a store are checked (`check_faithfulness`), each time in a copy of the store and in
a separate process. Methods alternate, and ratios are those of the medians. The start of the worker
processes is included. On a busy machine, more processes also get a larger share of it; the last
ratio is therefore computed from processor times only, assuming that one worker process is always
busy and that two processors share all work.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from benchmarks.measuring import run_apart
from loupe.db.entities import AgentRef, NewEntity, WorkResult, new_entity
from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import View, draw_pose
from loupe.demo.worlds.people import draw_person_attributes
from loupe.flows.engine.context import RunContext, open_context
from loupe.flows.engine.runner import Stage, run_stream
from loupe.flows.faithfulness import check_rewrites
from loupe.models.profiles.settings import load_settings
from loupe.schemas.limited import end_workers
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Granularity, Rewrite
from loupe.sources.chance import Chance

DATASET, AUTHORS = "bench", ("one@1", "two@1")
WANTED = 1.7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.home:
        print(json.dumps(measure(arguments.home)))
        return
    print(f"load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors", flush=True)
    methods = {
        "threads": 1,
        "processes, 1": 1,
        f"processes, {arguments.workers}": arguments.workers,
    }
    runs: dict[str, list[Times]] = {method: [] for method in methods}
    with tempfile.TemporaryDirectory() as folder:
        seeded = Path(folder) / "seeded"
        seed(open_context(load_settings(home=seeded)), arguments.records)
        for number in range(arguments.rounds):
            for method, workers in methods.items():
                home = Path(folder) / f"{number}-{method}"
                shutil.copytree(seeded, home)
                runs[method].append(in_process(home, method.partition(",")[0], workers))
                shutil.rmtree(home)
    print(f"load after: {os.getloadavg()[0]:.2f}")
    for method, taken in runs.items():
        speeds = [arguments.records / one.seconds for one in taken]
        spread = f"{min(speeds):,.0f} to {max(speeds):,.0f}"
        own, workers_own = (
            1e6 * median(values) / arguments.records
            for values in zip(*((one.own, one.workers) for one in taken), strict=True)
        )
        print(f"{method:<14}{median(speeds):>7,.0f} records/s  ({spread});", end="")
        print(f" processor time per record {own:,.0f} µs, of workers {workers_own:,.0f} µs")
    threads, one, more = (median(run.seconds for run in taken) for taken in runs.values())
    print(f"{arguments.workers} processes to one      {one / more:>6.2f}  (wanted: {WANTED})")
    print(f"{arguments.workers} processes to threads  {threads / more:>6.2f}")
    own = median(run.own for run in runs[f"processes, {arguments.workers}"])
    work = median(run.workers for run in runs["processes, 1"])
    print(f"2 to one, by processor time {2 * work / (own + work):>5.2f}")


class Times(NamedTuple):
    """Seconds of a stage, and processor times of the run, its workers and the whole machine."""

    seconds: float
    own: float
    workers: float
    machine: float


def in_process(home: Path, engine: str, workers: int) -> Times:
    variables = {"LOUPE_ENGINE": engine, "LOUPE_ENGINE_WORKERS": str(workers)}
    return Times(*run_apart("worker_processes", "--home", home, variables=variables))


def measure(home: Path) -> Times:
    context = open_context(load_settings(home=home))
    before = time.perf_counter(), time.process_time(), busy_seconds()
    check_rewrites(context, DATASET, FaithfulnessSettings(), AUTHORS)
    after = time.perf_counter(), time.process_time(), busy_seconds()
    seconds, own, machine = (end - start for start, end in zip(before, after, strict=True))
    end_workers()
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Times(seconds, own, workers.ru_utime + workers.ru_stime, machine)


def busy_seconds() -> float:
    """Busy seconds of all processors since the start of the machine."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0)


def seed(context: RunContext, records: int) -> None:
    """Store images of described people, each with a caption rewritten by two authors."""
    stage = Stage("seed", "1", DATASET, {}, agents=(AgentRef("software", "bench"),), workers=1)

    def work(numbers: Sequence[tuple[int, int]]) -> list[WorkResult]:
        return [WorkResult(number, tuple(rewritten(number))) for number, _ in numbers]

    images = records // len(AUTHORS)
    run_stream(context, stage, ((number, number) for number in range(images)), work)


def rewritten(number: int) -> Iterator[NewEntity]:
    """Yield a caption and, for each author, another description of the same person."""
    person = draw_person_attributes(Chance("bench", number))
    chance = Chance("bench", number, "said")
    pose = draw_pose(chance, chance.pick(tuple(View)))
    text, *others = (
        describe(person, pose, Granularity.FINE, who, chance) for who in range(1 + len(AUTHORS))
    )
    group = f"image {number}"
    caption = new_entity(Caption(source="bench", text=text, position=0), DATASET, group=group)
    yield caption
    for author, other in zip(AUTHORS, others, strict=True):
        record = Rewrite(source="bench", text=other, author=author)
        yield new_entity(record, DATASET, parents=[(Role.REWRITE_OF, caption.id)], group=group)


if __name__ == "__main__":
    main()
