"""A build whose models count their requests, killed as it runs, and run to its end."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.flows.worlds import RunningProgram, loupe
from tests.servers.counting_server import CountingServer

SUMMARY = " done"  # in the last line of every stage


class KillableBuild(NamedTuple):
    """A build that can be run in one home after another."""

    flow: str
    config: Path
    profile: Path

    def start(self, home: Path) -> RunningProgram:
        """Starts a run in a process of its own."""
        options = ("--in-process", "--config", self.config, "--profile", self.profile)
        return loupe(home, "run", self.flow, *options)

    def finish(self, home: Path) -> int:
        """Lets a run come to its end; gives how many stages it had."""
        run = self.start(home)
        assert run.wait() == 0, run.output
        return run.count(SUMMARY)


def kill_at(
    run: RunningProgram,
    model: CountingServer,
    share: float,
    requests: int,
    stages: int,
    chance: random.Random,
) -> None:
    """Kills a run when a share of all requests has come, or a share of all stages is over.

    A run that comes to its end before, as what it waits for was done by those before it, is no
    kill: it must have ended well, and what follows has nothing left to do.
    """
    by_requests = chance.random() < 0.5
    while not run.ended_within(0.005):
        far = model.ledger.counts.total() / requests if by_requests else 0.0
        if max(far, run.count(SUMMARY) / stages) >= share:
            if not run.ended_within(chance.uniform(0, 0.1)):
                run.kill()
                return
            break
    assert run.wait() == 0, run.output


def calls_in(home: Path) -> int:
    """How many answers of the counting model are stored."""
    if not (home / "loupe.db").exists():
        return 0
    query = (
        "SELECT count(*) FROM model_call JOIN agent ON agent.id = agent_id WHERE name = 'counting'"
    )
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        return int(database.execute(query).fetchone()[0]) if "model_call" in tables else 0
