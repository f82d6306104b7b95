"""Workspaces of builds and the leftovers of killed builds."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.release.format.files import locked_folder, remove_abandoned, workspace_for
from loupe.schemas.errors import UsageError


def test_leftovers_are_removed_but_running_builds_are_kept(tmp_path: Path) -> None:
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


def test_an_unwritable_folder_raises_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file/people", tmp_path / "file/below/people"):
        with (
            pytest.raises(UsageError, match=r"/file.* cannot be written to \("),
            workspace_for(out),
        ):
            pass


def test_only_leftovers_of_the_same_name_are_removed(tmp_path: Path) -> None:
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


def lock_despite(
    parent: Path, prefix: str, take: Callable[[Path], object]
) -> tuple[Path, list[Path]]:
    """Lock a new folder although `take` interferes with the first one before it is locked.

    Returns the locked folder and all created folders.
    """
    made: list[Path] = []

    def make(prefix: str, dir: Path) -> str:  # noqa: A002 - as in `mkdtemp`
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


def test_a_folder_removed_before_it_is_locked_is_created_again(tmp_path: Path) -> None:
    home, made = lock_despite(tmp_path, ".out.building-", lambda _: remove_abandoned(tmp_path))
    assert home == made[1]
    assert not made[0].exists()


def test_a_folder_locked_by_another_process_is_not_used(tmp_path: Path) -> None:
    held: list[int] = []

    def hold(folder: Path) -> None:
        held.append(os.open(folder, os.O_RDONLY))
        fcntl.flock(held[0], fcntl.LOCK_EX)

    try:
        home, made = lock_despite(tmp_path, ".out.building-", hold)
    finally:
        os.close(held[0])
    assert home == made[1]
    assert made[0].is_dir()
