"""`verify` on folders with undecodable names, unreadable files and missing images."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.release.verify import rows as verify_rows
from loupe.release.verify import verify_release
from loupe.release.withdrawn.notices import mark_release
from tests.release.notice_samples import SHARD, notice_of
from tests.release.worlds import DATASET


def details(folder: Path, *, without_images: bool = False) -> list[tuple[str, str]]:
    """Faults and messages of the problems found."""
    problems = verify_release(folder, without_images=without_images).problems
    return [(one.fault, one.message) for one in problems]


def in_bytes(path: Path, name: bytes) -> Path:
    """Path of a file in the folder `path` with a name of these bytes."""
    return path / os.fsdecode(name)


def test_a_file_renamed_to_an_undecodable_name_is_reported(copy: Path) -> None:
    (copy / "images/7.jpg").rename(in_bytes(copy / "images", b"\xff7.jpg"))
    message = r"images/7.jpg was renamed to images/\xff7.jpg"
    assert details(copy) == [("file_renamed", message)]


def test_files_in_a_folder_with_an_undecodable_name_are_reported(copy: Path) -> None:
    (copy / "images").rename(in_bytes(copy, b"im\xe4ges"))
    found = details(copy)
    assert [fault for fault, _ in found] == ["file_renamed"] * 12
    assert ("file_renamed", r"images/3.jpg was renamed to im\xe4ges/3.jpg") in found


def test_an_unreadable_extra_file_is_reported_as_extra(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "images/7.jpg").rename(copy / "images/extra")
    refuse(monkeypatch, copy / "images/extra")
    assert details(copy) == [
        ("file_extra", "images/extra is not a listed file"),
        ("file_missing", "images/7.jpg is missing"),
    ]


def leave_out_images(folder: Path) -> None:
    shutil.rmtree(folder / "images")


def test_images_may_be_left_out_despite_other_faults(copy: Path) -> None:
    leave_out_images(copy)
    assert details(copy, without_images=True) == []
    (copy / "note.txt").write_text("hi")
    (copy / "words.svg").unlink()
    wrong = [
        ("file_extra", "note.txt is not a listed file"),
        ("file_missing", "words.svg is missing"),
    ]
    assert details(copy, without_images=True) == wrong
    faults = [fault for fault, _ in details(copy)]
    assert faults == ["file_extra", "images_left_out", "file_missing"]


def test_leaving_out_one_of_several_images_is_reported(copy: Path) -> None:
    (copy / "images/7.jpg").unlink()
    missing = [("file_missing", "images/7.jpg is missing")]
    assert details(copy, without_images=True) == missing


def test_left_out_images_may_include_erased_ones(copy: Path) -> None:
    mark_release(copy, [notice_of(copy, 2)], erase=True)
    leave_out_images(copy)
    assert [fault for fault, _ in details(copy, without_images=True)] == ["withdrawn", "erased"]


def test_an_unreadable_manifest_is_one_problem(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, copy / "manifest.json")
    sentence = "manifest.json cannot be read (Permission denied)"
    assert details(copy) == [("manifest_unreadable", sentence)]


def test_an_unreadable_file_is_reported_once(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (f"{DATASET}.json", SHARD, "images/7.jpg", "README.md", "lineage/entities.parquet")
    for path in files:
        with monkeypatch.context() as patch:
            refuse(patch, copy / path)
            assert details(copy) == [("not_readable", f"{path} cannot be read (Permission denied)")]


def test_files_in_an_unlistable_folder_are_not_reported_as_missing(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "extra").touch()
    extra = ("file_extra", "extra is not a listed file")
    for folder in ("data", "images", "lineage"):
        with monkeypatch.context() as patch:
            refuse(patch, copy / folder)
            why = "(Permission denied); not all files in it were found"
            assert details(copy) == [("not_readable", f"{folder} cannot be read {why}"), extra]


def test_a_release_in_an_unlistable_folder_is_still_verified(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / f"{DATASET}.json").write_text("[]")
    refuse_listing(monkeypatch, copy)
    faults = [fault for fault, _ in details(copy)]
    assert faults[0] == "not_readable"
    assert set(faults[1:]) == {"rows_differ"}


def test_read_errors_in_rows_with_a_valid_digest_are_reported(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Iterator[dict[str, object]]:
        raise OSError(5, "Input/output error")
        yield {}

    monkeypatch.setattr(verify_rows, "read_parquet_pages", failing)
    message = "data/test-00000-of-00001.parquet cannot be read (Input/output error)"
    assert details(copy) == [("rows_unreadable", message)]


def test_images_in_an_unreadable_folder_are_not_reported_as_erased(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_release(copy, [notice_of(copy, 2)], erase=True)
    refuse(monkeypatch, copy / "images")
    found = dict(details(copy))
    assert found.keys() == {"withdrawn", "erased", "not_readable"}
    assert "images/" not in found["erased"]


def refuse(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Make these files and the contents of these folders inaccessible, also for root."""
    refused = [str(path) for path in paths]

    def is_refused(path: object) -> bool:
        return any(str(path) == one or str(path).startswith(f"{one}/") for one in refused)

    for module, name in ((os, "open"), (os, "stat"), (os, "lstat"), (io, "open"),
                         (pq, "ParquetFile")):  # fmt: skip
        _deny(monkeypatch, module, name, is_refused)
    refuse_listing(monkeypatch, *paths)


def refuse_listing(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Make these folders impossible to list; their files can still be opened."""
    refused = {str(folder) for folder in folders}
    _deny(monkeypatch, os, "scandir", lambda path: str(path) in refused)


def _deny(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    is_refused: Callable[[object], bool],
) -> None:
    real = getattr(module, name)

    def guarded(path: object, *arguments: Any, **options: Any) -> Any:
        if is_refused(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(module, name, guarded)
