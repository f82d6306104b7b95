"""The explorer: LightlyStudio in an environment of its own, behind a door of ours.

LightlyStudio has no log-in. It listens on a Unix socket in a folder that only its user can enter,
and `door.py`, on the loopback interface, lets nobody in without the key that `loupe explore`
printed. The program that runs in its environment is `studio/loupe_studio`.
"""

import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import LOCAL_VARIABLES, inherited
from loupe.services.environments import environment_python
from loupe.services.process import LOOPBACK, PLAIN_HTTP

STUDIO = Path(__file__).parent / "studio"
_START_SECONDS = 300.0
_LOAD_SECONDS = 1800.0
_LOG_LINES = 15


class Studio(NamedTuple):
    """A running LightlyStudio, and the key with which it talks to the door."""

    process: subprocess.Popen[bytes]
    socket: Path
    log: Path
    key: str

    def wait_until_ready(self) -> None:
        """Wait until it answers.

        Raises:
            ServiceError: it ended, or does not answer in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            fault = "did not start in time" if time.monotonic() > deadline else None
            if self.process.poll() is not None:
                fault = f"ended with exit status {self.process.returncode}"
            if fault:
                lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
                end = "".join(f"\n  {line}" for line in lines[-_LOG_LINES:])
                raise ServiceError(f"LightlyStudio {fault}; its last lines:{end or ' (none)'}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return self.client(5).get("/healthz").is_success
        except httpx.HTTPError:
            return False

    def client(self, timeout_seconds: float = _LOAD_SECONDS) -> httpx.Client:
        """Return a client that talks to it over its socket."""
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=PLAIN_HTTP)
        return httpx.Client(
            transport=transport, base_url="http://studio", timeout=timeout_seconds, trust_env=False
        )

    def load(self, items: Path, **more: Any) -> None:
        """Load items of a Parquet file.

        Raises:
            ServiceError: it cannot.
        """
        answer = self.client().post("/loupe/load", json={"items": str(items), **more})
        if not answer.is_success:
            raise ServiceError(f"LightlyStudio cannot load the items; see the end of {self.log}")

    def tags(self) -> dict[str, list[str]]:
        """Return the ids of the items of each tag."""
        return dict(self.client().get("/loupe/tags").raise_for_status().json())


@contextmanager
def studio(environment: Path, folder: Path, name: str, port: int) -> Iterator[Studio]:
    """Start LightlyStudio, and end it with the block.

    Args:
        environment: the folder of its environment.
        folder: a folder that only this user can enter, for its log and its database, a cache that
            is built again.
        name: the name of what is explored.
        port: the port of the door.
    """
    log = folder / "studio.log"
    key = secrets.token_urlsafe(32)
    with TemporaryDirectory(prefix="loupe-") as short:  # the path of a socket has 107 characters
        socket = Path(short) / "studio"
        variables = {
            **inherited(LOCAL_VARIABLES),
            "PYTHONPATH": str(STUDIO),
            "PYTHONSAFEPATH": "1",
            "LIGHTLY_STUDIO_ANALYTICS_ENABLED": "false",
            "HF_HUB_OFFLINE": "1",
            "LOUPE_DOOR": f"http://{LOOPBACK}:{port}",
            "LOUPE_DOOR_KEY": key,
        }
        program = [str(environment_python(environment)), "-m", "loupe_studio"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*program, str(folder / "studio.duckdb"), str(socket), name],
                cwd=folder,  # it reads settings from a file `.env` of its folder
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl+C is for us: we end it
                umask=0o077,
            )
        try:
            yield Studio(process, socket, log, key)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
