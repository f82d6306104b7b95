"""`prefect deployment run evaluate/default`, on a real Prefect server and worker."""

from pathlib import Path

import pytest

from db.evaluations import evaluations_of
from db.store import Store
from release.build import build_release
from release.reading import read_release
from tests.flows.prefect_runs import Prefect
from tests.release.worlds import small_world, store_world

pytestmark = [pytest.mark.prefect, pytest.mark.slow]


@pytest.fixture
def released(tmp_path: Path) -> Path:
    world = store_world(tmp_path, small_world().contents())
    build_release(world.store, world.blobs, "ufine3c", "1.0.0", tmp_path / "release")
    world.store.close()
    return tmp_path / "release"


@pytest.mark.timeout(1500)
def test_a_release_is_scored_by_its_deployment(prefect: Prefect, released: Path) -> None:
    first = prefect.run("evaluate/default", release=released, profile="builtin")
    assert first["type"] == "COMPLETED", first["message"]
    home = prefect.settings.home
    page = home / "leaderboards" / "ufine3c-1.0.0-test" / "leaderboard.html"
    assert first["message"].endswith(f"the leaderboard is {page}")
    assert page.is_file()
    store = Store.open(prefect.settings.database_url)
    (stored,) = evaluations_of(store, read_release(released).manifest.id)
    score = stored.result.directions[0].scores["R@1"].value
    assert f"loupe-colour-lexicon@1 {score:.1f} %" in first["message"]
    shown = prefect.artifacts()["ufine3c-leaderboard"]
    assert f"| loupe-colour-lexicon@1 | {score:.2f}" in shown

    again = prefect.run("evaluate/default", release=released, profile="builtin")
    assert again["message"] == first["message"]
    assert len(evaluations_of(store, read_release(released).manifest.id)) == 1
    store.close()


def test_a_fault_of_the_user_is_one_sentence(prefect: Prefect, tmp_path: Path) -> None:
    state = prefect.run("evaluate/default", release=tmp_path)
    assert state["type"] == "FAILED"
    assert state["message"] == f"there is no release in {tmp_path}: it holds no manifest.json"
