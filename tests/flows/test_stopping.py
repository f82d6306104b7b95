"""After Ctrl-C and SIGTERM nothing new is sent, and what is paid for is stored."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.records import Granularity
from tests.flows.killing import calls_in
from tests.flows.prefect_runs import Prefect
from tests.flows.worlds import KEEP_COMPILED, RunningProgram, loupe, write_people, write_toml
from tests.servers.counting_server import CountingServer, counting_server

IN_FLIGHT = 4
SECONDS = 4.0  # of an answer
WAITING = f"waiting for {IN_FLIGHT} answers that are paid for; "


@pytest.fixture
def slow_model() -> Iterator[CountingServer]:
    with counting_server(delay_seconds=SECONDS) as server:
        yield server


@pytest.fixture
def build(tmp_path: Path, slow_model: CountingServer) -> tuple[str | Path, ...]:
    """A build that asks the slow model about many captions."""
    annotations = write_people(
        tmp_path / "people", Granularity.COARSE, identities=8, images=2, captions=2
    )
    source = {
        "name": "stopped-people",
        "format": "cuhk-pedes",
        "annotations": annotations,
        "images": annotations.parent,
        "images_per_identity": 2,
        "permitted_by": "drawn here",
    }
    build = {"dataset": "stopped", "identities_per_source": 8, "gate": "auto", "sources": [source]}
    model = {
        "provider": "openai",
        "name": "counting",
        "revision": "1",
        "base_url": slow_model.base_url,
        "max_in_flight": IN_FLIGHT,
    }
    config = write_toml(tmp_path / "build.toml", build)
    profile = write_toml(
        tmp_path / "profile.toml", {"description": "slow", "rewrite": {"models": [model]}}
    )
    return "run", "build-ufine3c", "--config", config, "--profile", profile


@contextmanager
def asking(program: RunningProgram, model: CountingServer) -> Iterator[RunningProgram]:
    """The program, as soon as it has asked the model as much as it may at once."""
    try:
        while model.ledger.in_flight < IN_FLIGHT:
            assert not program.ended_within(0.05), program.output
        yield program
    finally:
        if not program.ended_within(0):
            program.kill()


@pytest.fixture
def run(
    tmp_path: Path, slow_model: CountingServer, build: tuple[str | Path, ...]
) -> Iterator[RunningProgram]:
    """The build, in its own process."""
    program = loupe(tmp_path / "home", *build, "--in-process", variables=KEEP_COMPILED)
    with asking(program, slow_model):
        yield program


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_nothing_new_is_sent_and_what_returns_is_stored(
    tmp_path: Path, slow_model: CountingServer, run: RunningProgram, number: int, exit_code: int
) -> None:
    run.send(number)
    assert run.wait(60) == exit_code, run.output
    assert run.count(WAITING) == 1
    assert "stopped; nothing is left half-written" in run.output
    assert "Traceback" not in run.output
    assert slow_model.ledger.summary()["total"] == IN_FLIGHT
    assert calls_in(tmp_path / "home") == IN_FLIGHT


def test_a_second_signal_ends_at_once(slow_model: CountingServer, run: RunningProgram) -> None:
    run.send(signal.SIGINT)
    assert run.wait_for(1, WAITING)
    second = time.monotonic()
    run.send(signal.SIGINT)
    assert run.wait(60) == 130
    assert time.monotonic() - second < SECONDS / 2
    assert slow_model.ledger.summary()["total"] == IN_FLIGHT


@pytest.mark.prefect
@pytest.mark.label_studio
@pytest.mark.slow
def test_a_run_on_the_server_is_cancelled_and_stores_what_is_paid_for(
    slow_model: CountingServer, build: tuple[str | Path, ...], installation: Prefect
) -> None:
    home, port = installation.settings.home, str(installation.settings.prefect_port)
    program = loupe(home, *build, variables={**KEEP_COMPILED, "LOUPE_PREFECT_PORT": port})
    with asking(program, slow_model) as run:
        run.send(signal.SIGINT)
        assert run.wait(120) == 130, run.output
    assert slow_model.ledger.summary()["total"] == IN_FLIGHT
    assert calls_in(home) == IN_FLIGHT
    assert installation.newest_state()["type"] == "CANCELLED"
    assert run.count(WAITING.removesuffix("; ")) == 1
