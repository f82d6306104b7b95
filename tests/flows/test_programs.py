"""Programs: the same store in threads and in processes, and processes that end cost no result."""

import io
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from threading import Thread

import PIL.Image
import psutil
import pytest

from db.entities import StoredEntity, find, new_entity
from db.pending import Pending
from db.quarantine import quarantined
from db.store import Store
from db.tables.work import Claim
from db.work import WorkResult
from flows.engine.context import RunContext
from flows.engine.fingerprints import fingerprint_images
from flows.engine.ledger import Budget
from flows.engine.programs import Program, open_engine
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_stage
from flows.engine.stopping import stopped_by_signals
from flows.ufine3c.faithfulness import check_rewrites
from profiles.settings import load_settings
from schemas.errors import ServiceError
from schemas.profile import FaithfulnessSettings
from schemas.provenance import Role
from schemas.records import Caption, Image, Rejection, Rewrite
from tests.db.samples import DATASET, caption, row_count, store_entities
from tests.flows.homes import contents_of
from tests.flows.runs import context_of, new_run

CAPTIONS = Pending(DATASET, "caption", ("proposed",))
WAYS = ("threads", "processes")


@dataclass(frozen=True)
class Shouted(Program[StoredEntity, StoredEntity]):
    """Captions in capitals. Those that hold a word in `deadly` end their process.

    In the folder `alive` each process leaves a file, and goes on when `go` is there.
    """

    stage = "shout"
    seconds = 1.0

    deadly: tuple[str, ...] = ()
    number: int = signal.SIGKILL
    alive: Path | None = None

    def prepare(self, inputs: Sequence[StoredEntity], reader: Store) -> Sequence[StoredEntity]:
        with pytest.raises(RuntimeError), reader.write():
            pass
        return inputs

    def open(self) -> None:
        if "open" in self.deadly:
            os.kill(os.getpid(), self.number)

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        if self.alive is not None and items:
            (self.alive / str(os.getpid())).touch()
            while not (self.alive / "go").exists():
                time.sleep(0.01)
        return [self._shout(one) for one in items]

    def _shout(self, one: StoredEntity) -> WorkResult:
        text = one.record(Caption).text
        if not set(self.deadly).isdisjoint(text.split()):
            os.kill(os.getpid(), self.number)
        made = Rewrite(source="test", text=text.upper(), author=f"{os.getpid()}@1")
        parents = [(Role.REWRITE_OF, one.id)]
        return WorkResult(one.seq, (new_entity(made, DATASET, parents=parents),))

    def refused(self, item: StoredEntity, rejection: Rejection) -> WorkResult:
        return WorkResult(item.seq, rejection=rejection)


@pytest.fixture
def context(store: Store, tmp_path: Path) -> RunContext:
    """Twelve captions, numbered in their last word, to be worked on in two processes."""
    store_entities(store, [caption(number) for number in range(12)])
    return in_way(context_of(store, tmp_path), "processes")


def in_way(context: RunContext, way: str) -> RunContext:
    engine = {"engine": way, "engine_workers": 2}
    return replace(context, settings=context.settings.model_copy(update=engine))


def shout(context: RunContext, program: Shouted, chunk_size: int = 4) -> StageReport:
    stage = Stage("shout", "1", DATASET, {}, chunk_size=chunk_size)
    return run_stage(context, stage, CAPTIONS, program)


def shouted(context: RunContext) -> dict[int, str]:
    """Who shouted each caption."""
    found = (one.record(Rewrite) for one in find(context.store, DATASET, "rewrite"))
    return {int(one.text.rsplit(" ", 1)[1]): one.author for one in found}


def test_a_pool_is_started_for_much_work_alone(tmp_path: Path) -> None:
    """Captions take a second each, as the program says."""

    def threads(inputs: int | None, workers: int = 3, engine: str = "auto") -> int:
        settings = load_settings(home=tmp_path, engine=engine, engine_workers=workers)
        with open_engine(settings, Shouted(), inputs) as opened:
            return opened.threads

    assert [threads(inputs) for inputs in (None, 0, 9, 10, 1000)] == [2, 2, 2, 6, 6]
    assert threads(1000, workers=1) == 2
    assert threads(1000, engine="threads") == 2
    assert threads(1, engine="processes") == 6


def check_rewrites_of_every_kind(run: RunContext) -> StageReport:
    """Faithful ones, suspect ones, refused ones, and near-identical ones."""
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
    """Images, some of whose files are none."""
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


@pytest.mark.parametrize("stage", [check_rewrites_of_every_kind, fingerprint_images_of_every_kind])
def test_the_store_is_the_same_in_every_way(
    migrated_sqlite: Path, tmp_path: Path, stage: Callable[[RunContext], StageReport]
) -> None:
    homes = []
    for way in WAYS:
        homes.append(tmp_path / way)
        homes[-1].mkdir()
        with new_run(migrated_sqlite, homes[-1]) as run:
            report = stage(in_way(run, way))
            assert report.finished == 70
            assert report.done >= 14
            assert report.rejected.total() >= 10
    assert contents_of(homes[0]) == contents_of(homes[1])


def test_work_is_done_in_other_processes(context: RunContext) -> None:
    assert shout(context, Shouted()).done == 12
    assert f"{os.getpid()}@1" not in set(shouted(context).values())
    assert row_count(context.store, Claim) == 0


def test_a_killed_process_costs_no_result(context: RunContext, tmp_path: Path) -> None:
    """Both processes are killed at work, from outside; their chunks are done again by others."""
    killed: list[int] = []

    def kill(processes: list[int]) -> None:
        killed.extend(processes)
        for one in processes:
            psutil.Process(one).kill()

    alive = once_at_work(tmp_path, kill)
    report = shout(context, Shouted(alive=alive))
    assert (report.done, report.rejected.total()) == (12, 0)
    authors = shouted(context)
    assert sorted(authors) == list(range(12))
    assert {f"{one}@1" for one in killed}.isdisjoint(authors.values())


def once_at_work(folder: Path, act: Callable[[list[int]], None]) -> Path:
    """A folder for `Shouted`: both processes wait there until `act` has got their ids."""
    alive = folder / "alive"
    alive.mkdir()

    def watch() -> None:
        while len(found := [int(path.name) for path in alive.iterdir()]) < 2:
            time.sleep(0.01)
        act(found)
        (alive / "go").touch()

    Thread(target=watch).start()
    return alive


def test_a_signal_lets_processes_finish_what_they_work_on(
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
            shout(run, Shouted(alive=alive), chunk_size=1)
    assert ended.value.code == 128 + signal.SIGTERM
    done = shouted(context)
    assert len(done) == 4
    assert row_count(context.store, Claim) == 0
    assert shout(context, Shouted(), chunk_size=1).done == 12 - len(done)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_an_input_that_ends_its_process_is_quarantined(context: RunContext, number: int) -> None:
    report = shout(context, Shouted(("3", "11"), number))
    assert (report.done, dict(report.rejected)) == (10, {"ends_its_process": 2})
    assert sorted(shouted(context)) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    detail = next(quarantined(context.store, DATASET, stage="shout")).detail
    assert detail.startswith("Two processes ended while they worked on it: it ")
    assert row_count(context.store, Claim) == 0


def test_nothing_is_quarantined_where_no_process_can_start(context: RunContext) -> None:
    with pytest.raises(ServiceError, match="before they are given any input"):
        shout(context, Shouted(("open",)), chunk_size=1)
    assert shout(context, Shouted(), chunk_size=1).done == 12
    assert row_count(context.store, Claim) == 0
