"""Exclusive work: one run does it, the others wait until it ends or its claim expires."""

import threading
import time
from pathlib import Path

import pytest

from loupe.db.store import Store, claim_subject
from loupe.db.tables import Claim
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.runner import sole_run
from tests.db.samples import hand_over_claims, row_count
from tests.flows.runs import context_of


@pytest.fixture
def context(sqlite_store: Store, tmp_path: Path) -> RunContext:
    return context_of(sqlite_store, tmp_path)


def test_runs_work_one_after_the_other(context: RunContext) -> None:
    busy: list[int] = []
    most: list[int] = []

    def run(number: int) -> None:
        with sole_run(context, "set", "validate"):
            busy.append(number)
            most.append(len(busy))
            time.sleep(0.02)
            busy.remove(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]
    assert row_count(context.store, Claim) == 0


def test_a_failed_run_releases_its_claim(context: RunContext) -> None:
    with pytest.raises(ValueError, match="broken"), sole_run(context, "set", "validate"):
        raise ValueError("broken")
    with sole_run(context, "set", "validate"):
        assert row_count(context.store, Claim) == 1


def test_a_run_waits_until_an_abandoned_claim_expires(context: RunContext) -> None:
    assert claim_subject(context.store, "validate of set")
    hand_over_claims(context.store)
    context.store.claims.lease_seconds = 0.2
    started = time.monotonic()
    with sole_run(context, "set", "validate"):
        assert time.monotonic() - started > 0.15
