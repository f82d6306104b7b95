"""Programs in threads, processes and on Ray give equal results, also if processes are killed."""

import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import cycle
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, NamedTuple

import PIL.Image
import psutil
import pytest

from loupe.db.entities import StoredEntity, WorkResult, find, new_entity
from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.db.tables import Claim
from loupe.db.work import Pending
from loupe.flows.engine.contamination import fingerprint_images
from loupe.flows.engine.context import RunContext, open_context
from loupe.flows.engine.engines import open_engine
from loupe.flows.engine.programs import Program
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.stopping import Budget, stopped_by_signals
from loupe.flows.faithfulness import check_rewrites
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite
from tests.db.samples import DATASET, caption, row_count, store_entities
from tests.flows.homes import contents_of
from tests.flows.ray_cluster import add_node, lose_node, ray_cluster
from tests.flows.runs import context_of, new_run

CAPTIONS = Pending(DATASET, "caption", ("proposed",))
OUT_OF_MEMORY = -1


class EngineCase(NamedTuple):
    """An engine, and a function that calls others where the engine is available."""

    engine: str
    run: Callable[..., Any]


def here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


LOCAL = (EngineCase("threads", here), EngineCase("processes", here))


@pytest.fixture(scope="module")
def ray() -> Iterator[EngineCase]:
    """A Ray cluster that ends with the module, because Ray uses CPU time even when idle."""
    with ray_cluster() as cluster:
        yield EngineCase("ray", cluster.run)


@pytest.fixture
def all_engines(ray: EngineCase) -> tuple[EngineCase, ...]:
    return *LOCAL, ray


@pytest.fixture
def process_engines(ray: EngineCase) -> tuple[EngineCase, ...]:
    """Engines whose processes can be killed."""
    return LOCAL[1], ray


@dataclass(frozen=True)
class UpperCase(Program[StoredEntity]):
    """Puts captions in capitals. Captions with a word in `deadly` end their process, or hang.

    `numbers` says how, word by word and repeated: a signal, 0 (hang) or `OUT_OF_MEMORY` (allocate
    too much). Each process creates a file in the folder `alive` and continues once `go` exists
    there. The file `opened` gets a line each time the program is opened.
    """

    stage = "shout"
    seconds = 1.0

    deadly: tuple[str, ...] = ()
    numbers: tuple[int, ...] = (signal.SIGKILL,)
    pause: float = 0.0
    alive: Path | None = None
    opened: Path | None = None

    def open(self) -> None:
        if self.opened is not None:
            with self.opened.open("a") as file:
                file.write(f"{os.getpid()}\n")
        if "open" in self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        if self.alive is not None and items:
            (self.alive / str(os.getpid())).touch()
            while not (self.alive / "go").exists():
                time.sleep(0.01)
        return [self._upper_case(one) for one in items]

    def _upper_case(self, one: StoredEntity) -> WorkResult:
        time.sleep(self.pause)
        text = one.record(Caption).text
        number = dict(zip(self.deadly, cycle(self.numbers))).get(text.split()[-1])
        while number is not None:
            if number == OUT_OF_MEMORY:
                bytearray(1 << 60)
            os.kill(os.getpid(), number)
        rewrite = Rewrite(source="test", text=text.upper(), author=f"{os.getpid()}@1")
        parents = [(Role.REWRITE_OF, one.id)]
        return WorkResult(one.seq, (new_entity(rewrite, DATASET, parents=parents),))


@pytest.fixture
def context(sqlite_store: Store, tmp_path: Path) -> RunContext:
    """A run with twelve captions, numbered in their last word, and two processes."""
    store_entities(sqlite_store, [caption(number) for number in range(12)])
    return with_engine(context_of(sqlite_store, tmp_path), "processes")


def with_engine(context: RunContext, engine_name: str, seconds: float = 600.0) -> RunContext:
    engine = {"engine": engine_name, "engine_workers": 2, "engine_seconds": seconds}
    return replace(context, settings=context.settings.model_copy(update=engine))


def run_upper_case(context: RunContext, program: UpperCase, chunk_size: int = 4) -> StageReport:
    stage = Stage("shout", "1", DATASET, {}, chunk_size=chunk_size)
    return run_stage(context, stage, CAPTIONS, program)


