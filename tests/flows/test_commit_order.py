"""The store does not depend on the order in which chunks of a stage are committed."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from loupe.annotate.backend import Desks
from loupe.db.store import Store
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.runner import Stage
from loupe.flows.recos.pipeline import recos_pipeline
from tests.flows.ccd_world import contrast_build, contrast_profile, searched_folder
from tests.flows.drawn_stills import DrawnStills
from tests.flows.homes import contents_of
from tests.flows.recos_world import small_build, small_profile
from tests.flows.runs import context_of

pytestmark = pytest.mark.soak

_SECONDS = 0.004
_WORKERS = 6


class _OutOfOrder(ThreadPoolExecutor):
    """Threads whose chunks end in a random order."""

    def __init__(self, workers: int, thread_name_prefix: str, chance: random.Random) -> None:
        super().__init__(workers, thread_name_prefix)
        self._chance = chance

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:  # type: ignore[override]
        seconds = self._chance.random() * _SECONDS

        def late() -> None:
            time.sleep(seconds)
            function(*args)

        return super().submit(late)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every input its own chunk, and run several at a time unless a stage needs an order."""
    original = Stage.__init__

    def init(self: Stage, *first: Any, **values: Any) -> None:
        workers = 1 if values.get("workers") == 1 else _WORKERS
        original(self, *first, **{**values, "chunk_size": 1, "workers": workers})

    monkeypatch.setattr(Stage, "__init__", init)


def no_desks() -> Desks:
    raise AssertionError("no annotator may be asked")


def run_out_of_order(
    home: Path, database: Path, seed: int, pipeline: Any, build: Any, profile: Any
) -> dict[str, Counter[Any]]:
    """Run a build in `home` whose chunks end in the order of `seed`; return what it stored."""
    executor = partial(_OutOfOrder, chance=random.Random(seed))
    home.mkdir()
    shutil.copy(database, home / "loupe.db")
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    with patch("loupe.flows.engine.runner.ThreadPoolExecutor", executor):
        report = run_pipeline(context_of(store, home), pipeline, build, profile, no_desks)
    store.close()
    assert report.release_id is not None
    return contents_of(home)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.timeout(300)
def test_the_store_of_build_ccd_does_not_depend_on_commit_order(
    tmp_path: Path, migrated_sqlite: Path, drawn_stills: DrawnStills
) -> None:
    stills = drawn_stills(24)
    folder = searched_folder(stills, tmp_path / "pictures")
    build = contrast_build(stills, anchors=2, methods=("search", "edit"), search_folder=folder)
    first, second = (
        run_out_of_order(
            tmp_path / str(seed), migrated_sqlite, seed, ccd_pipeline(), build, contrast_profile()
        )
        for seed in (1, 2)
    )
    assert first == second


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.timeout(300)
def test_the_store_of_build_recos_does_not_depend_on_commit_order(
    tmp_path: Path, migrated_sqlite: Path, drawn_stills: DrawnStills
) -> None:
    build = small_build(drawn_stills(60), tmp_path, last="v2")
    first, second = (
        run_out_of_order(
            tmp_path / str(seed), migrated_sqlite, seed, recos_pipeline(), build, small_profile()
        )
        for seed in (1, 2)
    )
    assert first == second
