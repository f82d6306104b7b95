"""`verify` on folders: names that are no text, what cannot be read, and what was left behind."""

import os
import shutil
from pathlib import Path

import pytest

from release.build import build_release
from release.verify import verify_release
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


def refuse(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Lets nobody open these files or list these folders, root neither."""
    refused = {str(path) for path in paths}

    def denied(name: str) -> None:
        real = getattr(os, name)

        def asked(path: str | Path, *rest: int) -> object:
            if str(path).rstrip("/") in refused:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *rest)

        monkeypatch.setattr(os, name, asked)

    denied("open")
    denied("scandir")
