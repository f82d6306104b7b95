"""`verify` on undecodable names, unreadable files and missing images."""

import io
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.release.verify import verify_release
from loupe.release.withdrawn.notices import mark_release
from tests.release.notice_samples import SHARD, notice_of
from tests.release.worlds import DATASET


def details(folder: Path, *, without_images: bool = False) -> list[tuple[str, str]]:
    """Faults and messages of the problems found."""
    problems = verify_release(folder, without_images=without_images).problems
    return [(one.fault, one.message) for one in problems]


def test_a_file_with_an_undecodable_name_is_reported(copy: Path) -> None:
    (copy / "images/7.jpg").rename(copy / "images" / os.fsdecode(b"\xff7.jpg"))
    assert details(copy) == [
        ("file_extra", r"images/\xff7.jpg is not a listed file"),
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


def test_an_unreadable_file_is_reported(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (f"{DATASET}.json", SHARD, "images/7.jpg", "README.md", "lineage/entities.parquet")
    for path in files:
        with monkeypatch.context() as patch:
            refuse(patch, copy / path)
            found = details(copy)
        assert ("not_readable", f"{path} cannot be read (Permission denied)") in found


def refuse(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    """Make a file inaccessible, also for root."""
    for module, name in ((os, "open"), (io, "open"), (pq, "ParquetFile")):
        _deny(monkeypatch, module, name, refused)


def _deny(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, refused: Path) -> None:
    real = getattr(module, name)

    def guarded(path: object, *arguments: Any, **options: Any) -> Any:
        if str(path) == str(refused):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(module, name, guarded)
