"""Workspaces of builds and the leftovers of killed builds."""

from pathlib import Path

import pytest

from loupe.release.format.files import remove_abandoned, workspace_for
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
