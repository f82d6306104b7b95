"""Processes that a test starts, waits for, and ends by their process ids."""

import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from loupe.services.process import PLAIN_HTTP

REPOSITORY = Path(__file__).resolve().parents[2]
FORKED = multiprocessing.get_context("forkserver")
"""Starts processes of our code as forks of a process that has imported the slow modules."""
FORKED.set_forkserver_preload(
    [
        "loupe.flows.cli.run",
        "loupe.flows.ufine3c.pipeline",
        "loupe.models.openai_chat",
        "pyarrow.parquet",
        "tests.flows.asking_run",
        "tests.flows.loaded_linter",
        "tests.flows.searching",
        "tests.flows.worlds",
        "tests.release.export.test_kill",
    ]
)


@contextmanager
def running(
    command: Sequence[str | Path],
    ready_url: str,
    log_file: Path,
    environment: dict[str, str] | None = None,
    timeout_seconds: float = 900,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command`, wait until `ready_url` answers, and end its process group afterwards.

    Raises:
        RuntimeError: the process ended early or did not answer in time; shows the end of its log.
    """
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_ready(process, ready_url, log_file, timeout_seconds)
            yield process
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[bytes], patience_seconds: float = 15) -> None:
    """End `process`, the leader of its process group, and all processes it started."""
    process.terminate()
    try:
        process.wait(patience_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _wait_until_ready(
    process: subprocess.Popen[bytes], url: str, log_file: Path, timeout_seconds: float
) -> None:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"ended with {process.returncode}: {_tail(log_file)}")
        try:
            if httpx.get(url, timeout=2, trust_env=False, verify=PLAIN_HTTP).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{url} did not answer in {timeout_seconds} s: {_tail(log_file)}")


def _tail(log_file: Path) -> str:
    return log_file.read_text(errors="replace")[-3000:]
