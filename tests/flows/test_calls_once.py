"""Parallel runs pay for every answer once; a killed run loses only the requests in flight."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from loupe.db.store import LEASE_SECONDS, Store
from tests.db.samples import caption, store_entities
from tests.flows import asking_run
from tests.flows.worlds import RunningProgram
from tests.separation import OWN_NAMESPACE, require
from tests.servers.counting_server import CountingServer, counting_server

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("kill")]

CALLS = 40
DELAY_SECONDS = 0.1
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For tests of processes: both databases read /proc in the same way."""
on_postgres = pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
IN_FLIGHT = 2 * 4  # of one run: two chunks at once, four requests each


class Bill(NamedTuple):
    """The costs that a run prints at its end."""

    calls: int
    cost: float
    deferred: int


class World(NamedTuple):
    """A store with captions to ask about, and the counting server."""

    database_url: str
    folder: Path
    server: CountingServer

    def start(
        self,
        plan: str = "one",
        max_cost: float | None = None,
        wrapped_in: Sequence[str] = (),
        variables: dict[str, str] | None = None,
    ) -> RunningProgram:
        arguments = [self.database_url, str(self.folder), self.server.base_url, plan]
        if max_cost is not None:
            arguments.append(str(max_cost))
        if not wrapped_in:
            return RunningProgram(asking_run.main, arguments)
        program = [sys.executable, "-m", asking_run.__name__]
        return RunningProgram(execute, [*wrapped_in, *program, *arguments], variables or {})

    @property
    def paid(self) -> int:
        return self.server.ledger.counts.total()

    @property
    def distinct(self) -> int:
        return len(self.server.ledger.counts)

    def wait_until_paid(self, count: int) -> None:
        until = time.monotonic() + 60
        while self.paid < count:
            assert time.monotonic() < until, f"{self.paid} calls after a minute"
            time.sleep(0.005)


@pytest.fixture
def world(store: Store, database_url: str, tmp_path: Path) -> Iterator[World]:
    store_entities(store, [caption(number) for number in range(CALLS)])
    with counting_server(DELAY_SECONDS) as server:
        yield World(database_url, tmp_path, server)


def execute() -> None:
    """Replace this process by the command in its arguments."""
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606


def begin(world: World, *runs: RunningProgram) -> None:
    """Start the work of all runs at the same time, once they are ready."""
    for run in runs:
        assert run.wait_for(1, "ready"), run.output
    (world.folder / "begin").touch()


def bill_of(run: RunningProgram) -> Bill:
    assert run.wait(120) == 0, run.output
    calls, cost, deferred = run.output.splitlines()[-1].split()
    return Bill(int(calls), float(cost), int(deferred))


def expect_each_call_once(world: World, *runs: RunningProgram) -> None:
    bills = [bill_of(run) for run in runs]
    print(f"{world.paid - world.distinct} of {world.distinct} calls were bought twice")  # noqa: T201
    assert (world.distinct, world.paid) == (CALLS, CALLS)
    assert sum(bill.calls for bill in bills) == CALLS, bills
    assert [bill.deferred for bill in bills] == [0] * len(bills)


@pytest.mark.soak
@on_sqlite
def test_runs_in_separate_pid_namespaces_pay_each_call_once(world: World) -> None:
    require("unshare")
    runs = [world.start(wrapped_in=OWN_NAMESPACE)]
    time.sleep(1.5)  # both have process id 1 and differ only in their start times
    runs.append(world.start(wrapped_in=OWN_NAMESPACE))
    begin(world, *runs)
    expect_each_call_once(world, *runs)


@pytest.mark.soak
def test_a_run_with_a_fast_stepping_clock_pays_each_call_once(world: World) -> None:
    require("faketime")
    offset = world.folder / "offset"
    offset.write_text("+90s\n")
    settable = ("faketime", "-f", "--exclude-monotonic", "+0s")
    variables = {"FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    # `faketime` sets FAKETIME itself, which would win over the file.
    stepped = world.start(wrapped_in=(*settable, "env", "-u", "FAKETIME"), variables=variables)
    other = world.start()
    begin(world, stepped, other)
    for number, step in enumerate(("+0s", "-90s", "+3600s"), 1):
        world.wait_until_paid(number * CALLS // 5)
        offset.write_text(f"{step}\n")
    expect_each_call_once(world, stepped, other)


@on_postgres
def test_runs_of_different_plans_share_common_calls(world: World) -> None:
    """The test of budgets below covers SQLite."""
    runs = [world.start("one"), world.start("another")]
    begin(world, *runs)
    expect_each_call_once(world, *runs)


@on_sqlite
def test_another_run_takes_over_from_a_killed_run_without_waiting(world: World) -> None:
    killed = world.start()
    begin(world, killed)
    world.wait_until_paid(CALLS // 4)
    killed.kill()
    time.sleep(2 * DELAY_SECONDS)  # the requests in flight are counted
    other = world.start()
    begin(world, other)
    started = time.monotonic()
    bill = bill_of(other)
    assert time.monotonic() - started < LEASE_SECONDS / 2, "it does not wait for the lease to end"
    assert world.distinct == CALLS
    assert world.paid - CALLS <= IN_FLIGHT, "only requests in flight are sent again"
    assert bill.deferred == 0


@on_sqlite
def test_parallel_runs_each_keep_to_their_own_budget(world: World) -> None:
    limit = 200.0  # tokens at a price of one; a call has about twenty
    runs = [world.start(plan, max_cost=limit) for plan in ("one", "another")]
    begin(world, *runs)
    bills = [bill_of(run) for run in runs]
    assert world.paid == world.distinct == sum(bill.calls for bill in bills) < CALLS
    for bill in bills:
        assert limit <= bill.cost < limit + IN_FLIGHT * 40, bill
