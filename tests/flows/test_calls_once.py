"""Runs side by side buy every answer once, whatever separates them; a killed one loses little."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from db.store import Store
from tests.db.samples import caption, store_entities
from tests.separation import OWN_NAMESPACE, require
from tests.servers.counting_server import CountingServer, counting_server
from tests.servers.processes import REPOSITORY

pytestmark = pytest.mark.timeout(240)

CALLS = 240
DELAY_SECONDS = 0.1


class Bill(NamedTuple):
    """What a run says at its end that it paid for."""

    calls: int
    cost: float
    deferred: int


class World(NamedTuple):
    """A store with captions to ask about, and the server that is asked."""

    database_url: str
    folder: Path
    server: CountingServer

    def start(
        self,
        plan: str = "one",
        wrapped_in: Sequence[str] = (),
        variables: dict[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "tests.flows.asking_run"]
        arguments = [self.database_url, str(self.folder), self.server.base_url, plan]
        return subprocess.Popen(
            [*wrapped_in, *program, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def bought(self) -> int:
        return self.server.ledger.counts.total()

    @property
    def distinct(self) -> int:
        return len(self.server.ledger.counts)

    def wait_until_bought(self, count: int) -> None:
        until = time.monotonic() + 60
        while self.bought < count:
            assert time.monotonic() < until, f"{self.bought} calls after a minute"
            time.sleep(0.005)


@pytest.fixture
def world(store: Store, database_url: str, tmp_path: Path) -> Iterator[World]:
    store_entities(store, [caption(number) for number in range(CALLS)])
    with counting_server(DELAY_SECONDS) as server:
        yield World(database_url, tmp_path, server)


def begin(*runs: subprocess.Popen[str]) -> None:
    """Lets runs begin their work at the same time, once all of them are ready."""
    for run in runs:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n", run.communicate()
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("begin\n")
        run.stdin.flush()


def bill_of(run: subprocess.Popen[str]) -> Bill:
    output, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    calls, cost, deferred = output.split()
    return Bill(int(calls), float(cost), int(deferred))


def expect_each_call_once(world: World, *runs: subprocess.Popen[str]) -> None:
    bills = [bill_of(run) for run in runs]
    print(f"{world.bought - world.distinct} of {world.distinct} calls were bought twice")  # noqa: T201
    assert (world.distinct, world.bought) == (CALLS, CALLS)
    assert sum(bill.calls for bill in bills) == CALLS, bills
    assert [bill.deferred for bill in bills] == [0] * len(bills)


def test_runs_in_separate_pid_namespaces_buy_each_call_once(world: World) -> None:
    require("unshare")
    runs = [world.start(wrapped_in=OWN_NAMESPACE)]
    time.sleep(1.5)  # both have process id 1; what differs is when they started
    runs.append(world.start(wrapped_in=OWN_NAMESPACE))
    begin(*runs)
    expect_each_call_once(world, *runs)


def test_runs_whose_clocks_are_90_seconds_apart_buy_each_call_once(world: World) -> None:
    require("faketime")
    ahead = ("faketime", "-f", "--exclude-monotonic", "+90s")
    runs = [world.start(), world.start(wrapped_in=ahead)]
    begin(*runs)
    expect_each_call_once(world, *runs)


def test_a_run_whose_clock_steps_buys_each_call_once(world: World) -> None:
    require("faketime")
    offset = world.folder / "offset"
    offset.write_text("+0s\n")
    settable = ("faketime", "-f", "--exclude-monotonic", "+0s")
    variables = {"FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    # `faketime` sets FAKETIME itself, which would win over the file.
    stepped = world.start(wrapped_in=(*settable, "env", "-u", "FAKETIME"), variables=variables)
    other = world.start()
    begin(stepped, other)
    for number, step in enumerate(("+90s", "-90s", "+3600s"), 1):
        world.wait_until_bought(number * CALLS // 5)
        offset.write_text(f"{step}\n")
    expect_each_call_once(world, stepped, other)


def test_runs_of_different_plans_share_the_calls_that_both_need(world: World) -> None:
    runs = [world.start("one"), world.start("another")]
    begin(*runs)
    expect_each_call_once(world, *runs)
