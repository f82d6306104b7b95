"""Two parallel builds of contrastive images: no request, search, download or edit happens twice."""

import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loupe.db.entities import find
from loupe.db.store import Store
from loupe.demo.stills.editor import StillsEditor
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd import downloading as found_images
from loupe.flows.ccd import editing as edit_ledger
from loupe.flows.ccd import editing as edited_images
from loupe.flows.ccd import image_choice
from loupe.flows.ccd import strategies as strategy_proposals
from loupe.flows.engine import model_step
from loupe.flows.engine.context import BuildReport
from loupe.flows.engine.runner import Stage
from loupe.release.verify import verify_release
from loupe.schemas.build import CcdBuild
from loupe.schemas.image_edit import BuiltinEditor, EditOutcome, EditRequest
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Candidate
from tests.flows.ccd_world import DATASET
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, build_found, found_variants
from tests.flows.homes import bytes_of, contents_of, problems_of
from tests.flows.runs import context_of
from tests.flows.still_families import Family, families, proposing
from tests.servers.contrasting import remembered
from tests.servers.counting_server import CountingServer, counting_server

pytestmark = pytest.mark.slow

DELAY_SECONDS = 0.02
RELEASE = Path("releases") / f"{DATASET}-0.1.0"


@pytest.fixture
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def shown_families(stills: StillsWorld) -> list[Family]:
    """Two anchors, with found images for some strategies and edits for others."""
    return families(stills)[:2]


@pytest.fixture
def model(shown_families: list[Family]) -> Iterator[CountingServer]:
    with counting_server(
        DELAY_SECONDS, remembered(proposing(shown_families, edits=True))
    ) as server:
        yield server


@pytest.fixture
def web(
    stills: StillsWorld, shown_families: list[Family], tmp_path: Path
) -> Iterator[FoundVariants]:
    with found_variants(stills, shown_families, tmp_path, methods=("search", "edit")) as found:
        found.service.seconds = DELAY_SECONDS
        yield found


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of one input, so that parallel runs compete for every one."""
    for module in (strategy_proposals, found_images, image_choice, edited_images, model_step):
        monkeypatch.setattr(module, "Stage", _SingleInputStage)


class _SingleInputStage(Stage):
    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **{**named, "chunk_size": 1})


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of times that each edit was made in this process."""
    counted: Counter[str] = Counter()

    class Counted(StillsEditor):
        def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
            asked = list(requests)
            counted.update(f"{one.instruction} {one.seed}" for one in asked)
            return super().edit(asked)

    monkeypatch.setattr(edit_ledger, "build_image_editor", lambda _: Counted(BuiltinEditor()))
    return counted


class Together(NamedTuple):
    """Results of parallel runs on one installation."""

    home: Path
    reports: list[BuildReport]

    @property
    def release_id(self) -> str | None:
        """The release that all runs returned, after its verification."""
        assert verify_release(self.home / RELEASE).problems == []
        (release_id,) = {report.release_id for report in self.reports}
        return release_id

    def assert_equal(self, other: "Together") -> None:
        """Assert that the release and the store equal those of the other runs."""
        assert {report.release_id for report in other.reports} == {self.release_id}
        assert bytes_of(self.home / RELEASE) == bytes_of(other.home / RELEASE)
        assert problems_of(self.home) == []
        assert contents_of(self.home) == contents_of(other.home)


def run_together(
    home: Path, database: Path, runs: int, build: CcdBuild, profile: Profile
) -> Together:
    """Run the build `runs` times in parallel on a new installation in `home`."""
    home.mkdir()
    shutil.copy(database, home / "loupe.db")
    together = threading.Barrier(runs)
    found = Together(home, [])

    def run() -> None:
        store = Store.open(f"sqlite:///{home / 'loupe.db'}")
        together.wait()
        found.reports.append(build_found(context_of(store, home), build, profile))
        store.close()

    threads = [threading.Thread(target=run) for _ in range(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found.reports) == runs
    return found


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.timeout(300)
def test_parallel_builds_repeat_no_request_search_download_or_edit(
    tmp_path: Path,
    migrated_sqlite: Path,
    web: FoundVariants,
    model: CountingServer,
    edits: Counter[str],
) -> None:
    profile = web.profile(model)
    alone = run_together(tmp_path / "alone", migrated_sqlite, 1, web.build, profile)
    paid = paid_of(web, model, edits)
    for counts in paid:
        assert len(counts) >= 2
        assert set(counts.values()) == {1}

    both = run_together(tmp_path / "both", migrated_sqlite, 2, web.build, profile)
    assert paid_of(web, model, edits) == paid
    both.assert_equal(alone)


@pytest.mark.soak
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.timeout(300)
def test_a_picture_is_used_for_one_strategy_only(
    tmp_path: Path,
    migrated_sqlite: Path,
    web: FoundVariants,
    shown_families: list[Family],
    model: CountingServer,
) -> None:
    """A picture found for several strategies of an anchor is used for one of them."""
    known = {
        variant.captions[0]: web.service.results_of(family.variants[0].captions[0])
        for family in shown_families
        for variant in family.variants
    }
    web.service.results_of = known.__getitem__
    build = web.build.model_copy(update={"methods": ("search",)})
    model.complete = remembered(proposing(shown_families))
    both = run_together(tmp_path / "both", migrated_sqlite, 2, build, web.profile(model))
    assert both.release_id is not None
    store = Store.open(f"sqlite:///{both.home / 'loupe.db'}")
    found = find(store, DATASET, Candidate.kind)
    pictures = Counter((one.group, one.record(Candidate).image.sha256) for one in found)
    store.close()
    assert len(pictures) == len(shown_families)
    assert set(pictures.values()) == {1}


def paid_of(
    web: FoundVariants, model: CountingServer, edits: Counter[str]
) -> tuple[Counter[str], ...]:
    """Return and reset the counts of model requests, searches, downloads and edits."""
    paid = (
        Counter(model.ledger.counts),
        Counter(web.service.queries),
        Counter(web.host.paths()),
        Counter(edits),
    )
    model.ledger.reset()
    web.service.seen.clear()
    web.host.requests.clear()
    edits.clear()
    return paid
