"""`verify` on folders: names that are no text, what cannot be read, and what was left behind."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from release import verify_rows
from release.build import build_release
from release.notices import mark_release
from release.verify import verify_release
from tests.release.notice_samples import SHARD, notice_of
from tests.release.worlds import DATASET, small_world, store_world


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("release")
    world = store_world(home / "world", small_world().contents())
    folder = build_release(world.store, world.blobs, DATASET, "1.0.0", home / "out").folder
    world.store.close()
    return folder


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "copy"))


def told(folder: Path, *, without_images: bool = False) -> list[tuple[str, str]]:
    """What is found, as (fault, message)."""
    problems = verify_release(folder, without_images=without_images)
    return [(one.fault, one.message) for one in problems]


def in_bytes(path: Path, name: bytes) -> Path:
    """The path of a file in the folder `path` whose name is these bytes."""
    return path / os.fsdecode(name)


def test_a_file_renamed_to_what_is_no_text_is_named(copy: Path) -> None:
    (copy / "images/7.jpg").rename(in_bytes(copy / "images", b"\xff7.jpg"))
    message = r"images/7.jpg was renamed to images/\xff7.jpg"
    assert told(copy) == [("file_renamed", message)]


def test_a_file_whose_name_is_no_text_is_told_from_one_that_is_called_as_it_is_shown(
    copy: Path,
) -> None:
    in_bytes(copy, b"\xff").write_bytes(b"one")
    (copy / r"\xff").write_bytes(b"another")
    assert told(copy) == [("file_extra", r"\xff does not belong to the release")] * 2


def test_files_below_a_folder_whose_name_is_no_text_are_named(copy: Path) -> None:
    (copy / "images").rename(in_bytes(copy, b"im\xe4ges"))
    found = told(copy)
    assert [fault for fault, _ in found] == ["file_renamed"] * 12
    assert ("file_renamed", r"images/3.jpg was renamed to im\xe4ges/3.jpg") in found


def test_an_extra_file_that_cannot_be_read_is_extra(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "images/7.jpg").rename(copy / "images/extra")
    refuse(monkeypatch, copy / "images/extra")
    assert told(copy) == [
        ("file_extra", "images/extra does not belong to the release"),
        ("file_missing", "images/7.jpg is missing"),
    ]


@pytest.mark.parametrize(
    "path", [f"{DATASET}.json", SHARD, "images/7.jpg", "README.md", "lineage/entities.parquet"]
)
def test_a_file_that_cannot_be_read_is_named_once(
    copy: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, copy / path)
    assert told(copy) == [("not_readable", f"{path} cannot be read (Permission denied)")]


@pytest.mark.parametrize("folder", ["data", "images", "lineage"])
def test_a_folder_that_cannot_be_listed_is_named_and_nothing_in_it_is_missing(
    copy: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "extra").touch()
    refuse(monkeypatch, copy / folder)
    assert told(copy) == [
        (
            "not_readable",
            f"{folder} cannot be read (Permission denied); not all that lies in it was found",
        ),
        ("file_extra", "extra does not belong to the release"),
    ]


def test_a_release_whose_folder_cannot_be_listed_is_read_on(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / f"{DATASET}.json").write_text("[]")
    refuse_listing(monkeypatch, copy)
    faults = [fault for fault, _ in told(copy)]
    assert faults[0] == "not_readable"
    assert set(faults[1:]) == {"row_missing"}


def test_rows_that_cannot_be_read_though_their_digest_could_are_named(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Path) -> Iterator[dict[str, object]]:
        raise OSError(5, "Input/output error")
        yield {}

    monkeypatch.setattr(verify_rows, "read_json_rows", failing)
    message = f"{DATASET}.json cannot be read (Input/output error)"
    assert told(copy) == [("rows_unreadable", message)]


def test_what_may_be_erased_in_a_folder_that_cannot_be_read_is_not_called_erased(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_release(copy, [notice_of(copy, 2)], erase=True)
    refuse(monkeypatch, copy / "images")
    found = dict(told(copy))
    assert found.keys() == {"withdrawn", "erased", "not_readable"}
    assert "images/" not in found["erased"]


def refuse(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Lets nobody open these files, or see what is in these folders: root neither."""
    refused = [str(path) for path in paths]

    def is_refused(path: object) -> bool:
        return any(str(path) == one or str(path).startswith(f"{one}/") for one in refused)

    for module, name in ((os, "open"), (os, "stat"), (os, "lstat"), (io, "open"),
                         (pq, "ParquetFile")):  # fmt: skip
        _deny(monkeypatch, module, name, is_refused)
    refuse_listing(monkeypatch, *paths)


def refuse_listing(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Lets nobody list these folders; files in them can be opened."""
    refused = {str(folder) for folder in folders}
    _deny(monkeypatch, os, "scandir", lambda path: str(path) in refused)


def _deny(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    is_refused: Callable[[object], bool],
) -> None:
    real = getattr(module, name)

    def asked(path: object, *arguments: Any, **options: Any) -> Any:
        if is_refused(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(module, name, asked)
