"""Where releases are put together, and what killed builds leave behind."""

from pathlib import Path

import pytest

from release.folder import remove_abandoned, workspace_for
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
