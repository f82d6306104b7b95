"""The version of a release, compared with the release before."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.blobs import BlobStore
from flows.engine.context import RunContext
from flows.engine.releasing import release
from flows.engine.report import BuildReport
from schemas.build import UFine3CBuild
from schemas.errors import IntegrityError, LoupeError, UsageError
from tests.flows.runs import Released, context_of
from tests.release.later import Later
from tests.release.worlds import DATASET, World, small_world, store_world


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunContext]:
    """A dataset whose first release was built by a run, and that lost an image since."""
    composer = small_world(2)
    world = store_world(tmp_path / "world", composer.contents())
    context = context_of(world.store, tmp_path)
    blobs = BlobStore(context.settings.blobs_url)
    for one in composer.pictures:
        blobs.put(one, "image/jpeg")
    first = BuildReport(DATASET)
    release(context, first, Released(), "1.0.0")
    assert first.warnings == []
    later = Later(World(world.store, blobs), DATASET)
    later.verdict(later.ids("image")[0], "reject")
    yield context
    world.store.close()


def test_a_version_that_is_too_small_is_in_the_report(run: RunContext) -> None:
    report = BuildReport(DATASET)
    release(run, report, Released(), "1.1.0")
    warning = (
        f"the version of {DATASET} is 1.1.0, must be at least 2.0.0: 1 row was removed since 1.0.0"
    )
    assert report.warnings == [warning]
    assert f"- warning: {warning}" in report.markdown
    assert report.as_json()["warnings"] == [warning]
    assert report.release is not None
    assert (report.release / "manifest.json").is_file()


def test_a_strict_build_is_not_released_so(run: RunContext) -> None:
    report = BuildReport(DATASET)
    with pytest.raises(UsageError, match=r"must be at least 2\.0\.0.*nothing was released"):
        release(run, report, Released(strict_version=True), "1.1.0")
    assert report.release is not None
    assert not report.release.exists()
    release(run, report, Released(strict_version=True), "2.0.0")
    assert report.warnings == []


def test_a_release_is_not_built_again_where_nothing_changed(run: RunContext) -> None:
    """Without the pictures in the blob store it cannot be built, but is read and found sound."""
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


def test_a_damaged_release_is_not_taken_for_sound(run: RunContext) -> None:
    report = BuildReport(DATASET)
    release(run, report, Released(), "2.0.0")
    assert report.release is not None
    image = next((report.release / "images").rglob("*.jpg"))
    image.write_bytes(image.read_bytes() + b"!")
    with pytest.raises(IntegrityError, match="nothing was written"):
        release(run, report, Released(), "2.0.0")


def test_builds_are_not_strict_unless_they_say_so() -> None:
    source = {"name": "x", "format": "cuhk-pedes", "annotations": "a.json", "images": "."}
    assert not UFine3CBuild.model_validate({"sources": [source]}).strict_version
    strict = UFine3CBuild.model_validate({"sources": [source], "strict_version": True})
    assert strict.strict_version
