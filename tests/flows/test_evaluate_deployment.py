"""`prefect deployment run evaluate/default`, on a real Prefect server and worker."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from db.evaluations import evaluations_of
from db.store import Store
from profiles.settings import Settings, load_settings
from release.build import build_release
from release.reading import read_release
from services.components import Component
from services.installation import bring_up, take_down
from services.prefect_server import prefect_environment
from services.process import free_port
from tests.flows.worlds import own_environment
from tests.release.worlds import small_world, store_world

pytestmark = [pytest.mark.prefect, pytest.mark.slow]


class Prefect(NamedTuple):
    """A Prefect server with a worker, and nothing else of an installation."""

    settings: Settings

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.prefect_port}"

    def run(self, flow: str, **parameters: object) -> dict[str, Any]:
        """What a user types; the state that the flow run ended in."""
        given = [f"--param={name}={value}" for name, value in parameters.items()]
        subprocess.run(
            [sys.executable, "-m", "prefect", "deployment", "run", flow, *given, "--watch"],
            cwd=self.settings.home,
            env=prefect_environment(self.settings.home, self.url),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        newest = {"sort": "EXPECTED_START_TIME_DESC", "limit": 1}
        state: dict[str, Any] = self.ask("flow_runs/filter", newest)[0]["state"]
        return state

    def ask(self, what: str, query: dict[str, Any]) -> Any:
        answer = httpx.post(f"{self.url}/api/{what}", json=query, timeout=60, trust_env=False)
        return answer.raise_for_status().json()


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    with own_environment():
        settings = load_settings(
            home=tmp_path_factory.mktemp("installation"), prefect_port=free_port()
        )
        try:
            steps: list[str] = []
            bring_up(settings, [Component.PREFECT], settings.home, steps.append)
            yield Prefect(settings)
        finally:
            take_down(settings.home)


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
    artifacts = prefect.ask("artifacts/latest/filter", {"limit": 200})
    shown = {one["key"]: one["data"] for one in artifacts}
    assert f"| loupe-colour-lexicon@1 | {score:.2f}" in shown["ufine3c-leaderboard"]

    again = prefect.run("evaluate/default", release=released, profile="builtin")
    assert again["message"] == first["message"]
    assert len(evaluations_of(store, read_release(released).manifest.id)) == 1
    store.close()


def test_a_fault_of_the_user_is_one_sentence(prefect: Prefect, tmp_path: Path) -> None:
    state = prefect.run("evaluate/default", release=tmp_path)
    assert state["type"] == "FAILED"
    assert state["message"] == f"there is no release in {tmp_path}: it holds no manifest.json"
