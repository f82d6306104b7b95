"""The builds of the demonstration, which one installation may hold side by side."""

from collections.abc import Sequence
from pathlib import Path

from flows.engine.build_files import demonstration_build, demonstration_video_build
from schemas.build import SourceSpec, VideoSourceSpec


def test_both_demonstrations_fit_into_one_installation(tmp_path: Path) -> None:
    still, moving = demonstration_build(tmp_path), demonstration_video_build(tmp_path)
    names = [still.dataset, *names_of(still.sources), moving.dataset, *names_of(moving.sources)]
    assert len(set(names)) == len(names)


def names_of(sources: Sequence[SourceSpec | VideoSourceSpec]) -> list[str]:
    return [source.name for source in sources]
