"""A Prefect server with a worker, on which tests run deployments as a user does."""

import time
from typing import Any, NamedTuple

import httpx

from loupe.db.store import Store
from loupe.models.profiles.settings import Settings
from loupe.services.prefect_server import prefect_login
from loupe.services.process import PLAIN_HTTP

FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED", "PAUSED")
_BUSY_ATTEMPTS = 5
LONGEST_SECONDS = 900


class FlowRun(NamedTuple):
    """The result of a run on the server."""

    id: str
    name: str
    state: str
    message: str


class Prefect(NamedTuple):
    """A Prefect server with a worker."""

    settings: Settings

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.prefect_port}"

    @property
    def store(self) -> Store:
        """Open the store of the installation; the caller closes it."""
        return Store.open(self.settings.database_url)

    def run(self, deployment: str, **parameters: object) -> FlowRun:
        """Run a deployment to its end with the request of Prefect's web page."""
        found = self.deployment(deployment)
        given = {name: str(value) for name, value in parameters.items()}
        path = f"deployments/{found['id']}/create_flow_run"
        return self._followed(self._request("POST", path, {"parameters": given}))

    def resume(self, run: FlowRun) -> FlowRun:
        """Resume a paused run with the request of Prefect's web page and follow it to its end."""
        self._request("POST", f"flow_runs/{run.id}/resume", {})
        return self._followed(self._request("GET", f"flow_runs/{run.id}"))

    def follow(self, paused: FlowRun) -> FlowRun:
        """Wait until somebody else resumes a paused run, and follow it to its end."""
        until = time.monotonic() + LONGEST_SECONDS
        while (run := self._request("GET", f"flow_runs/{paused.id}"))["state"]["type"] == "PAUSED":
            assert time.monotonic() < until, run["state"]
            time.sleep(0.4)
        return self._followed(run)

    def _followed(self, run: dict[str, Any]) -> FlowRun:
        until = time.monotonic() + LONGEST_SECONDS
        while run["state"]["type"] not in FINAL:
            assert time.monotonic() < until, run["state"]
            time.sleep(0.4)
            run = self._request("GET", f"flow_runs/{run['id']}")
        return FlowRun(run["id"], run["name"], run["state"]["type"], run["state"]["message"])

    def deployment(self, name: str) -> dict[str, Any]:
        """Return the server's record of a deployment."""
        found: dict[str, Any] = self._request("GET", f"deployments/name/{name}")
        return found

    def newest_state(self) -> dict[str, Any]:
        """Return the state of the newest flow run."""
        newest = {"sort": "EXPECTED_START_TIME_DESC", "limit": 1}
        state: dict[str, Any] = self.ask("flow_runs/filter", newest)[0]["state"]
        return state

    def artifacts(self) -> dict[str, Any]:
        """Return the data of the newest artifact of each key."""
        found = self.ask("artifacts/latest/filter", {"limit": 200})
        return {one["key"]: one["data"] for one in found}

    def ask(self, what: str, query: dict[str, Any]) -> Any:
        """Return the server's answer to a query."""
        return self._request("POST", what, query)

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request, again while the database is busy (503), as Prefect's client does."""
        for _ in range(_BUSY_ATTEMPTS):
            answer = httpx.request(
                method,
                f"{self.url}/api/{path}",
                json=body,
                auth=prefect_login(self.settings.home),
                timeout=120,
                trust_env=False,
                verify=PLAIN_HTTP,
            )
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(1)
        return answer.raise_for_status().json()
