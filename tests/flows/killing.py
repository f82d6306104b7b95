"""A build with counting models that tests kill while it runs and then run to its end."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.flows.worlds import RunningProgram, loupe
from tests.servers.counting_server import CountingServer

SUMMARY = " done"  # part of the last line of every stage


class KillableBuild(NamedTuple):
    """A build that can be run in several homes."""

    flow: str
    config: Path
    profile: Path

    def start(self, home: Path) -> RunningProgram:
        """Start a run as a separate process."""
        options = ("--in-process", "--config", self.config, "--profile", self.profile)
        return loupe(home, "run", self.flow, *options)

    def finish(self, home: Path) -> int:
        """Run the build to its end; return the number of its stages."""
        run = self.start(home)
        assert run.wait() == 0, run.output
        return run.count(SUMMARY)


def kill_at(
    run: RunningProgram,
    model: CountingServer,
    share: float,
    stages: int,
    chance: random.Random,
    requests: int | None,
) -> int | None:
    """Kill a run after a share of its stages, or of its `requests`; return the stages it finished.

    A run may end before that, if earlier runs have done most of the work. It must then have
    succeeded, and later runs have nothing left to do.
    """
    while not run.ended_within(0.005):
        done = model.ledger.counts.total() / requests if requests else run.count(SUMMARY) / stages
        if done >= share:
            if not run.ended_within(chance.uniform(0, 0.1)):
                run.kill()
                return run.count(SUMMARY)
            break
    assert run.wait() == 0, run.output
    return None


def calls_in(home: Path) -> int:
    """Return the number of stored answers of the counting model."""
    if not (home / "loupe.db").exists():
        return 0
    query = (
        "SELECT count(*) FROM model_call JOIN agent ON agent.id = agent_id WHERE name = 'counting'"
    )
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        return int(database.execute(query).fetchone()[0]) if "model_call" in tables else 0
