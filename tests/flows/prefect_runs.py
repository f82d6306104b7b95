"""A Prefect server with a worker, and deployments run on it as a user runs them."""

import subprocess
import sys
from typing import Any, NamedTuple

import httpx

from profiles.settings import Settings
from services.prefect_server import prefect_environment, prefect_login


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

    def artifacts(self) -> dict[str, Any]:
        """What the newest artifact of each key shows."""
        found = self.ask("artifacts/latest/filter", {"limit": 200})
        return {one["key"]: one["data"] for one in found}

    def ask(self, what: str, query: dict[str, Any]) -> Any:
        answer = httpx.post(
            f"{self.url}/api/{what}",
            json=query,
            auth=prefect_login(self.settings.home),
            timeout=60,
            trust_env=False,
        )
        return answer.raise_for_status().json()
