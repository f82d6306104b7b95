"""A killed run costs nothing: SIGKILL at random moments changes neither bytes nor bills.

Six kills; `make soak` does twenty.
"""

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from release.verify import verify_release
from schemas.records import Granularity
from services.process import PLAIN_HTTP
from tests.flows.homes import bytes_of, contents_of, files_of, problems_of
from tests.flows.killing import SUMMARY, KillableBuild, calls_in
from tests.flows.worlds import RunningProgram, write_people, write_toml
from tests.servers.processes import REPOSITORY

pytestmark = pytest.mark.xdist_group("kill")  # takes minutes: begin early

MAX_IN_FLIGHT = 4
DELAY_SECONDS = 0.05
ASKING = "rewrite counting"
RELEASE = Path("releases") / "people-0.1.0"


class Counting(NamedTuple):
    """A counting server in a process of its own."""

    address: str
    client: httpx.Client

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def counts(self) -> Counter[str]:
        """How often each request came, once nothing is under way any more."""
        before = None
        while (now := self._ask()) != before:
            before = now
            time.sleep(2 * DELAY_SECONDS)
        return now

    def total(self) -> int:
        """The number of requests so far."""
        return self._ask().total()

    def reset(self) -> None:
        self.client.post("/reset").raise_for_status()

    def _ask(self) -> Counter[str]:
        return Counter(self.client.get("/counts").raise_for_status().json()["counts"])