def authors_by_caption(context: RunContext) -> dict[int, str]:
    """Return the author of the rewrite of each caption, by number."""
    found = (one.record(Rewrite) for one in find(context.store, DATASET, "rewrite"))
    return {int(one.text.rsplit(" ", 1)[1]): one.author for one in found}


def test_a_pool_is_only_started_for_much_work(context: RunContext, tmp_path: Path) -> None:
    """The program states that a caption takes a second."""

    def threads(inputs: int, workers: int = 3, engine: str = "auto") -> int:
        settings = load_settings(home=tmp_path, engine=engine, engine_workers=workers)
        with open_engine(settings, UpperCase(), inputs, context.store) as opened:
            return opened.threads

    assert [threads(inputs) for inputs in (0, 9, 10, 1000)] == [2, 2, 6, 6]
    assert threads(1000, workers=1) == 2
    assert threads(1000, engine="threads") == 2
    assert threads(1, engine="processes") == 6


def check_rewrites_of_every_kind(run: RunContext) -> StageReport:
    """Check faithful, suspect, refused and near-identical rewrites."""
    texts = (
        "A man in a red coat and blue jeans carries a black bag.",
        "Carrying a black bag, a man wears blue jeans and a red coat.",
        "A man in a green coat and blue jeans carries a black bag.",
        "I'm sorry, I can't help with that.",
        "",
    )
    for number in range(7):
        text = f"{texts[0]} He is number {number}."
        source = new_entity(Caption(source="x", text=text, position=0), DATASET, group=str(number))
        rewrites = [
            new_entity(
                Rewrite(source="x", text=text, author=author),
                DATASET,
                parents=[(Role.REWRITE_OF, source.id)],
                group=str(number),
            )
            for author in ("a@1", "b@1")
            for text in texts
        ]
        store_entities(run.store, [source, *rewrites])
    return check_rewrites(run, DATASET, FaithfulnessSettings(), ("a@1", "b@1"))


def fingerprint_images_of_every_kind(run: RunContext) -> StageReport:
    """Fingerprint images, some with truncated files."""
    images = []
    for number in range(70):
        file = io.BytesIO()
        pixels = Random(number).randbytes(40 * 60)
        PIL.Image.frombytes("L", (40, 60), pixels).save(file, "PNG")
        data = file.getvalue()[: 100 if number % 7 == 3 else None]
        sha256 = run.blobs.put(data, "image/png")
        record = Image(
            source="x",
            identity=str(number),
            split=None,
            file_path=f"{number}.png",
            sha256=sha256,
            source_sha256=sha256,
            media_type="image/png",
            width_px=40,
            height_px=60,
        )
        images.append(new_entity(record, DATASET))
    store_entities(run.store, images)
    return fingerprint_images(run, DATASET)


def stored(
    engine_name: str, stage: Callable[[RunContext], StageReport], migrated: Path, home: Path
) -> Any:
    home.mkdir()
    with new_run(migrated, home) as run:
        report = stage(with_engine(run, engine_name))
    assert report.finished == 70
    assert report.done >= 14
    assert report.rejected.total() >= 10
    return contents_of(home)


@pytest.mark.slow
def test_the_store_is_the_same_with_every_engine(
    all_engines: tuple[EngineCase, ...], migrated_sqlite: Path, tmp_path: Path
) -> None:
    first, *others = (
        run(
            stored,
            engine_name,
            check_rewrites_of_every_kind,
            migrated_sqlite,
            tmp_path / engine_name,
        )
        for engine_name, run in all_engines
    )
    assert others == [first, first]


def test_fingerprints_are_the_same_in_threads_and_processes(
    migrated_sqlite: Path, tmp_path: Path
) -> None:
    first, second = (
        stored(
            engine_name, fingerprint_images_of_every_kind, migrated_sqlite, tmp_path / engine_name
        )
        for engine_name, _ in LOCAL
    )
    assert first == second


def test_nodes_without_access_to_the_blobs_are_refused(
    ray: EngineCase, migrated_sqlite: Path, tmp_path: Path
) -> None:
    message = ray.run(refusal_of_fingerprints, migrated_sqlite, tmp_path / "home")
    assert "which the 2 nodes of the Ray cluster do not share" in message


