from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.worlds import World, small_world, store_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = store_world(tmp_path / "world", small_world().contents())
    yield world
    world.store.close()
