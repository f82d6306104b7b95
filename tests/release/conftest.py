"""Fixtures: a small world and releases built from it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.release.build import build_release
from tests.release.kinds import KINDS, Built, built
from tests.release.worlds import DATASET, World, small_world, store_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = store_world(tmp_path / "world", small_world().contents())
    yield world
    world.store.close()


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a valid release, read-only."""
    home = tmp_path_factory.mktemp("release")
    world = store_world(home / "world", small_world().contents())
    folder = build_release(world.store, world.blobs, DATASET, "1.0.0", home / "out").folder
    world.store.close()
    return folder


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """A copy of the valid release that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "copy"))


@pytest.fixture(scope="session")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """A valid release of every kind, read-only."""
    found = {}
    for kind in KINDS:
        with built(kind, tmp_path_factory.mktemp(kind)) as found[kind]:
            pass
    return found
