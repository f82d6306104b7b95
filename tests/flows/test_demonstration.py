"""The demonstration builds."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from loupe.flows.engine import build_files
from loupe.flows.engine.build_files import DONE, SEED, demonstration_build
from loupe.schemas.build import SourceSpec, UFine3CBuild, UFine6926Build, VideoSourceSpec
from loupe.sources.demonstration import write_people_world


def test_both_demonstrations_can_share_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_files, "VIDEO_SECONDS", 1)
    monkeypatch.setattr(build_files, "VIDEOS", 1)
    people = tmp_path / "demonstration" / f"people-{SEED}"
    write_people_world(people, SEED, 2)  # a small world in its place
    (people / DONE).touch()
    still = demonstration_build(UFine3CBuild, "people", tmp_path)
    moving = demonstration_build(UFine6926Build, "street", tmp_path)
    names = [still.dataset, *names_of(still.sources), moving.dataset, *names_of(moving.sources)]
    assert len(set(names)) == len(names)


def names_of(sources: Sequence[SourceSpec | VideoSourceSpec]) -> list[str]:
    return [source.name for source in sources]
