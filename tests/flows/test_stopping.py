"""After Ctrl-C or SIGTERM no new request is sent, and answers in flight are stored."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.killing import calls_in
from tests.flows.stopping import IN_FLIGHT, SECONDS, WAITING, asking, slow_build
from tests.flows.worlds import RunningProgram, loupe
from tests.servers.counting_server import CountingServer, counting_server

pytestmark = pytest.mark.xdist_group("kill")  # all programs are forked from one process


@pytest.fixture
def slow_model() -> Iterator[CountingServer]:
    with counting_server(delay_seconds=SECONDS) as server:
        yield server


@pytest.fixture
def build(tmp_path: Path, slow_model: CountingServer) -> tuple[str | Path, ...]:
    return slow_build(tmp_path, slow_model)


@pytest.fixture
def run(
    tmp_path: Path, slow_model: CountingServer, build: tuple[str | Path, ...]
) -> Iterator[RunningProgram]:
    """The build, running in a separate process."""
    program = loupe(tmp_path / "home", *build, "--in-process")
    with asking(program, slow_model):
        yield program


def test_a_signal_stops_requests_and_stores_answers_in_flight(
    tmp_path: Path, slow_model: CountingServer, run: RunningProgram
) -> None:
    run.send(signal.SIGTERM)
    assert run.wait(60) == 143, run.output
    assert run.count(WAITING) == 1
    assert "stopped; nothing is left half-written" in run.output
    assert "Traceback" not in run.output
    assert slow_model.ledger.summary()["total"] == IN_FLIGHT
    assert calls_in(tmp_path / "home") == IN_FLIGHT


def test_a_second_signal_ends_the_run_immediately(
    slow_model: CountingServer, run: RunningProgram
) -> None:
    run.send(signal.SIGINT)
    assert run.wait_for(1, WAITING)
    second = time.monotonic()
    run.send(signal.SIGINT)
    assert run.wait(60) == 130
    assert time.monotonic() - second < SECONDS / 2
    assert slow_model.ledger.summary()["total"] == IN_FLIGHT
