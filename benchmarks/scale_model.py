"""Simulated duration of builds on 1 to 1,000 nodes, and its deviation from real runs.

    python -m benchmarks.scale_model            # predictions and real runs
    python -m benchmarks.scale_model --tables   # the tables and the plot of docs/scale.md

A stage is simulated chunk by chunk. Its run prepares and commits chunks sequentially on one
processor; workers process them, at most two chunks each. Nodes are lost and replaced, and some are
slow. A *partition* is a run with a share of the inputs and its own store and workers.
Real runs use the faithfulness check: in one and two processes, and on two nodes of Ray. Constants
are processor times of smaller runs. The processor time of other programs, including Ray's own
processes, is measured meanwhile and passed to the simulation.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from importlib import import_module
from math import ceil
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

import simpy

from benchmarks import worker_processes
from loupe.flows.engine.context import open_context
from loupe.flows.engine.engines import open_engine
from loupe.flows.faithfulness import RewriteChecks
from loupe.models.profiles.settings import load_settings
from loupe.schemas.profile import FaithfulnessSettings
from tests.flows.ray_cluster import ray_cluster

HOUR = 3600.0
_Events = Generator[simpy.Event, Any, None]
_Counting = Generator[simpy.Event, Any, int]
_SLICE = 0.01  # seconds of a time slice on a processor
_PARTS = 20_000  # parts of a stage; chunks of one part are simulated together


@dataclass(frozen=True)
class Stage:
    """Cost of a stage in seconds of processor (or GPU) time per record."""

    name: str
    records: int
    run: float
    """In the run, for preparing, claiming and committing."""
    work: float
    """In a worker, on a GPU if `gpus` is not 0."""
    gpus: int = 0
    chunk: int = 200
    stored: int = 1_000
    """Bytes in the database and in files per record."""

    @property
    def size(self) -> int:
        """Records per chunk as in the stage runner; chunks of one record do not grow."""
        return self.chunk if self.chunk == 1 else max(self.chunk, min(self.records // 1000, 2000))


@dataclass(frozen=True)
class Cluster:
    """Nodes and workers that run a stage; times in seconds."""

    nodes: int = 1
    workers: int = 8
    """Workers on each node."""
    partitions: int = 1
    start: float = 0.0
    """Processor time before a worker takes its first chunk."""
    trip: float = 0.0
    """Transfer time of a chunk."""
    losses: float = 0.01
    """Share of nodes lost per hour."""
    noticed: float = 5.0
    replaced: float = 300.0
    slow: float = 0.02
    """Share of nodes that take `slowness` times as long."""
    slowness: float = 3.0
    processors: int | None = None
    """Processors shared by the run, its workers and other programs; None: one for each."""
    others: float = 0.0
    """Processors used by other programs."""


class Outcome(NamedTuple):
    """Duration of a stage, busy shares of the runs and the workers, and lost nodes."""

    seconds: float
    run: float
    workers: float
    lost: int


@dataclass
class _Node:
    slowness: float
    lost_at: float


@dataclass
class _Run:
    """A partition: remaining chunks, its processor and its idle workers."""

    left: int
    turn: simpy.Resource
    idle: simpy.Store
    workers: int = 0
    busy: float = 0.0


class Simulation:
    """Simulation of a stage on a cluster."""

    def __init__(self, stage: Stage, cluster: Cluster, seed: int = 0) -> None:
        self._stage, self._cluster, self._chance = stage, cluster, Random(seed)
        self._world = simpy.Environment()
        self._processors = cluster.processors and simpy.Resource(self._world, cluster.processors)
        self._worked = 0.0
        self._lost = 0
        chunks = ceil(stage.records / stage.size)
        workers = cluster.nodes * cluster.workers
        self._most = ceil(chunks / min(_PARTS, 16 * workers))
        count = min(cluster.partitions, workers, chunks)
        self._runs = [
            _Run(
                chunks // count + (number < chunks % count),
                simpy.Resource(self._world),
                simpy.Store(self._world),
            )
            for number in range(count)
        ]
        nodes = [self._node() for _ in range(cluster.nodes)]
        for number in range(workers):
            run = self._runs[number % count]
            run.workers += 1
            self._world.process(self._start(run, nodes[number % cluster.nodes]))

    def outcome(self) -> Outcome:
        """Run the simulation to its end."""
        threads = [
            self._world.process(self._thread(run))
            for run in self._runs
            for _ in range(2 * run.workers)
        ]
        for _ in range(4 * bool(self._cluster.others)):
            self._world.process(self._others(self._cluster.others / 4))
        self._world.run(until=self._world.all_of(threads))
        seconds = self._world.now
        workers = self._cluster.nodes * self._cluster.workers
        run = max(run.busy for run in self._runs) / seconds
        return Outcome(seconds, run, self._worked / workers / seconds, self._lost)

    def _node(self) -> _Node:
        is_slow = self._chance.random() < self._cluster.slow
        return _Node(self._cluster.slowness if is_slow else 1.0, self._next_loss())

    def _next_loss(self) -> float:
        if not self._cluster.losses:
            return float("inf")
        return self._world.now + self._chance.expovariate(self._cluster.losses / HOUR)

    def _start(self, run: _Run, node: _Node) -> _Events:
        yield from self._compute(self._cluster.start)
        yield run.idle.put(node)

    def _thread(self, run: _Run) -> _Events:
        """Prepare, process and commit chunks until none is left."""
        stage, cluster = self._stage, self._cluster
        while run.left:
            chunks = max(1, min(self._most, run.left // (2 * run.workers)))
            run.left -= chunks
            yield from self._in_run(run, chunks * stage.size * stage.run / 2)
            node = yield run.idle.get()
            each = stage.size * stage.work * node.slowness + cluster.trip
            done = yield from self._work(run, node, chunks, each)
            run.left += chunks - done
            if done:
                yield from self._in_run(run, done * stage.size * stage.run / 2)

    def _in_run(self, run: _Run, seconds: float) -> _Events:
        with run.turn.request() as turn:
            yield turn
            yield from self._compute(seconds)
        run.busy += seconds

    def _work(self, run: _Run, node: _Node, chunks: int, each: float) -> _Counting:
        """Process chunks; return how many were finished before the node was lost, if it was."""
        if self._processors:
            yield from self._compute(chunks * each)
        elif (lived := self._lifetime(node)) > chunks * each:
            yield self._world.timeout(chunks * each)
        else:
            yield self._world.timeout(lived + self._cluster.noticed)
            chunks = int(lived / each)
            self._lost += 1
            self._world.process(self._replace(run, node))
            self._worked += lived
            return chunks
        self._worked += chunks * each
        run.idle.put(node)
        return chunks

    def _lifetime(self, node: _Node) -> float:
        """Seconds until the node is lost; a node lost while idle has been replaced meanwhile."""
        if node.lost_at + self._cluster.replaced < self._world.now:
            node.lost_at = self._next_loss()
        return max(0.0, node.lost_at - self._world.now)

    def _replace(self, run: _Run, node: _Node) -> _Events:
        yield self._world.timeout(self._cluster.replaced)
        run.idle.put(node)

    def _compute(self, seconds: float) -> _Events:
        if not self._processors:
            yield self._world.timeout(seconds)
            return
        while seconds > 1e-9:
            with self._processors.request() as turn:
                yield turn
                yield self._world.timeout(min(seconds, _SLICE))
            seconds -= _SLICE

    def _others(self, share: float) -> _Events:
        """Use a share of a processor at random times."""
        while True:
            yield self._world.timeout(self._chance.expovariate(share / _SLICE))
            self._world.process(self._compute(_SLICE))


def simulate(stage: Stage, cluster: Cluster) -> Outcome:
    """Simulate a stage on a cluster."""
    return Simulation(stage, cluster).outcome()


# Builds: measured constants, and assumptions marked as such.

IMPORT = 1.2e-3  # processor seconds in the run per image with two captions
CALL = 2.6e-3  # per call to a model, from claim to response (`loupe.flows.engine.ledger`)
COMMIT = 60e-6  # per copied record (`benchmarks.stage_runner`)
CHECK, CHECKED = 0.15e-3, 1.5e-3  # per rewrite, in the run and in a worker (`worker_processes`)
FINGERPRINT = 1.6e-3  # per image of 100 kB, in a worker (`loupe.retrieval.similarity`)
RELEASE = 2.4e-3  # per row (`benchmarks.release_build`)
CALL_BYTES, CAPTION_BYTES, IMAGE_BYTES = 1_500, 3_000, 100_000

# Assumed, not measured: tokens per second of one GPU with 80 GB under full load.
TOKENS = {"8B": 5_000, "14B": 3_000, "70B on 4 GPUs": 2_400, "32B, thinking, images": 1_500}
FRAMES, EMBEDDINGS, EDITS = (
    100,
    200,
    1 / 30,
)  # per second and GPU: detector, 2B to 7B embedder, editor
VIDEO_FRAMES, VIDEO_CROPS, CROP = 1_800, 50, 20e-3  # per video; processor time to filter a crop
GPU_PRICE, STORAGE_PRICE = 2.5, 0.023  # dollars per hour with 8 processors; per GB and month
NODE = Cluster(workers=8, start=30.0, trip=0.002)  # 8 GPUs and 64 processors


def imported(images: int) -> Stage:
    return Stage("import", images, IMPORT, 0.0, stored=IMAGE_BYTES + 2 * CAPTION_BYTES)


def asked(records: int, model: str, tokens: int) -> Stage:
    gpus = 4 if "4 GPUs" in model else 1
    stored = CALL_BYTES + CAPTION_BYTES
    return Stage(f"ask {model}", records, CALL, tokens / TOKENS[model], gpus, stored=stored)


def checked(records: int) -> Stage:
    return Stage("check", records, CHECK, CHECKED)


def embedded(images: int) -> Stage:
    return Stage("embed", images, COMMIT, 1 / EMBEDDINGS, 1, stored=4_096)


def released(rows: int) -> Stage:
    return Stage("release", rows, RELEASE, 0.0, stored=2_000)


def tracked(videos: int) -> tuple[Stage, ...]:
    crops = videos * VIDEO_CROPS
    return (
        Stage("track", videos, VIDEO_CROPS * COMMIT, VIDEO_FRAMES / FRAMES, 1, 1, 5_000_000),
        Stage("filter", crops, COMMIT, CROP, stored=20_000),
    )


BUILDS: dict[str, tuple[Stage, ...]] = {
    "UFine6926 (21,000 videos)": (*tracked(21_000), released(26_206)),
    "UFine3C": (
        imported(7_446),
        asked(18_970, "14B", 100),
        asked(18_970, "70B on 4 GPUs", 100),
        checked(37_940),
        released(7_446),
    ),
    "ReCoS": (
        imported(123_000),
        embedded(123_000),
        asked(5_000, "32B, thinking, images", 1_000),
        released(15_982),
    ),
    "CCD": (
        imported(6_000),
        asked(6_000, "32B, thinking, images", 3_000),
        Stage("edit", 17_150, CALL, 1 / EDITS, 1, 8, IMAGE_BYTES),
        embedded(23_150),
        asked(30_000, "32B, thinking, images", 2_000),
        released(23_150),
    ),
    "10 M videos": tracked(10_000_000),
    "1 B images": (
        imported(1_000_000_000),
        Stage("fingerprint", 1_000_000_000, COMMIT, FINGERPRINT),
        embedded(1_000_000_000),
        released(1_000_000_000),
    ),
    "1 B captions": (asked(1_000_000_000, "8B", 100), checked(1_000_000_000)),
}


def of_node(stage: Stage, cluster: Cluster) -> Cluster:
    """The cluster with the number of workers that its nodes have for this stage."""
    return replace(cluster, workers=8 // stage.gpus if stage.gpus else 8 * 8)


def tables() -> None:
    print("| built | nodes | partitions | GPU hours | wall time | cost | stored | bottleneck |")
    print("|---|---|---|---|---|---|---|---|")
    for name, stages in BUILDS.items():
        is_large = name[0].isdigit()
        for partitions in (1, 64) if is_large else (1,):
            cluster = replace(NODE, nodes=100 if is_large else 1, partitions=partitions)
            print(row(name, stages, cluster), flush=True)


def row(name: str, stages: tuple[Stage, ...], cluster: Cluster) -> str:
    outcomes = [simulate(stage, of_node(stage, cluster)) for stage in stages]
    hours = sum(one.seconds for one in outcomes) / HOUR
    gpu_hours = sum(one.records * one.work * one.gpus for one in stages) / HOUR
    longest, outcome = max(zip(stages, outcomes, strict=True), key=lambda pair: pair[1].seconds)
    workers = "GPUs" if longest.gpus else "processors"
    narrow = "the run" if outcome.run > outcome.workers else workers
    gigabytes = sum(one.records * one.stored for one in stages) / 1e9
    cost = hours * cluster.nodes * 8 * GPU_PRICE + gigabytes * STORAGE_PRICE
    return (
        f"| {name} | {cluster.nodes} | {cluster.partitions} | {gpu_hours:,.0f} | {hours:,.1f} h "
        f"| ${cost:,.0f} | {gigabytes:,.0f} GB | {longest.name}: {narrow} |"
    )


def plot(file: Path) -> None:
    """Plot hours for a billion rewrites by nodes, with a line for each number of partitions."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.hashsalt": "scale", "svg.fonttype": "none"}
    axes = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots()
    nodes = (1, 3, 10, 30, 100, 300, 1000)
    stage = asked(1_000_000_000, "8B", 100)
    for partitions in (1, 4, 16, 64):
        clusters = (replace(NODE, nodes=count, partitions=partitions) for count in nodes)
        hours = [simulate(stage, one).seconds / HOUR for one in clusters]
        axes.loglog(nodes, hours, marker=".", label=str(partitions))
    axes.set(
        xlabel="nodes of 8 GPUs", ylabel="hours", title="Rewriting 1 B captions with an 8B model"
    )
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(title="partitions")
    figure.savefig(file, metadata={"Date": None})


