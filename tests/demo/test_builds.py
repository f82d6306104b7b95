"""The demonstration builds."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from loupe.demo import builds
from loupe.demo.builds import DONE, SEED
from loupe.demo.worlds import write_people_world
from loupe.schemas.build import SourceSpec, VideoSourceSpec


def test_both_demonstrations_can_share_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "VIDEO_SECONDS", 1)
    monkeypatch.setattr(builds, "VIDEOS", 1)
    people = tmp_path / "demonstration" / f"people-{SEED}"
    write_people_world(people, SEED, 2)  # a small world in its place
    (people / DONE).touch()
    still = builds.ufine3c(tmp_path)
    moving = builds.ufine6926(tmp_path)
    names = [still.dataset, *names_of(still.sources), moving.dataset, *names_of(moving.sources)]
    assert len(set(names)) == len(names)


def names_of(sources: Sequence[SourceSpec | VideoSourceSpec]) -> list[str]:
    return [source.name for source in sources]