def refusal_of_fingerprints(migrated: Path, home: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        stored("ray", fingerprint_images_of_every_kind, migrated, home)
    return str(refused.value)


OTHER_PROGRAM = """
from tests.flows.test_programs import UpperCase

class OtherProgram(UpperCase):
    pass
"""


def test_nodes_with_different_code_are_refused(ray: EngineCase, tmp_path: Path) -> None:
    message = ray.run(refusal_of_other_code, tmp_path)
    assert "a node of the Ray cluster runs different code than this run" in message


def refusal_of_other_code(folder: Path) -> str:
    """Return the error for a program that is installed on the driver but on no node."""
    (folder / "only_here.py").write_text(OTHER_PROGRAM)
    sys.path.append(str(folder))
    program = import_module("only_here").OtherProgram()
    settings = load_settings(home=folder, engine="ray", engine_workers=2)
    store = open_context(settings).store
    with (
        open_engine(settings, program, 1, store) as engine,
        pytest.raises(ConfigurationError) as refused,
    ):
        engine.work(())
    return str(refused.value)


def test_workers_fill_the_nodes_of_a_cluster(ray: EngineCase, tmp_path: Path) -> None:
    """The cluster has two nodes with one CPU each, and two chunks are prepared per worker."""
    threads, message = ray.run(threads_and_refusal, tmp_path)
    assert threads == 4
    assert "has room for a worker with 1.5 CPUs and 0 GPUs: all of them have 2 CPUs" in message


def threads_and_refusal(folder: Path) -> tuple[int, str]:
    """Return the threads for workers with one CPU, and the error for workers with more."""
    settings = load_settings(home=folder, engine="ray", engine_cpus=1.0)
    store = open_context(settings).store
    with open_engine(settings, UpperCase(), 1, store) as engine:
        threads = engine.threads
    settings = load_settings(home=folder, engine="ray", engine_cpus=1.5)
    with pytest.raises(ServiceError) as refused, open_engine(settings, UpperCase(), 1, store):
        pass
    return threads, str(refused.value)


class Outcome(NamedTuple):
    """Results for twelve captions; authors by the number of the caption."""

    done: int
    rejected: dict[str, int]
    authors: dict[int, str]
    details: list[str]
    claims: int


def outcome(
    engine_name: str,
    migrated: Path,
    home: Path,
    program: UpperCase,
    chunk_size: int = 4,
    seconds: float = 600.0,
    act: Callable[[list[int]], None] | None = None,
) -> Outcome:
    """Process twelve captions with two workers; `act` gets the ids of both while they work."""
    home.mkdir()
    if act is not None:
        program = replace(program, alive=once_at_work(home, act))
    with new_run(migrated, home) as run:
        store_entities(run.store, [caption(number) for number in range(12)])
        report = run_upper_case(with_engine(run, engine_name, seconds), program, chunk_size)
        return Outcome(
            report.done,
            dict(report.rejected),
            authors_by_caption(run),
            [one.detail for one in quarantined(run.store, DATASET, stage="shout")],
            row_count(run.store, Claim),
        )


def test_threads_open_a_program_once(migrated_sqlite: Path, tmp_path: Path) -> None:
    program = UpperCase(opened=tmp_path / "opened")
    found = outcome("threads", migrated_sqlite, tmp_path / "home", program, 1)
    assert (found.done, found.claims) == (12, 0)
    assert (tmp_path / "opened").read_text().split() == [str(os.getpid())]


def kill(processes: list[int]) -> None:
    for one in processes:
        psutil.Process(one).kill()


def kill_actors(processes: list[int]) -> None:
    """Kill the actors that started these processes."""
    kill([psutil.Process(one).ppid() for one in processes])


def kill_node(_: list[int]) -> None:
    lose_node()


def test_a_killed_process_loses_no_result(
    process_engines: tuple[EngineCase, ...], migrated_sqlite: Path, tmp_path: Path
) -> None:
    """Both processes are killed at work, and other processes repeat their chunks.

    Each process opens the program once, for all its chunks.
    """
    for engine_name, run in process_engines:
        home, program = tmp_path / engine_name, UpperCase(opened=tmp_path / f"opened-{engine_name}")
        found = run(outcome, engine_name, migrated_sqlite, home, program, 1, 600.0, kill)
        assert (found.done, found.rejected, found.claims) == (12, {}, 0), engine_name
        assert sorted(found.authors) == list(range(12)), engine_name
        killed = {f"{path.name}@1" for path in first_at_work(home)}
        authors = set(found.authors.values())
        assert killed.isdisjoint(authors), engine_name
        opened = [f"{one}@1" for one in (tmp_path / f"opened-{engine_name}").read_text().split()]
        assert len(opened) == len(set(opened)) <= 4, engine_name
        assert killed | authors <= set(opened), engine_name


@pytest.mark.postgres
def test_worker_processes_read_their_inputs_from_postgresql(
    postgres_store: Store, tmp_path: Path
) -> None:
    store_entities(postgres_store, [caption(number) for number in range(12)])
    context = with_engine(context_of(postgres_store, tmp_path), "processes")
    assert run_upper_case(context, UpperCase()).done == 12
    authors = authors_by_caption(context)
    assert sorted(authors) == list(range(12))
    assert f"{os.getpid()}@1" not in authors.values()


@pytest.mark.parametrize("act", [kill_actors, kill_node])
def test_a_lost_actor_or_node_is_not_blamed_on_an_item(
    ray: EngineCase, migrated_sqlite: Path, tmp_path: Path, act: Callable[[list[int]], None]
) -> None:
    """Chunks have one item: if losses counted, the second one would quarantine it."""
    program = UpperCase(("7",))
    found = ray.run(outcome, "ray", migrated_sqlite, tmp_path / "home", program, 1, 600.0, act)
    if act is kill_node:
        ray.run(add_node)
    assert (found.done, found.rejected, found.claims) == (11, {"ends_its_process": 1}, 0)
    assert sorted(found.authors) == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]


