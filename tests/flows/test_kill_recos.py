"""A killed build of a benchmark goes on: SIGKILL changes no caption, no version, and no bill."""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from release.verify import verify_release
from sources.demonstration.stills import write_stills_world
from tests.flows.homes import bytes_of, contents_of, problems_of
from tests.flows.recos_world import DATASET, small_build, write_build, write_profile
from tests.flows.worlds import KEEP_COMPILED, RunningProgram, compile_modules, loupe
from tests.servers.captioning import caption_completion
from tests.servers.counting_server import CountingServer, counting_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kill")]

MODULES = "flows.cli, flows.commands.build, flows.recos_build, openai, cv2, pyarrow.parquet"
KILLS = 5
MAX_IN_FLIGHT = 4
DELAY_SECONDS = 0.02
SUMMARY = " done"  # what stands in the line that every stage ends with
RELEASES = [Path("releases") / f"{DATASET}-{major}.1.0" for major in range(3)]


class Build(NamedTuple):
    """A build that can be run in one home after another."""

    config: Path
    profile: Path

    def start(self, home: Path) -> RunningProgram:
        options = ("--in-process", "--config", self.config, "--profile", self.profile)
        return loupe(home, "run", "build-recos", *options, variables=KEEP_COMPILED)


@pytest.fixture
def captioner() -> Iterator[CountingServer]:
    """A model that counts; it outlives whatever is killed."""
    with counting_server(DELAY_SECONDS, caption_completion) as server:
        yield server


@pytest.fixture
def build(tmp_path: Path, captioner: CountingServer) -> Build:
    """Images of three tasks, captioned by the model that counts."""
    stills = write_stills_world(tmp_path / "stills", seed=11, count=60)
    config = write_build(small_build(stills, tmp_path), tmp_path / "build.toml")
    counted = {
        "provider": "openai",
        "name": "counting",
        "revision": "1",
        "base_url": captioner.base_url,
        "max_in_flight": MAX_IN_FLIGHT,
    }
    profile = write_profile(tmp_path / "profile.toml", {"model": counted})
    compile_modules(MODULES)
    return Build(config, profile)


@pytest.mark.timeout(900)
def test_kills_change_neither_the_versions_nor_the_bill(
    tmp_path: Path, build: Build, captioner: CountingServer
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    stages = finish(build, undisturbed)
    wanted = Counter(captioner.ledger.counts)
    assert set(wanted.values()) == {1}
    assert len(wanted) == calls_in(undisturbed)
    captioner.ledger.reset()

    lost: list[int] = []
    for share in sorted(chance.random() for _ in range(KILLS)):
        run = build.start(killed)
        kill_at(run, captioner, share, len(wanted), stages, chance)
        lost.append(captioner.ledger.counts.total() - sum(lost) - calls_in(killed))
        print(f"killed at {share:.2f}, {lost[-1]} requests lost")  # noqa: T201
    finish(build, killed)

    seen = captioner.ledger.counts
    assert seen.keys() == wanted.keys()
    assert 0 <= max(lost) <= MAX_IN_FLIGHT
    assert seen.total() == len(wanted) + sum(lost), "each answer that came back was paid once"
    for release in RELEASES:
        assert bytes_of(killed / release) == bytes_of(undisturbed / release)
        assert verify_release(killed / release) == []
    assert problems_of(killed) == []
    assert contents_of(killed) == contents_of(undisturbed)


def finish(build: Build, home: Path) -> int:
    """Lets a run come to its end; gives how many stages it had."""
    run = build.start(home)
    assert run.wait() == 0, run.output
    return run.count(SUMMARY)


def kill_at(
    run: RunningProgram,
    captioner: CountingServer,
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
        far = captioner.ledger.counts.total() / requests if by_requests else 0.0
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
