"""Builds that compare their release with other datasets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.blobs import BlobStore
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.releasing import release
from loupe.release.format.manifest import read_manifest
from loupe.schemas.errors import UsageError
from tests.flows.runs import Released, context_of
from tests.release.worlds import DATASET, SOURCES, Composer, picture, store_world


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunContext]:
    """A run with a dataset of four images."""
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


def test_a_release_states_the_images_it_shares_with_other_datasets(
    run: RunContext, tmp_path: Path
) -> None:
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


def test_an_unknown_name_to_compare_with_is_refused(run: RunContext) -> None:
    with pytest.raises(UsageError, match="neither a folder nor a dataset with images"):
        release(run, BuildReport(DATASET), Released(against=("nobody",)), "1.0.0")
