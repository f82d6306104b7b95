"""`verify` on folders: names that are no text, what cannot be read, and what was left behind."""

import io
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from release.notices import mark_release
from release.verify import rows as verify_rows
from release.verify import verify_release
from tests.release.notice_samples import SHARD, notice_of
from tests.release.worlds import DATASET


def details(folder: Path, *, without_images: bool = False) -> list[tuple[str, str]]:
    """What is found, as (fault, message)."""
    problems = verify_release(folder, without_images=without_images)
    return [(one.fault, one.message) for one in problems]


def in_bytes(path: Path, name: bytes) -> Path:
    """The path of a file in the folder `path` whose name is these bytes."""
    return path / os.fsdecode(name)


def test_a_file_renamed_to_what_is_no_text_is_named(copy: Path) -> None:
    (copy / "images/7.jpg").rename(in_bytes(copy / "images", b"\xff7.jpg"))
    message = r"images/7.jpg was renamed to images/\xff7.jpg"
    assert details(copy) == [("file_renamed", message)]


def test_a_file_whose_name_is_no_text_differs_from_one_that_is_called_as_it_is_shown(
    copy: Path,
) -> None:
    in_bytes(copy, b"\xff").write_bytes(b"one")
    (copy / r"\xff").write_bytes(b"another")
    assert details(copy) == [("file_extra", r"\xff does not belong to the release")] * 2


def test_files_below_a_folder_whose_name_is_no_text_are_named(copy: Path) -> None:
    (copy / "images").rename(in_bytes(copy, b"im\xe4ges"))
    found = details(copy)
    assert [fault for fault, _ in found] == ["file_renamed"] * 12
    assert ("file_renamed", r"images/3.jpg was renamed to im\xe4ges/3.jpg") in found


def test_an_extra_file_that_cannot_be_read_is_extra(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "images/7.jpg").rename(copy / "images/extra")
    refuse(monkeypatch, copy / "images/extra")
    assert details(copy) == [
        ("file_extra", "images/extra does not belong to the release"),
        ("file_missing", "images/7.jpg is missing"),
    ]


def leave_out_images(folder: Path) -> None:
    shutil.rmtree(folder / "images")


def test_images_may_be_left_out_whatever_else_is_wrong(copy: Path) -> None:
    leave_out_images(copy)
    assert details(copy, without_images=True) == []
    (copy / "note.txt").write_text("hi")
    (copy / "words.svg").unlink()
    wrong = [
        ("file_extra", "note.txt does not belong to the release"),
        ("file_missing", "words.svg is missing"),
    ]
    assert details(copy, without_images=True) == wrong
    faults = [fault for fault, _ in details(copy)]
    assert faults == ["file_extra", "images_left_out", "file_missing"]


def test_an_image_that_is_left_out_is_missing_where_others_lie_there(copy: Path) -> None:
    (copy / "images/7.jpg").unlink()
    missing = [("file_missing", "images/7.jpg is missing")]
    assert details(copy, without_images=True) == missing


def test_images_that_were_renamed_are_named_though_images_may_be_left_out(copy: Path) -> None:
    (copy / "images/7.jpg").rename(copy / "seven.jpg")
    leave_out_images(copy)
    renamed = [("file_renamed", "images/7.jpg was renamed to seven.jpg")]
    assert details(copy, without_images=True) == renamed
    assert [fault for fault, _ in details(copy)] == ["file_renamed"] + ["file_missing"] * 11


def test_images_that_were_erased_are_not_there_either(copy: Path) -> None:
    mark_release(copy, [notice_of(copy, 2)], erase=True)
    leave_out_images(copy)
    assert [fault for fault, _ in details(copy, without_images=True)] == ["withdrawn", "erased"]


def test_a_release_of_a_single_image_can_be_verified_without_it(copy: Path) -> None:
    """Of those that are listed only one is an image."""
    manifest = json.loads((copy / "manifest.json").read_text())
    images = [one["path"] for one in manifest["files"] if one["path"].startswith("images/")]
    manifest["files"] = [one for one in manifest["files"] if one["path"] not in images[1:]]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    leave_out_images(copy)
    missing = ("file_missing", f"{images[0]} is missing")
    assert missing in details(copy)
    assert missing not in details(copy, without_images=True)


def replace_by_socket(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)


def replace_by_pipe(path: Path, _: pytest.MonkeyPatch) -> None:
    os.mkfifo(path)


def replace_by_link(path: Path, _: pytest.MonkeyPatch) -> None:
    path.symlink_to("4.jpg")


def test_what_is_no_file_is_called_what_it_is(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy / "images/7.jpg"
    for replace, kind in (
        (replace_by_socket, "a socket"),
        (replace_by_pipe, "a pipe"),
        (replace_by_link, "a link"),
    ):
        path.unlink()
        replace(path, monkeypatch)
        assert ("not_a_file", f"images/7.jpg is {kind}, not a file") in details(copy)


def test_a_manifest_that_cannot_be_read_is_one_sentence(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, copy / "manifest.json")
    sentence = "manifest.json cannot be read (Permission denied)"
    assert details(copy) == [("manifest_unreadable", sentence)]


def test_a_file_that_cannot_be_read_is_named_once(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (f"{DATASET}.json", SHARD, "images/7.jpg", "README.md", "lineage/entities.parquet")
    for path in files:
        with monkeypatch.context() as patch:
            refuse(patch, copy / path)
            assert details(copy) == [("not_readable", f"{path} cannot be read (Permission denied)")]


def test_a_folder_that_cannot_be_listed_is_named_and_nothing_in_it_is_missing(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "extra").touch()
    extra = ("file_extra", "extra does not belong to the release")
    for folder in ("data", "images", "lineage"):
        with monkeypatch.context() as patch:
            refuse(patch, copy / folder)
            why = "(Permission denied); not all files in it were found"
            assert details(copy) == [("not_readable", f"{folder} cannot be read {why}"), extra]


def test_a_release_whose_folder_cannot_be_listed_is_read_on(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / f"{DATASET}.json").write_text("[]")
    refuse_listing(monkeypatch, copy)
    faults = [fault for fault, _ in details(copy)]
    assert faults[0] == "not_readable"
    assert set(faults[1:]) == {"rows_differ"}


def test_rows_that_cannot_be_read_though_their_digest_could_are_named(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Path) -> Iterator[dict[str, object]]:
        raise OSError(5, "Input/output error")
        yield {}

    monkeypatch.setattr(verify_rows, "read_parquet_batches", failing)
    message = "data/test-00000-of-00001.parquet cannot be read (Input/output error)"
    assert details(copy) == [("rows_unreadable", message)]


def test_what_may_be_erased_in_a_folder_that_cannot_be_read_is_not_called_erased(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_release(copy, [notice_of(copy, 2)], erase=True)
    refuse(monkeypatch, copy / "images")
    found = dict(details(copy))
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