# Real runs and their simulation.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    if arguments.tables:
        tables()
        plot(Path(__file__).parents[1] / "docs" / "scale.svg")
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), arguments.records)


def compare(folder: Path, records: int) -> None:
    """Print the durations of real and simulated runs."""
    few, more = (local(seeded(folder / str(n), n), 1) for n in (records // 6, records // 2))
    counts = records // 2 - records // 6
    run, work = (more.own - few.own) / counts, (more.workers - few.workers) / counts
    start = few.own + few.workers - records // 6 * (run + work)
    print(f"a record takes {1e6 * run:.0f} µs in the run, {1e6 * work:.0f} µs in a worker", end="")
    print(f"; {start:.1f} s to start", flush=True)
    home = seeded(folder / "all", records)
    machine = Cluster(start=start, losses=0, slow=0, processors=os.cpu_count())
    stage = Stage("check", records, run, work)
    for workers in (1, 2):
        real = local(copied(home), workers)
        report(f"{workers} local", real, stage, replace(machine, workers=workers))
    importable = import_module("benchmarks.scale_model")  # nodes cannot import `__main__`
    with ray_cluster() as cluster:
        small = copied(folder / str(records // 6))
        cluster.run(importable.on_ray, small)  # starts the actors
        shutil.rmtree(small)
        real = cluster.run(importable.on_ray, copied(home))
        trip = cluster.run(importable.ray_trip)
        report(
            "2 nodes of Ray", real, stage, replace(machine, workers=1, nodes=2, start=0, trip=trip)
        )


def report(name: str, real: worker_processes.Times, stage: Stage, machine: Cluster) -> None:
    own = stage.records * (stage.run + stage.work) + machine.start
    others = max(0.0, (real.machine - own) / real.seconds)
    predicted = simulate(stage, replace(machine, others=others)).seconds
    print(f"{name:<16} predicted {predicted:6.1f} s, real {real.seconds:6.1f} s: ", end="")
    print(f"{100 * (predicted / real.seconds - 1):+.0f} %", end="")
    print(f"  (other programs used {others:.2f} processors)", flush=True)


def seeded(home: Path, records: int) -> Path:
    worker_processes.seed(open_context(load_settings(home=home)), records)
    return home


def copied(home: Path) -> Path:
    return Path(shutil.copytree(home, Path(tempfile.mkdtemp(dir=home.parent)) / "home"))


def local(home: Path, workers: int) -> worker_processes.Times:
    return worker_processes.in_process(home, "processes", workers)


def on_ray(home: Path) -> worker_processes.Times:
    """Run in the driver of the cluster."""
    os.environ |= {"LOUPE_ENGINE": "ray", "LOUPE_ENGINE_WORKERS": "2"}
    return worker_processes.measure(home)


def ray_trip() -> float:
    """Median seconds of an empty chunk."""
    program = RewriteChecks(worker_processes.DATASET, FaithfulnessSettings(), ())
    with tempfile.TemporaryDirectory() as home:
        context = open_context(load_settings(home=Path(home)))
        with open_engine(context.settings, program, 1, context.store) as engine:
            times = []
            for _ in range(30):
                started = time.perf_counter()
                engine.work(())
                times.append(time.perf_counter() - started)
    return median(times)


if __name__ == "__main__":
    main()
