import json
from pathlib import Path
from typing import Any

import pytest

from loupe.flows.evaluation.training import find_training_images
from loupe.release.build import build_release
from loupe.schemas.cfam import CfamTraining
from loupe.schemas.errors import FormatError, UsageError
from tests.release.worlds import DATASET, SOURCES, Composer, store_world

SETTINGS = CfamTraining(validation_share=0.25)


def released(folder: Path, *splits: str) -> Path:
    """A release with six identities in each of `splits`, two images each."""
    world = Composer()
    for split in splits:
        for number in range(12):
            name = f"{split}{number // 2}"
            image = world.image(SOURCES[0], name, f"{split}/{number}.jpg", split=split)  # type: ignore[arg-type]
            world.caption(image, SOURCES[0], f"Person {name} in a coat.")
    stored = store_world(folder / "world", world.contents())
    built = build_release(stored.store, stored.blobs, DATASET, "1.0.0", folder / "release")
    stored.store.close()
    return built.folder


def test_validation_identities_are_held_out_of_the_train_split(tmp_path: Path) -> None:
    found = find_training_images(released(tmp_path, "train", "test"), SETTINGS)
    trained, validated = found.splits
    assert (len(trained), len(validated)) == (8, 4)
    assert not {one.identity for one in trained} & {one.identity for one in validated}
    assert all("train" in text for one in (*trained, *validated) for text in one.captions)
    assert found.name == f"{DATASET} 1.0.0"
    assert found.validation_split == "held out of train"
    assert found.release_id is not None


def test_a_val_split_is_used_for_validation(tmp_path: Path) -> None:
    found = find_training_images(released(tmp_path, "train", "val"), SETTINGS)
    assert (len(found.splits.training), len(found.splits.validation)) == (12, 12)
    assert all("val" in text for one in found.splits.validation for text in one.captions)
    assert found.validation_split == "val"


def test_a_release_without_a_train_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no train split, only test; wanted"):
        find_training_images(released(tmp_path, "test"), SETTINGS)


def test_a_folder_without_a_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is neither a release"):
        find_training_images(tmp_path, SETTINGS)


def written(folder: Path, rows: Any) -> Path:
    path = folder / "people.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def row(number: int, **changes: Any) -> dict[str, Any]:
    place = {"split": "train", "id": number // 2, "file_path": f"images/{number}.jpg"}
    return {**place, "captions": ["a man", "in blue"], **changes}


def test_a_file_of_rows_is_read_from_its_image_folder(tmp_path: Path) -> None:
    rows = [row(number) for number in range(10)] + [row(99, split="test")]
    found = find_training_images(written(tmp_path, rows), SETTINGS)
    assert len(found.splits.training) + len(found.splits.validation) == 10
    assert {image.path.parent for image in found.splits.training} == {tmp_path / "images"}
    assert found.release_id is None


def test_a_file_in_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"people\.json: "):
        find_training_images(written(tmp_path, {}), SETTINGS)
    rows = [row(0), row(1, file_path=None)]
    with pytest.raises(FormatError, match=r"row 1: file_path: must be a text, got None"):
        find_training_images(written(tmp_path, rows), SETTINGS)


def test_a_file_without_rows_to_train_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no rows of the train split"):
        find_training_images(written(tmp_path, [row(1, split="test")]), SETTINGS)


def test_an_identity_in_train_and_val_is_refused(tmp_path: Path) -> None:
    rows = [row(number, split="val" if number == 3 else "train") for number in range(8)]
    with pytest.raises(UsageError, match="identity 1 is in train and in val"):
        find_training_images(written(tmp_path, rows), SETTINGS)


def test_a_val_split_with_too_few_identities_is_refused(tmp_path: Path) -> None:
    rows = [row(at) for at in range(8)] + [row(at, split="val", id=9) for at in range(20, 24)]
    message = r"^people\.json: 1 identity with captions is too few to validate with"
    with pytest.raises(UsageError, match=message):
        find_training_images(written(tmp_path, rows), SETTINGS)


def test_training_images_without_captions_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [row(number) for number in range(10)]
    rows += [row(10, captions=[]), row(11, captions=[" "]), row(12, captions=["", "in blue"])]
    found = find_training_images(written(tmp_path, rows), SETTINGS)
    images = (*found.splits.training, *found.splits.validation)
    assert (len(images), found.without_captions) == (11, 2)
    assert {text for one in images for text in one.captions} == {"a man", "in blue"}
