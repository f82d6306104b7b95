"""Where releases are put together, and what killed builds leave behind."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from release.files import locked_folder, remove_abandoned, workspace_for
from schemas.errors import UsageError


def test_what_killed_builds_left_goes_and_what_is_being_built_stays(tmp_path: Path) -> None:
    left = tmp_path / ".people-1.0.0.building-abc" / "content" / "images"
    left.mkdir(parents=True)
    (left / "1.jpg").touch()
    (tmp_path / "people-0.9.0").mkdir()
    with workspace_for(tmp_path / "people-1.1.0") as workspace:
        assert remove_abandoned(tmp_path) == [".people-1.0.0.building-abc"]
        assert workspace.content.is_dir()
        there = sorted(path.name for path in tmp_path.iterdir())
        assert there == sorted([workspace.home.name, "people-0.9.0"])
    assert remove_abandoned(tmp_path / "nowhere") == []


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file/people", tmp_path / "file/below/people"):
        with (
            pytest.raises(UsageError, match=r"/file.* cannot be written to \("),
            workspace_for(out),
        ):
            pass


def test_a_place_of_any_name_finds_its_own_leftovers_and_no_others(tmp_path: Path) -> None:
    others, other = tmp_path / ".other.building-abc", tmp_path / ".x1.building-abc"
    for left in (others, other):
        left.mkdir()
    for name in ("x[1]", "*", "?", "[!a]"):
        mine = tmp_path / f".{name}.building-abc"
        mine.mkdir()
        with workspace_for(tmp_path / name):
            assert not mine.exists()
            assert others.is_dir()
            assert other.is_dir()


def test_what_is_no_folder_is_no_leftover(tmp_path: Path) -> None:
    (tmp_path / ".out.building-abc").touch()
    with workspace_for(tmp_path / "out") as workspace:
        assert workspace.content.is_dir()
    assert (tmp_path / ".out.building-abc").is_file()


def taken(parent: Path, prefix: str, take: Callable[[Path], object]) -> tuple[Path, list[Path]]:
    """The folder that is locked where somebody takes the first before it is; all that were made."""
    made: list[Path] = []

    def make(prefix: str, dir: Path) -> str:  # noqa: A002 - as `mkdtemp` calls it
        made.append(Path(tempfile.mkdtemp(prefix=prefix, dir=dir)))
        if len(made) == 1:
            take(made[0])
        return str(made[-1])

    home, lock = locked_folder(parent, prefix, make)
    try:
        assert home.is_dir()
        assert remove_abandoned(parent) == []
    finally:
        os.close(lock)
    assert remove_abandoned(parent) == [home.name]
    return home, made


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(tmp_path: Path) -> None:
    home, made = taken(tmp_path, ".out.building-", lambda _: remove_abandoned(tmp_path))
    assert home == made[1]
    assert not made[0].exists()


def test_a_folder_that_is_being_removed_is_left_to_who_removes_it(tmp_path: Path) -> None:
    held: list[int] = []

    def hold(folder: Path) -> None:
        held.append(os.open(folder, os.O_RDONLY))
        fcntl.flock(held[0], fcntl.LOCK_EX)

    try:
        home, made = taken(tmp_path, ".out.building-", hold)
    finally:
        os.close(held[0])
    assert home == made[1]
    assert made[0].is_dir()
