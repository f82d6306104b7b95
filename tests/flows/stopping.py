"""A build with a slow model, for tests that stop it while it waits for answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loupe.schemas.records import Granularity
from tests.flows.worlds import RunningProgram, write_people, write_toml
from tests.servers.counting_server import CountingServer

IN_FLIGHT = 4
SECONDS = 4.0  # duration of an answer
WAITING = f"waiting for {IN_FLIGHT} answers that were paid for; "


def slow_build(folder: Path, model: CountingServer) -> tuple[str | Path, ...]:
    """Return the command of a build that asks the model about many captions."""
    annotations = write_people(
        folder / "people", Granularity.COARSE, identities=8, images=2, captions=2
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
    counted = {
        "provider": "openai",
        "name": "counting",
        "revision": "1",
        "base_url": model.base_url,
        "max_in_flight": IN_FLIGHT,
    }
    config = write_toml(folder / "build.toml", build)
    profile = write_toml(
        folder / "profile.toml",
        {"description": "slow", "judge": False, "rewrite": {"models": [counted]}},
    )
    return "run", "build-ufine3c", "--config", config, "--profile", profile


@contextmanager
def asking(program: RunningProgram, model: CountingServer) -> Iterator[RunningProgram]:
    """Wait until the program has `IN_FLIGHT` requests in flight."""
    try:
        while model.ledger.in_flight < IN_FLIGHT:
            assert not program.ended_within(0.05), program.output
        yield program
    finally:
        if not program.ended_within(0):
            program.kill()
