"""The files of the demonstration world of people."""

import json
from pathlib import Path

import pytest
from PIL import Image

from loupe.demo.worlds import DemonstrationWorld, load_truth, write_people_world


def _small_world(folder: Path) -> DemonstrationWorld:
    return write_people_world(folder, 7, 1, 1, 0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> DemonstrationWorld:
    return _small_world(tmp_path_factory.mktemp("world"))


def _contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_three_sources_have_the_published_fields_and_existing_images(
    world: DemonstrationWorld,
) -> None:
    for source in world.sources:
        rows = json.loads(Path(source.annotations).read_text())
        assert {row["split"] for row in rows} >= {"train", "test"}
        for row in rows:
            assert {"id", "file_path", "captions", "split"} <= row.keys()
            with Image.open(source.images / row["file_path"]) as picture:
                assert picture.format == "JPEG"
                assert picture.height == 2 * picture.width


def test_the_same_seed_writes_identical_bytes(world: DemonstrationWorld, tmp_path: Path) -> None:
    _small_world(tmp_path)
    assert _contents(tmp_path) == _contents(world.folder)


def test_another_seed_draws_other_people(world: DemonstrationWorld, tmp_path: Path) -> None:
    write_people_world(tmp_path, 8, identities=1, train_identities=0, validation_identities=0)
    ours, theirs = load_truth(world.folder), load_truth(tmp_path)
    for name in ours:
        assert {i.person for i in ours[name]}.isdisjoint({i.person for i in theirs[name]})


def test_no_person_is_in_two_splits_or_two_sources(world: DemonstrationWorld) -> None:
    identities = [i for source in load_truth(world.folder).values() for i in source]
    assert len({identity.person for identity in identities}) == len(identities)


def test_truth_and_annotations_agree(world: DemonstrationWorld) -> None:
    truth = load_truth(world.folder)
    for source in world.sources:
        rows = json.loads(Path(source.annotations).read_text())
        written = {(r["id"], r["split"], r["file_path"], tuple(r["captions"])) for r in rows}
        known = {
            (identity.id, identity.split, image.file_path, image.captions)
            for identity in truth[source.name]
            for image in identity.images
        }
        assert written == known
