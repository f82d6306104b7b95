"""The demonstration builds."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from flows.engine import build_files
from flows.engine.build_files import DONE, SEED, demonstration_build, demonstration_video_build
from schemas.build import SourceSpec, VideoSourceSpec
from sources.demonstration import write_people_world


def test_both_demonstrations_can_share_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_files, "VIDEO_SECONDS", 1)
    monkeypatch.setattr(build_files, "VIDEOS", 1)
    people = tmp_path / "demonstration" / f"people-{SEED}"
    write_people_world(people, SEED, 2)  # a small world in its place
    (people / DONE).touch()
    still, moving = demonstration_build(tmp_path), demonstration_video_build(tmp_path)
    names = [still.dataset, *names_of(still.sources), moving.dataset, *names_of(moving.sources)]
    assert len(set(names)) == len(names)


def names_of(sources: Sequence[SourceSpec | VideoSourceSpec]) -> list[str]:
    return [source.name for source in sources]
