"""Fixtures: an installation in a temporary folder, its command line and demonstration data."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from loupe.db.store import Store
from loupe.demo.worlds.stills import StillsWorld
from loupe.demo.worlds.street import StreetWorld
from loupe.flows.cli.main import app, main
from loupe.flows.engine.context import RunContext
from loupe.models.profiles.settings import load_settings
from loupe.services.components import Component
from loupe.services.installation import bring_up, take_down
from loupe.services.process import free_port
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_world import contrast_build, run_unattended
from tests.flows.command_line import Finished, Loupe
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, found_variants
from tests.flows.prefect_runs import Prefect
from tests.flows.recos_reviewers import DoubtedTasks, ReviewedTasks, build_once, review_tasks
from tests.flows.recos_world import doubting_profile, small_build
from tests.flows.runs import context_of, new_run
from tests.flows.still_families import Family, proposing
from tests.flows.street import KnownStreet, write_short_street
from tests.flows.worlds import own_environment
from tests.servers.counting_server import CountingServer, counting_server
from tests.services.fixtures import LabelStudioServer

COMMAND = get_command(app)
"""The command line. `app` builds all its commands again in each call, which takes 30 ms."""


@pytest.fixture(scope="session")
def street(tmp_path_factory: pytest.TempPathFactory) -> StreetWorld:
    """Two short videos of a street (read-only)."""
    return write_short_street(tmp_path_factory.mktemp("street"))


@pytest.fixture
def known_street(street: StreetWorld) -> KnownStreet:
    """Ground truth of the two videos, and detectors that return it."""
    return KnownStreet(street)


@pytest.fixture(scope="session")
def drawn_stills(tmp_path_factory: pytest.TempPathFactory) -> DrawnStills:
    """Drawn stills in the number that a test asks for (read-only)."""
    return DrawnStills(tmp_path_factory.mktemp("stills"))


@pytest.fixture(scope="session")
def edited_contrasts(
    drawn_stills: DrawnStills, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunContext]:
    """`build-ccd` of three anchors with edited images, released without review (read-only).

    Mark the modules that use it with `xdist_group("ccd_build")`.
    """
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("edited_contrasts")) as run:
        run_unattended(run, contrast_build(drawn_stills(24)))
        yield run


@pytest.fixture(scope="session")
def reviewed_tasks(
    drawn_stills: DrawnStills, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReviewedTasks]:
    """`build-recos` up to v1 with reviewers, released and with open questions (read-only).

    Mark the modules that use it with `xdist_group("recos_people")`.
    """
    folder = tmp_path_factory.mktemp("reviewed_tasks")
    with new_run(migrated_sqlite, folder) as run:
        reviewed = review_tasks(run, drawn_stills(60), folder.parent / f"{folder.name}-states")
        yield reviewed
        reviewed.questions_wait[0].store.close()


@pytest.fixture(scope="session")
def doubted_tasks(
    drawn_stills: DrawnStills, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DoubtedTasks]:
    """`build-recos` without review, but of possible duplicates, which wait (read-only).

    Mark the modules that use it with `xdist_group("recos_people")`.
    """
    folder = tmp_path_factory.mktemp("doubted_tasks")
    build = small_build(drawn_stills(60), folder, duplicates_gate="required", further_rounds=0)
    office = MemoryOffice()
    with new_run(migrated_sqlite, folder) as run:
        report = build_once(run, build, office, doubting_profile())
        yield DoubtedTasks(build, run, office, report)


@pytest.fixture
def model(shown_families: list[Family]) -> Iterator[CountingServer]:
    """A model that proposes the strategies of the test's `shown_families`."""
    with counting_server(0, proposing(shown_families)) as server:
        yield server


@pytest.fixture
def web(
    stills: StillsWorld, shown_families: list[Family], tmp_path: Path
) -> Iterator[FoundVariants]:
    """A search service that finds the variants of the test's `shown_families` in its `stills`."""
    with found_variants(stills, shown_families, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def installation(
    label_studio: LabelStudioServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prefect]:
    """An installation with a worker, an image server and the tests' Label Studio, one a module.

    Module scope, because Prefect's server uses the processor even when idle. Mark tests with
    `prefect` and `label_studio`. The tests of a module share the store and the annotators: use
    dataset and annotator names that no other test uses, and assign queues in `queues.toml`.
    """
    home = tmp_path_factory.mktemp("installation")
    try:
        with own_environment():
            settings = load_settings(
                home=home,
                prefect_port=free_port(),
                blobs_port=free_port(),
                label_studio_url=label_studio.url,
                label_studio_token=label_studio.token,
            )
            steps: list[str] = []
            # No watcher: tests pull and push explicitly.
            started = [one for one in Component if one is not Component.WATCHER]
            bring_up(settings, started, home, steps.append)
        yield Prefect(settings)
    finally:
        take_down(home)


@pytest.fixture
def run(sqlite_store: Store, tmp_path: Path) -> RunContext:
    """A run with an empty store in a temporary home."""
    return context_of(sqlite_store, tmp_path / "home")


@pytest.fixture
def home(tmp_path: Path, migrated_sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of an installation with an empty database."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "loupe.db")
    monkeypatch.setenv("LOUPE_HOME", str(home))
    monkeypatch.setenv("LOUPE_PREFECT_PORT", "1")  # where no server is
    return home


@pytest.fixture
def home_store(home: Path) -> Iterator[Store]:
    """The store of that installation."""
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    yield store
    store.close()


@pytest.fixture
def home_run(home: Path, home_store: Store) -> RunContext:
    """A run in that installation."""
    return context_of(home_store, home)


@pytest.fixture
def loupe(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Loupe:
    """`loupe("cost", "--json")` runs the command in this process."""

    def run(*arguments: str | Path) -> Finished:
        monkeypatch.setattr("sys.argv", ["loupe", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(COMMAND)
        return Finished(int(ended.value.code or 0), *capsys.readouterr())

    return run