class Moment(NamedTuple):
    """So long after the stage before has ended; the first stage begins with the program.

    So long is: until so many further requests have come, and so many seconds.
    """

    stage: int
    seconds: float
    requests: int = 0

    def is_reached(self, run: RunningProgram, counting: Counting) -> bool:
        """Waits for the moment; False if the run came to its end before."""
        if not run.wait_for(self.stage, SUMMARY):
            return False
        wanted = counting.total() + self.requests
        while counting.total() < wanted and run.count(SUMMARY) == self.stage:
            if run.ended_within(0.01):
                return False
        return not run.ended_within(self.seconds)

    def earlier(self) -> "Moment":
        """Half as far into its stage."""
        return Moment(self.stage, self.seconds / 2, self.requests // 2)


@dataclass
class Timeline:
    """When an undisturbed run did what: the end of each stage, in seconds since its start."""

    begin: float
    ends: list[float]
    labels: list[str]

    def draw(self, random_: random.Random, count: int, requests: int) -> list[Moment]:
        """Moments at which work was going on, in their order.

        A third of them are in the midst of `requests`, anywhere; for a third all moments of the run
        are equally likely, and a third are in stages of their own: what takes long is hit often,
        and what is over at once is hit, too.
        """
        begins = [self.begin, *self.ends[:-1]]
        asking = self.labels.index(ASKING)
        others = random_.sample([at for at in range(len(begins)) if at != asking], count // 3)
        times = []
        for number in range(count):
            low, high = self.begin, self.ends[-1]
            if number % 3:
                stage = asking if number % 3 == 1 else others[number // 3]
                low, high = begins[stage], self.ends[stage]
            times.append(random_.uniform(low, high))
        moments = []
        reached = 0.0
        for at in sorted(times):
            stage = sum(end <= at for end in self.ends[:-1])
            # What an earlier run has done is not done again: go on from there.
            seconds = at - max(reached, begins[stage]) + (0.0 if stage else self.begin)
            if stage == asking:
                further = random_.randrange(requests // count)
                moments.append(Moment(stage, random_.uniform(0, 2 * DELAY_SECONDS), further))
            else:
                moments.append(Moment(stage, seconds))
            reached = at
        return moments


@dataclass
class Kills:
    """The kills so far: at which stage, and how many requests were lost in flight."""

    stages: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Counting]:
    command = [sys.executable, "-m", "tests.servers.counting_server"]
    process = subprocess.Popen(
        [*command, "--delay", str(DELAY_SECONDS)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip().removesuffix("/v1")
        with httpx.Client(
            base_url=address, timeout=60, trust_env=False, verify=PLAIN_HTTP
        ) as client:
            yield Counting(address, client)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def build(tmp_path: Path, counting: Counting) -> KillableBuild:
    """More images, captions and rewrites than one chunk holds, and some that are no use."""
    street, square = tmp_path / "street", tmp_path / "square"
    coarse = write_people(street, Granularity.COARSE, identities=52, images=4, captions=2)
    fine = write_people(square, Granularity.FINE, identities=15, images=2, captions=1)
    (street / "0003_1.jpg").write_bytes(b"no image")
    sources = [
        {
            "name": folder.name,
            "format": "cuhk-pedes",
            "annotations": file,
            "images": folder,
            "permitted_by": "drawn here",
        }
        for folder, file in ((street, coarse), (square, fine))
    ]
    config = write_toml(
        tmp_path / "build.toml",
        {
            "dataset": "people",
            "identities_per_source": 45,
            "gate": "auto",
            "sources": [{**source, "images_per_identity": 2} for source in sources],
        },
    )
    counted = {
        "provider": "openai",
        "name": "counting",
        "revision": "1",
        "base_url": counting.base_url,
        "max_in_flight": MAX_IN_FLIGHT,
    }
    builtin = {"provider": "builtin", "style": "flowing", "seed": 1}
    profile = write_toml(
        tmp_path / "profile.toml",
        {"description": "one counted, one built in", "rewrite": {"models": [counted, builtin]}},
    )
    return KillableBuild("build-ufine3c", config, profile)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_kills_change_neither_the_release_nor_the_bill(
    tmp_path: Path, build: KillableBuild, counting: Counting, count: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    timeline = run_undisturbed(build, undisturbed)
    wanted = counting.counts()
    assert set(wanted.values()) == {1}
    counting.reset()

    moments = timeline.draw(random.Random(seed), count, len(wanted))
    kills = kill_often(build, killed, counting, moments, timeline.labels)
    build.finish(killed)

    assert len(kills.stages) == count
    assert len(set(kills.stages)) >= min(3, count // 3), kills.stages
    seen = counting.counts()
    assert seen.keys() == wanted.keys()
    assert 0 < max(kills.lost) <= MAX_IN_FLIGHT
    assert seen.total() == len(wanted) + sum(kills.lost)
    assert bytes_of(killed / RELEASE) == bytes_of(undisturbed / RELEASE)
    assert verify_release(killed / RELEASE) == []
    assert files_of(killed) == files_of(undisturbed)
    assert problems_of(killed) == []
    assert contents_of(killed) == contents_of(undisturbed)


def run_undisturbed(build: KillableBuild, home: Path) -> Timeline:
    """Runs from start to end, and says what took how long."""
    run = build.start(home)
    assert run.wait() == 0, run.output
    ended = time.time() - run.started
    stages = [(at, line) for at, line in run.lines if SUMMARY in line]
    labels = [line.split("  ")[0].strip() for _, line in stages]
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        (first,) = database.execute("SELECT min(started_at) FROM activity").fetchone()
    begun = datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp()
    timeline = Timeline(begun - run.started, [*(at for at, _ in stages), ended], [*labels, "gate"])
    print(timeline)  # noqa: T201 - shown with a failure
    return timeline


def kill_often(
    build: KillableBuild,
    home: Path,
    counting: Counting,
    moments: Sequence[Moment],
    labels: Sequence[str],
) -> Kills:
    """Starts the build again and again, and kills it at ever later moments of its work.

    In their order the kills leave each run something to do, as they would not if the first came
    late. A run that comes to its end before its moment is killed earlier the next time.
    """
    kills = Kills()
    for planned in moments:
        moment, sent, stored = planned, counting.counts().total(), calls_in(home)
        while True:
            run = build.start(home)
            if moment.is_reached(run, counting):
                run.kill()
                break
            assert run.wait() == 0, run.output
            moment = moment.earlier()
        kills.stages.append(stage_of(home, labels[run.count(SUMMARY)]))
        kills.lost.append(counting.counts().total() - sent - (calls_in(home) - stored))
        print(f"killed at {kills.stages[-1]}, {kills.lost[-1]} requests lost")  # noqa: T201
    return kills


def stage_of(home: Path, label: str) -> str:
    """`label`, or `release` where a release was being built."""
    return "release" if any(home.glob("releases/.*building-*")) else label
