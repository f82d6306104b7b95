"""An installation with a worker, an image server and the desk of the tests, used as by users."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from db.store import Store
from profiles.settings import Settings, load_settings
from services.components import Component
from services.installation import bring_up, take_down
from services.prefect_server import prefect_environment, prefect_login
from services.process import free_port
from tests.flows.worlds import own_environment
from tests.services.fixtures import LabelStudioServer


class FlowRun(NamedTuple):
    """The result of a run, for its user and on the server."""

    exit_code: int
    output: str
    state: str
    message: str


class Installation(NamedTuple):
    """Prefect with a worker, the image server, and the Label Studio of the tests."""

    settings: Settings

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.settings.prefect_port}/api"

    @property
    def store(self) -> Store:
        return Store.open(self.settings.database_url)

    def run(self, config: Path, profile: str, flow: str = "build-ufine3c") -> FlowRun:
        """Runs a build as a user does."""
        return self.deployment(f"{flow}/default", config=config, profile=profile)

    def deployment(self, name: str, **parameters: object) -> FlowRun:
        """Runs a deployment as a user does."""
        given = [word for pair in parameters.items() for word in ("--param", "{}={}".format(*pair))]
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "deployment", "run", name, *given, "--watch"],
            cwd=self.settings.home,
            env=prefect_environment(self.settings.home, self.api_url.removesuffix("/api")),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        newest = {"sort": "EXPECTED_START_TIME_DESC", "limit": 1}
        state = self.ask("flow_runs/filter", newest)[0]["state"]
        return FlowRun(done.returncode, done.stdout, state["type"], state["message"])

    def ask(self, what: str, query: dict[str, Any]) -> Any:
        answer = httpx.post(
            f"{self.api_url}/{what}",
            json=query,
            auth=prefect_login(self.settings.home),
            timeout=60,
            trust_env=False,
        )
        return answer.raise_for_status().json()

    def artifacts(self) -> dict[str, dict[str, Any]]:
        """The newest artifact of each key."""
        found = self.ask("artifacts/latest/filter", {"limit": 200})
        return {artifact["key"]: artifact for artifact in found}


@contextmanager
def running_installation(home: Path, label_studio: LabelStudioServer) -> Iterator[Installation]:
    """An installation in `home` that is up, and taken down in the end."""
    with own_environment():
        settings = load_settings(
            home=home,
            prefect_port=free_port(),
            blobs_port=free_port(),
            label_studio_url=label_studio.url,
            label_studio_token=label_studio.token,
        )
        try:
            steps: list[str] = []
            bring_up(settings, list(Component), settings.home, steps.append)
            yield Installation(settings)
        finally:
            take_down(settings.home)
