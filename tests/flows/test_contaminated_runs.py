"""Runs whose release is compared with other datasets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from db.blobs import BlobStore
from flows.engine.context import RunContext
from flows.engine.releasing import release
from flows.engine.report import BuildReport
from release.manifest import read_manifest
from schemas.errors import UsageError
from tests.flows.runs import Released, context_of
from tests.release.worlds import DATASET, SOURCES, Composer, picture, store_world


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunContext]:
    """A dataset of four images, in the home of a run."""
    composer = Composer()
    for number in range(4):
        image = composer.image(SOURCES[0], str(number), f"{number}.jpg", data=picture(number))
        composer.caption(image, SOURCES[0], f"Person {number}.")
    world = store_world(tmp_path / "world", composer.contents())
    context = context_of(world.store, tmp_path)
    for one in composer.pictures:
        BlobStore(context.settings.blobs_url).put(one, "image/jpeg")
    yield context
    world.store.close()


def test_what_a_build_shares_is_stated_in_its_release(run: RunContext, tmp_path: Path) -> None:
    (tmp_path / "test-images").mkdir()
    (tmp_path / "test-images" / "renamed.jpg").write_bytes(picture(2))
    report = BuildReport(DATASET)
    release(
        run, report, Released(against=(f"theirs={tmp_path}/test-images", "cuhk-pedes")), "1.0.0"
    )
    assert report.release is not None
    folder, dataset = read_manifest(report.release).contamination
    assert (folder.name, [one.leaks for one in folder.measures]) == ("theirs", [1, 1])
    assert (dataset.name, dataset.images, dataset.measures[0].leaks) == ("cuhk-pedes", 4, 4)


def test_a_name_that_nothing_has_ends_the_run(run: RunContext) -> None:
    with pytest.raises(UsageError, match="neither a folder nor a dataset with images"):
        release(run, BuildReport(DATASET), Released(against=("nobody",)), "1.0.0")