def first_at_work(home: Path) -> list[Path]:
    """Return the files of the two processes that `once_at_work` acted on."""
    files = [path for path in (home / "alive").iterdir() if path.name != "go"]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)[:2]


def once_at_work(folder: Path, act: Callable[[list[int]], None]) -> Path:
    """Return a folder for `UpperCase` in which both processes wait until `act` has run."""
    alive = folder / "alive"
    alive.mkdir()

    def watch() -> None:
        while len(found := [int(path.name) for path in alive.iterdir()]) < 2:
            time.sleep(0.01)
        try:
            act(found)
        finally:
            (alive / "go").touch()

    Thread(target=watch).start()
    return alive


def test_a_signal_lets_processes_finish_their_current_work(
    context: RunContext, tmp_path: Path
) -> None:
    with stopped_by_signals():
        run = replace(context, budget=Budget())

        def stop(_: list[int]) -> None:
            while row_count(run.store, Claim) < 5:  # four are at work, or wait for a process
                time.sleep(0.01)
            time.sleep(0.2)  # until the run waits to hand over the fifth
            os.kill(os.getpid(), signal.SIGTERM)
            while not run.budget.stop.is_requested:
                time.sleep(0.01)

        alive = once_at_work(tmp_path, stop)
        with pytest.raises(SystemExit) as ended:
            run_upper_case(run, UpperCase(alive=alive), chunk_size=1)
    assert ended.value.code == 128 + signal.SIGTERM
    done = authors_by_caption(context)
    assert len(done) == 4
    assert row_count(context.store, Claim) == 0
    assert run_upper_case(context, UpperCase(), chunk_size=1).done == 12 - len(done)


def test_an_input_that_ends_its_process_or_takes_too_long_is_quarantined(
    process_engines: tuple[EngineCase, ...], migrated_sqlite: Path, tmp_path: Path
) -> None:
    """One input of each chunk: it is killed, hangs, or needs more memory than there is."""
    program = UpperCase(("3", "7", "11"), (signal.SIGKILL, 0, OUT_OF_MEMORY))
    begins = "Two processes ended while they worked on it: it "
    for engine_name, run in process_engines:
        found = run(outcome, engine_name, migrated_sqlite, tmp_path / engine_name, program, 4, 0.4)
        assert (found.done, found.rejected) == (9, {"ends_its_process": 3}), engine_name
        assert sorted(found.authors) == [0, 1, 2, 4, 5, 6, 8, 9, 10], engine_name
        assert all(one.startswith(begins) for one in found.details), found.details
        assert sum("took more than 0.4 s of CPU time" in one for one in found.details) == 1
        assert any("SIGKILL, which is mostly a lack of memory" in one for one in found.details)
        assert found.claims == 0, engine_name


