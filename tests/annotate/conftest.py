"""A store with rewrites to review, and workspaces in memory."""

from pathlib import Path

import pytest

from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def office() -> MemoryOffice:
    return MemoryOffice()
