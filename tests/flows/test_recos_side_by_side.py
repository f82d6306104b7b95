"""Two parallel builds of one benchmark pay for each model answer once."""

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loupe.db.store import Store
from loupe.flows.engine.context import BuildReport
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.report import Progress, StageReport
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.schemas.build import RecosBuild
from loupe.schemas.profile import OpenAIChat, Profile
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_world import no_desks, small_build, small_profile
from tests.flows.runs import context_of
from tests.servers.captioning import caption_completion
from tests.servers.counting_server import CountingServer, counting_server

DELAY_SECONDS = 0.02


@pytest.fixture
def captioner() -> Iterator[CountingServer]:
    with counting_server(DELAY_SECONDS, caption_completion) as server:
        yield server


@pytest.fixture
def build(drawn_stills: DrawnStills, tmp_path: Path) -> RecosBuild:
    return small_build(drawn_stills(60), tmp_path, last="v1")


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


class _SlowProgress(Progress):
    """Pauses after each stage, so that the other run meets unfinished work."""

    def end(self, report: StageReport) -> None:
        time.sleep(0.2)


def run_together(
    folder: Path,
    database: Path,
    build: RecosBuild,
    profile: Profile,
    *progress: Progress,
) -> set[str]:
    """Run two builds in parallel on a new store in `folder` and return their release ids."""
    shutil.copy(database, folder / "loupe.db")
    together = threading.Barrier(2)
    reports: list[BuildReport] = []

    def run(progress: Progress) -> None:
        store = Store.open(f"sqlite:///{folder / 'loupe.db'}")
        context = replace(context_of(store, folder / "home"), progress=progress)
        together.wait()
        try:
            reports.append(run_pipeline(context, recos_pipeline(), build, profile, no_desks))
        finally:
            store.close()

    threads = [threading.Thread(target=run, args=(one,)) for one in progress]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 2
    return {report.release_id or "" for report in reports}


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_captions_are_written_once_and_similar_images_chosen_by_one_run_at_a_time(
    tmp_path: Path, migrated_sqlite: Path, build: RecosBuild, captioner: CountingServer
) -> None:
    """If both runs chose, an image could get two similar images or lose its only one."""
    progress = _SlowProgress(), Progress()
    found = run_together(tmp_path, migrated_sqlite, build, profile(captioner), *progress)
    assert len(found) == 1
    counts = captioner.ledger.counts
    assert len(counts) > 20, "some captions were rewritten, and confusing ones written"
    assert set(counts.values()) == {1}
