"""Two builds of one benchmark at once: each answer of a model is paid once."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from annotate.projects import Desks
from db.store import Store
from flows.engine.pipeline import run_pipeline
from flows.engine.report import BuildReport
from flows.recos.pipeline import recos_pipeline
from schemas.build import RecosBuild
from schemas.profile import OpenAIChat, Profile
from sources.demonstration.stills import write_stills_world
from tests.flows.recos_world import small_build, small_profile
from tests.flows.runs import context_of
from tests.servers.captioning import caption_completion
from tests.servers.counting_server import CountingServer, counting_server

DELAY_SECONDS = 0.02


@pytest.fixture
def captioner() -> Iterator[CountingServer]:
    with counting_server(DELAY_SECONDS, caption_completion) as server:
        yield server


@pytest.fixture
def build(tmp_path: Path) -> RecosBuild:
    stills = write_stills_world(tmp_path / "stills", seed=11, count=60)
    return small_build(stills, tmp_path, last="v0")


def profile(captioner: CountingServer) -> Profile:
    chosen = small_profile()
    model = OpenAIChat(
        provider="openai",
        name="counting",
        revision="1",
        base_url=captioner.base_url,
        max_in_flight=2,
    )
    captioning = chosen.captioning.model_copy(update={"model": model})
    return chosen.model_copy(update={"captioning": captioning})


def no_desks() -> Desks:
    raise AssertionError("nobody is to be asked")


@pytest.mark.timeout(120)
def test_captions_are_rewritten_once(
    tmp_path: Path, migrated_sqlite: Path, build: RecosBuild, captioner: CountingServer
) -> None:
    shutil.copy(migrated_sqlite, tmp_path / "loupe.db")
    together = threading.Barrier(2)
    reports: list[BuildReport] = []

    def run() -> None:
        store = Store.open(f"sqlite:///{tmp_path / 'loupe.db'}")
        context = context_of(store, tmp_path / "home")
        together.wait()
        reports.append(run_pipeline(context, recos_pipeline(), build, profile(captioner), no_desks))
        store.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 2
    assert len({report.release_id for report in reports}) == 1
    counts = captioner.ledger.counts
    assert len(counts) > 10, "some captions were rewritten"
    assert set(counts.values()) == {1}
