"""Builds killed with SIGKILL at random moments give the same release for the same cost.

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

pytestmark = pytest.mark.xdist_group("kill")  # takes minutes: start early

MAX_IN_FLIGHT = 4
DELAY_SECONDS = 0.05
REQUEST_STAGE = "rewrite counting"
RELEASE = Path("releases") / "people-0.1.0"


class Counting(NamedTuple):
    """A counting server in a separate process."""

    address: str
    client: httpx.Client

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def counts(self) -> Counter[str]:
        """Return how often each request came, once no request is in flight."""
        before = None
        while (now := self._ask()) != before:
            before = now
            time.sleep(2 * DELAY_SECONDS)
        return now

    def total(self) -> int:
        """Return the number of requests so far."""
        return self._ask().total()

    def reset(self) -> None:
        self.client.post("/reset").raise_for_status()

    def _ask(self) -> Counter[str]:
        return Counter(self.client.get("/counts").raise_for_status().json()["counts"])


class Moment(NamedTuple):
    """A moment of a run: `requests` further requests and `seconds` after `stage` began.

    The first stage begins with the program, any other with the end of the one before.
    """

    stage: int
    seconds: float
    requests: int = 0

    def is_reached(self, run: RunningProgram, counting: Counting) -> bool:
        """Wait for the moment; return False if the run ended before."""
        if not run.wait_for(self.stage, SUMMARY):
            return False
        wanted = counting.total() + self.requests
        while counting.total() < wanted and run.count(SUMMARY) == self.stage:
            if run.ended_within(0.01):
                return False
        return not run.ended_within(self.seconds)

    def earlier(self) -> "Moment":
        """Return a moment half as far into the stage."""
        return Moment(self.stage, self.seconds / 2, self.requests // 2)


@dataclass
class Timeline:
    """Timeline of an undisturbed run: the end of each stage, in seconds since the start."""

    begin: float
    ends: list[float]
    labels: list[str]

    def draw(self, random_: random.Random, count: int, requests: int) -> list[Moment]:
        """Draw moments at which the run was working, in chronological order.

        A third of them are drawn uniformly from the stage that sends requests, a third uniformly
        from the whole run, and a third from other stages, each used once. So long stages are hit
        often, and short ones are hit, too.
        """
        begins = [self.begin, *self.ends[:-1]]
        request_stage = self.labels.index(REQUEST_STAGE)
        others = random_.sample(
            [at for at in range(len(begins)) if at != request_stage], count // 3
        )
        times = []
        for number in range(count):
            low, high = self.begin, self.ends[-1]
            if number % 3:
                stage = request_stage if number % 3 == 1 else others[number // 3]
                low, high = begins[stage], self.ends[stage]
            times.append(random_.uniform(low, high))
        moments = []
        reached = 0.0
        for at in sorted(times):
            stage = sum(end <= at for end in self.ends[:-1])
            # Work done by an earlier run is not repeated: continue from there.
            seconds = at - max(reached, begins[stage]) + (0.0 if stage else self.begin)
            if stage == request_stage:
                further = random_.randrange(requests // count)
                moments.append(Moment(stage, random_.uniform(0, 2 * DELAY_SECONDS), further))
            else:
                moments.append(Moment(stage, seconds))
            reached = at
        return moments


@dataclass
class Kills:
    """The stage of each kill so far, and the number of requests lost in flight."""

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
    """A build with more images, captions and rewrites than fit a chunk, some of them unusable."""
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
def test_kills_change_neither_the_release_nor_the_cost(
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
    """Run from start to end and return when each stage ended."""
    run = build.start(home)
    assert run.wait() == 0, run.output
    ended = time.time() - run.started
    stages = [(at, line) for at, line in run.lines if SUMMARY in line]
    labels = [line.split("  ")[0].strip() for _, line in stages]
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        (first,) = database.execute("SELECT min(started_at) FROM activity").fetchone()
    begin = datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp()
    timeline = Timeline(begin - run.started, [*(at for at, _ in stages), ended], [*labels, "gate"])
    print(timeline)  # noqa: T201 - shown with a failure
    return timeline


def kill_often(
    build: KillableBuild,
    home: Path,
    counting: Counting,
    moments: Sequence[Moment],
    labels: Sequence[str],
) -> Kills:
    """Start the build repeatedly and kill it at ever later moments.

    The moments are in chronological order, so that each run has work left. If a run ends before
    its moment, the next one is killed earlier.
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
    """Return `label`, or `release` if a release was being built."""
    return "release" if any(home.glob("releases/.*building-*")) else label