def test_nothing_is_quarantined_if_no_process_can_start(
    process_engines: tuple[EngineCase, ...], migrated_sqlite: Path, tmp_path: Path
) -> None:
    for engine_name, run in process_engines:
        found = run(outcome_without_processes, engine_name, migrated_sqlite, tmp_path / engine_name)
        assert (found.done, found.rejected, found.claims) == (12, {}, 0), engine_name


def outcome_without_processes(engine_name: str, migrated: Path, home: Path) -> Outcome:
    """Return the outcome of a second run after a first one whose processes could not start."""
    home.mkdir()
    with new_run(migrated, home) as run:
        store_entities(run.store, [caption(number) for number in range(12)])
        run = with_engine(run, engine_name)
        with pytest.raises(ServiceError, match="before they get any input"):
            run_upper_case(run, UpperCase(("open",)), 1)
        report = run_upper_case(run, UpperCase(), 1)
        return Outcome(
            report.done,
            dict(report.rejected),
            authors_by_caption(run),
            [],
            row_count(run.store, Claim),
        )


DRIVER = """
import sys
from pathlib import Path
from tests.flows.test_programs import one_of_two_drivers
one_of_two_drivers(Path(sys.argv[1]))
"""


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_two_hundred_random_kills_lose_no_result(
    ray: EngineCase, migrated_sqlite: Path, tmp_path: Path
) -> None:
    """Two drivers share a plan; drivers, actors, workers and nodes are killed at random."""
    seed = Random().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    captions, found = ray.run(
        outcome_of_random_kills, migrated_sqlite, tmp_path / "home", Random(seed), 200
    )
    assert (found.done, found.rejected, found.claims) == (captions, {}, 0)
    assert sorted(found.authors) == list(range(captions))


def outcome_of_random_kills(
    migrated: Path, home: Path, chance: Random, kills: int
) -> tuple[int, Outcome]:
    """Return the number of captions and their outcome; runs in the driver of the cluster.

    A rewrite names its process, so a caption that was processed twice has two rewrites.
    """
    (home / "alive").mkdir(parents=True)
    (home / "alive" / "go").touch()
    captions = 0
    with new_run(migrated, home) as run:
        while kills > 0:
            new = [caption(number) for number in range(captions, captions + 1000)]
            store_entities(run.store, new)
            captions += len(new)
            drivers = [psutil.Popen([sys.executable, "-c", DRIVER, home]) for _ in range(2)]
            while any(one.poll() is None for one in drivers):
                time.sleep(chance.uniform(0.5, 2.0))
                kills -= kill_at_random(home, drivers, chance)
            assert {one.returncode for one in drivers} <= {0, -signal.SIGKILL}
        report = run_upper_case(with_engine(run, "ray"), UpperCase())
        rewrites = [one.record(Rewrite) for one in find(run.store, DATASET, "rewrite")]
        return captions, Outcome(
            len(rewrites),
            dict(report.rejected),
            authors_by_caption(run),
            [],
            row_count(run.store, Claim),
        )


def kill_at_random(home: Path, drivers: Sequence[Any], chance: Random) -> int:
    """Kill a random process, actor, driver or node, and return the number of kills (0 or 1)."""
    names = [int(path.name) for path in (home / "alive").iterdir() if path.name != "go"]
    at_work = [one for one in names if psutil.pid_exists(one)]
    if not at_work:
        return 0
    victim = chance.choice(at_work)
    kind = chance.choices(("process", "actor", "driver", "node"), (45, 45, 5, 5))[0]
    try:
        if kind == "node":
            lose_node()
            add_node()
        elif kind == "actor":
            kill_actors([victim])
        else:
            kill([victim if kind == "process" else chance.choice(drivers).pid])
    except (psutil.Error, IndexError):
        return 0  # it had ended by itself
    return 1


def one_of_two_drivers(home: Path) -> None:
    """Process the remaining captions with one worker, in parallel with another driver."""
    run = with_engine(context_of(Store.open(f"sqlite:///{home / 'loupe.db'}"), home), "ray")
    settings = run.settings.model_copy(update={"engine_workers": 1})
    program = UpperCase(alive=home / "alive", pause=0.05)
    run_upper_case(replace(run, settings=settings), program, chunk_size=20)
