"""Reading a release from its folder, and errors for damaged files."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.release.build import build_release
from loupe.release.format.row_files import ReadRelease, _views, chosen_split, read_release
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import Manifest
from tests.release.worlds import SOURCES, Composer, World, small_world, store_world


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("released")
    world = store_world(home, small_world().contents())
    build_release(world.store, world.blobs, "ufine3c", "1.0.0", home / "release")
    world.store.close()
    return home / "release"


@pytest.fixture
def folder(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "release"))


def test_rows_equal_the_published_file(released: Path) -> None:
    read = read_release(released)
    published = json.loads((released / "ufine3c.json").read_text(encoding="utf-8"))
    assert [
        {
            "id": row.id,
            "source": row.source,
            "split": read.split,
            "file_path": row.file_path,
            "captions": [caption.text for caption in row.captions],
        }
        for row in read.rows
    ] == published


def test_one_split_is_read_by_default_test(tmp_path: Path) -> None:
    composer = Composer()
    for number, split in enumerate(("train", "val", "test", "test")):
        image = composer.image(SOURCES[0], str(number), f"{number}.jpg", split=split)  # type: ignore[arg-type]
        composer.caption(image, SOURCES[0], f"a person of {split}, number {number}")
    world: World = store_world(tmp_path, composer.contents())
    build_release(world.store, world.blobs, "ufine3c", "1.0.0", tmp_path / "release")
    world.store.close()

    def texts(read: ReadRelease) -> list[str]:
        return [caption.text for row in read.rows for caption in row.captions]

    assert texts(read_release(tmp_path / "release")) == [
        "a person of test, number 2",
        "a person of test, number 3",
    ]
    assert texts(read_release(tmp_path / "release", "val")) == ["a person of val, number 1"]


def test_a_missing_split_argument_needs_a_single_split(released: Path) -> None:
    manifest = read_release(released).manifest
    train = _with_splits(manifest, "train")
    assert chosen_split(train, None) == "train"
    with pytest.raises(UsageError, match=r"no split 'val'; it has test"):
        chosen_split(manifest, "val")
    with pytest.raises(UsageError, match=r"say which of train, val is meant"):
        chosen_split(_with_splits(manifest, "train", "val"), None)


def _with_splits(manifest: Manifest, *names: str) -> Manifest:
    split = manifest.statistics.splits[0]
    splits = tuple(split.model_copy(update={"split": name}) for name in names)
    statistics = manifest.statistics.model_copy(update={"splits": splits})
    return manifest.model_copy(update={"statistics": statistics})


def test_damaged_files_are_named(folder: Path) -> None:
    image = folder / "images" / "3.jpg"
    good = image.read_bytes()
    image.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=r"images/3.jpg is damaged or was changed"):
        read_release(folder)
    assert len(read_release(folder, check_images=False).rows) == 12
    image.write_bytes(good + b" ")
    with pytest.raises(
        IntegrityError, match=rf"has {len(good) + 1:,} bytes; expected {len(good):,}"
    ):
        read_release(folder, check_images=False)
    image.unlink()
    with pytest.raises(IntegrityError, match=r"images/3.jpg cannot be read"):
        read_release(folder)


def test_an_edited_manifest_is_refused(folder: Path) -> None:
    manifest = folder / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    for old, new, details in (
        ('"demonstration": false', '"demonstration": true', "was changed"),
        ("{", "[", "cannot be"),
    ):
        assert old in text
        manifest.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(IntegrityError, match=details):
            read_release(folder)


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 5), st.integers(0, 50))
def test_views_equal_the_values_of_an_array_slice(
    values: list[bytes | None], offset: int, length: int
) -> None:
    part = pa.array(values, pa.binary()).slice(offset, length)
    views = _views(part)
    assert [None if view is None else bytes(view) for view in views] == part.to_pylist()
    assert [view and list(view) for view in views] == [
        value and list(value) for value in part.to_pylist()
    ]
