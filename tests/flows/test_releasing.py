"""Releases at the end of a run: their version, and when they are rebuilt."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loupe.flows.engine.context import BuildReport, RunContext, open_context
from loupe.flows.engine.releasing import release
from loupe.models.profiles.settings import load_settings
from loupe.release.format.files import workspace_for
from loupe.schemas.errors import IntegrityError, LoupeError
from tests.flows.command_line import Loupe
from tests.flows.runs import Released, context_of, copied_run
from tests.release.later import Later
from tests.release.worlds import DATASET, World, small_world, store_world


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunContext]:
    """A dataset released once, one image of which was rejected since; read-only."""
    home = tmp_path_factory.mktemp("released")
    world = store_world(home, small_world(2).contents())
    context, first = context_of(world.store, home), BuildReport(DATASET)
    release(context, first, Released(), "1.0.0")
    assert first.warnings == []
    later = Later(world, DATASET)
    later.verdict(later.ids("image")[0], "reject")
    yield context
    world.store.close()


@pytest.fixture
def run(released: RunContext, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of it that tests may change."""
    with copied_run(released, tmp_path / "home") as copied:
        yield copied


def test_an_unchanged_release_is_not_rebuilt(run: RunContext) -> None:
    """The blobs are deleted, so a rebuild would fail; the existing release is verified."""
    first, again, changed = (BuildReport(DATASET) for _ in range(3))
    release(run, first, Released(), "2.0.0")
    assert first.release is not None
    shutil.rmtree(run.settings.blobs_url)
    release(run, again, Released(), "2.0.0")
    assert (again.release, again.release_id) == (first.release, first.release_id)
    assert again.warnings == first.warnings
    later = Later(World(run.store, run.blobs), DATASET, seed=1)
    later.verdict(later.ids("image")[1], "reject")
    with pytest.raises(LoupeError):
        release(run, changed, Released(), "2.0.0")


def test_a_damaged_release_is_an_integrity_error(run: RunContext) -> None:
    report = BuildReport(DATASET)
    release(run, report, Released(), "2.0.0")
    assert report.release is not None
    image = next((report.release / "images").rglob("*.jpg"))
    sound = image.read_bytes()
    for damaged in (sound + b"!", sound[:-1] + b"!"):
        image.write_bytes(damaged)
        with pytest.raises(IntegrityError, match="nothing was written"):
            release(run, report, Released(), "2.0.0")
        image.write_bytes(sound)
        release(run, report, Released(), "2.0.0")


Change = Callable[[RunContext, Later], object]


def an_accepted_caption(_: RunContext, later: Later) -> None:
    later.verdict(later.ids("caption")[0], "accept")


def a_withdrawal(_: RunContext, later: Later) -> None:
    later.withdraw(later.ids("caption")[:1])


def a_stated_title(run: RunContext, _: Later) -> None:
    run.settings.releases_file.write_text("[all]\ntitle = 'Other'\n", encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [an_accepted_caption, a_withdrawal, a_stated_title],
)
def test_a_release_is_rebuilt_after_any_change(run: RunContext, change: Change) -> None:
    """The blobs are deleted, so the rebuild fails."""
    release(run, BuildReport(DATASET), Released(), "2.0.0")
    shutil.rmtree(run.settings.blobs_url)
    change(run, Later(World(run.store, run.blobs), DATASET, seed=1))
    with pytest.raises(LoupeError):
        release(run, BuildReport(DATASET), Released(), "2.0.0")


def test_the_next_command_removes_what_killed_builds_left_but_no_build_that_runs(
    home: Path, loupe: Loupe
) -> None:
    releases = home / "releases"
    left = releases / ".people-1.0.0.building-abc" / "content"
    with workspace_for(releases / "people-2.0.0") as running:
        left.mkdir(parents=True)
        assert loupe("quarantine").exit_code == 0
        assert not left.parent.exists()
        assert running.home.is_dir()
        left.mkdir(parents=True)
        open_context(load_settings(home=home)).store.close()
        assert not left.parent.exists()
        assert running.home.is_dir()
