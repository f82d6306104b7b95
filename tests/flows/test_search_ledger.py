"""Searches are stored as they return, sent once, and stopped at the daily budget."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event

from loupe.db.calls import cost_rows, requests_since
from loupe.db.store import Store
from loupe.db.tables import Claim, ModelCall
from loupe.flows.ccd.searching import RecordedSearch
from loupe.flows.engine.stopping import Budget, Waits
from loupe.models.adapter import always
from loupe.models.image_search import ImageSearch
from loupe.schemas.chat import ModelRef
from loupe.schemas.errors import BudgetReachedError, ConfigurationError, ServiceError
from loupe.schemas.image_search import (
    SearchAnswer,
    SearchFailure,
    SearchHit,
    SearchOutcome,
    SearchPrices,
)
from tests.db.samples import row_count
from tests.flows import searching
from tests.flows.worlds import RunningProgram
from tests.servers.search_server import SearchServer, search_server

PACIFIC = "America/Los_Angeles"
NOON = datetime(2026, 11, 20, 20, tzinfo=UTC)  # noon in California
LATER = SearchFailure(reason="timeout", detail="too late", retriable=True, requests=1)
NEVER = SearchFailure(reason="refused_query", detail="no", retriable=False, raw="{}", requests=1)
AWAY = SearchFailure(reason="unreachable", detail="no connection", retriable=True, requests=0)
OVER = SearchFailure(reason="quota_exhausted", detail="enough", retriable=True, requests=0)


def answer_to(query: str) -> SearchOutcome:
    hit = SearchHit(rank=1, image_url=f"https://example.org/{len(query)}.jpg", title=query)
    return SearchAnswer(hits=(hit,), raw='{"items": ["\0"]}', seconds=0.25)


class ScriptedSearch:
    """A search with scripted replies that records its queries."""

    def __init__(
        self,
        reply: Callable[[str], SearchOutcome] = answer_to,
        seconds: float = 0,
        **parameters: Any,
    ) -> None:
        self.ref = ModelRef(name="scripted-search", revision="1")
        self.parameters = parameters
        self.reply = reply
        self.seconds = seconds
        self.asked: list[str] = []

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        self.asked.append(query)
        time.sleep(self.seconds)
        return self.reply(query)


class RetryingSearch(ScriptedSearch):
    """A search that fails `failures` times before it answers, if it may retry."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        for sent in range(1, self.failures + 2):
            self.asked.append(query)
            if sent > self.failures:
                return answer_to(query).model_copy(update={"requests": sent})
            if not may_retry():
                break
        return LATER.model_copy(update={"requests": sent})


class Clock:
    def __init__(self, moment: datetime = NOON) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment


def recorded(
    store: Store, search: ImageSearch, most: int | None = None, **settings: Any
) -> RecordedSearch:
    settings = {"clock": Clock(), "zone": PACIFIC, "dataset": "cats", **settings}
    return RecordedSearch(search, store, daily_budget=most, **settings)


def search_all(search: RecordedSearch, queries: list[str]) -> int:
    """Return how many queries were answered before the budget was reached."""
    for answered, query in enumerate(queries):
        try:
            search.search(query, 5)
        except BudgetReachedError:
            return answered
    return len(queries)


def test_a_stored_answer_is_reused_by_all_runs_and_datasets(sqlite_store: Store) -> None:
    first, second = ScriptedSearch(), ScriptedSearch()
    once = recorded(sqlite_store, first).search("a cat", 5)
    again = recorded(sqlite_store, second, dataset="dogs").search("  a \n cat ", 5)
    assert isinstance(once, SearchAnswer)
    assert once == again
    assert (first.asked, second.asked) == (["a cat"], [])
    assert row_count(sqlite_store, ModelCall) == 1


def test_a_different_count_or_parameter_is_a_different_search(sqlite_store: Store) -> None:
    search, other = ScriptedSearch(), ScriptedSearch(licences=["by"])
    for count in (5, 6, 5):
        recorded(sqlite_store, search).search("a cat", count)
    recorded(sqlite_store, other).search("a cat", 5)
    assert (len(search.asked), len(other.asked)) == (2, 1)


def test_an_invalid_query_is_neither_sent_nor_stored(store: Store) -> None:
    search = ScriptedSearch()
    for query in ("", "a\0b", "\ud800"):
        assert isinstance(recorded(store, search, 0).search(query, 5), SearchFailure)
    assert search.asked == []
    assert row_count(store, ModelCall) == 0


def test_searching_stops_at_the_daily_budget_and_continues_the_next_day(
    sqlite_store: Store,
) -> None:
    queries = [f"cat {number}" for number in range(8)]
    search, clock = ScriptedSearch(), Clock()
    days = []
    for day in range(4):
        clock.moment = NOON + timedelta(days=day)
        days.append(search_all(recorded(sqlite_store, search, 3, clock=clock), queries))
        assert search_all(recorded(sqlite_store, search, 3, clock=clock), queries) == days[-1]
    assert days == [3, 6, 8, 8]
    assert search.asked == queries, "each query once, in order"


def test_a_day_begins_at_midnight_in_california(sqlite_store: Store) -> None:
    """At the start of daylight saving, in summer, and in winter."""
    for month, day, hour in ((3, 9, 7), (7, 2, 7), (11, 21, 8)):
        midnight = datetime(2026, month, day, hour, tzinfo=UTC)
        clock = Clock(midnight - timedelta(seconds=1))
        search = recorded(sqlite_store, ScriptedSearch(), 1, clock=clock)
        queries = [f"{animal} {month}" for animal in ("cat", "dog", "bird")]
        assert search_all(search, queries) == 1, month
        clock.moment = midnight
        assert search_all(search, queries) == 2, month


def test_a_budget_belongs_to_one_service_across_revisions(sqlite_store: Store) -> None:
    other = ScriptedSearch()
    other.ref = ModelRef(name="another-search", revision="1")
    newer = ScriptedSearch(licences=["by"])
    newer.ref = ModelRef(name="scripted-search", revision="2")
    assert search_all(recorded(sqlite_store, ScriptedSearch(), 1), ["a cat"]) == 1
    assert search_all(recorded(sqlite_store, other, 1), ["a cat"]) == 1
    assert search_all(recorded(sqlite_store, newer, 1), ["a cat"]) == 0


def test_a_transient_failure_is_retried_and_counted(sqlite_store: Store) -> None:
    replies = iter([LATER, AWAY, AWAY, answer_to("a cat")])
    search = ScriptedSearch(lambda _: next(replies))
    runs = [recorded(sqlite_store, search, 2).search("a cat", 5) for _ in range(4)]
    assert [getattr(outcome, "reason", "") for outcome in runs] == [
        *("timeout", "unreachable", "unreachable", "")
    ]
    assert requests_since(sqlite_store, search.ref, NOON - timedelta(hours=1)) == 2
    assert search_all(recorded(sqlite_store, search, 2), ["a cat", "a dog"]) == 1


def test_a_permanent_failure_is_not_retried(sqlite_store: Store) -> None:
    search = ScriptedSearch(lambda _: NEVER)
    assert [recorded(sqlite_store, search).search("a cat", 5) for _ in range(2)] == [NEVER, NEVER]
    assert search.asked == ["a cat"]


def test_retries_count_towards_the_budget(sqlite_store: Store) -> None:
    search = RetryingSearch(failures=2)
    assert isinstance(recorded(sqlite_store, search, 5).search("a cat", 5), SearchAnswer)
    failed = recorded(sqlite_store, search, 5).search("a dog", 5)
    assert (getattr(failed, "reason", ""), len(search.asked)) == ("timeout", 5)
    assert search_all(recorded(sqlite_store, search, 5), ["a cat", "a dog"]) == 1
    assert len(search.asked) == 5


def test_an_exhausted_quota_of_the_service_names_the_next_day(sqlite_store: Store) -> None:
    replies = [OVER, answer_to("a cat")]
    search, clock = ScriptedSearch(lambda _: replies.pop(0)), Clock()
    one = recorded(sqlite_store, search, 100, clock=clock)
    with pytest.raises(
        BudgetReachedError, match=r"quota_exhausted.*enough.*2026-11-21T00:00:00-08:00"
    ):
        one.search("a cat", 5)
    clock.moment += timedelta(days=1)
    assert isinstance(one.search("a cat", 5), SearchAnswer)


def test_an_exception_releases_the_claim_on_the_query(sqlite_store: Store) -> None:
    def wrong_settings(_: str) -> SearchOutcome:
        raise ConfigurationError("no key")

    def interrupted(_: str) -> SearchOutcome:
        raise KeyboardInterrupt

    began = NOON - timedelta(hours=1)
    with pytest.raises(ConfigurationError):
        recorded(sqlite_store, ScriptedSearch(wrong_settings), 2).search("a cat", 5)
    assert requests_since(sqlite_store, ScriptedSearch().ref, began) == 0
    with pytest.raises(KeyboardInterrupt):
        recorded(sqlite_store, ScriptedSearch(interrupted), 2).search("a cat", 5)
    assert requests_since(sqlite_store, ScriptedSearch().ref, began) == 1, "it may have been sent"
    assert isinstance(recorded(sqlite_store, ScriptedSearch(), 2).search("a cat", 5), SearchAnswer)


def test_costs_are_counted_after_the_free_searches(sqlite_store: Store) -> None:
    prices = SearchPrices(per_thousand=1000, free_per_day=2)
    budget = Budget(max_cost=3)
    search = recorded(sqlite_store, ScriptedSearch(), prices=prices, budget=budget)
    assert search_all(search, [f"cat {number}" for number in range(9)]) == 5
    assert budget.cost == 3
    [row] = cost_rows(sqlite_store)
    assert (row.stage, row.calls, row.failed, row.cost) == ("search", 5, 0, 3)
    assert (row.requests, row.tokens_in, row.tokens_out) == (5, 0, 0)
    with pytest.raises(ConfigurationError, match="--max-cost needs a price"):
        recorded(sqlite_store, ScriptedSearch(), budget=budget)


def test_parallel_runs_send_each_query_once_and_keep_to_the_budget(store: Store) -> None:
    queries = [f"cat {number}" for number in range(12)]
    search = ScriptedSearch(seconds=0.005)
    begin = threading.Barrier(4)

    def run(seed: int) -> int:
        own = random.Random(seed).sample(queries, len(queries))
        begin.wait()
        return search_all(recorded(store, search, 9), own)

    with ThreadPoolExecutor(4) as pool:
        answered = list(pool.map(run, range(4)))
    assert max(Counter(search.asked).values()) == 1
    assert len(search.asked) == 9
    assert max(answered) <= 9


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with search_server() as started:
        yield started


class Program:
    """`tests.flows.searching` in a separate process with its own database."""

    def __init__(self, database: Path, server: SearchServer, budget: int) -> None:
        self.arguments = [f"sqlite:///{database}", server.base_url, str(budget)]

    def start(self, queries: list[str]) -> RunningProgram:
        return RunningProgram(searching.main, [*self.arguments, *queries])


@pytest.mark.slow
@pytest.mark.xdist_group("kill")
def test_a_killed_run_repeats_no_answered_query(
    server: SearchServer, sqlite_store: Store, tmp_path: Path
) -> None:
    server.seconds = 0.03
    queries = [f"cat {number}" for number in range(30)]
    kills, output = 0, dict[str, int]()
    program = Program(tmp_path / "loupe.db", server, budget=32)
    for kill_after in (7, 18):
        process = program.start(queries)
        while len(server.queries) < kill_after:
            time.sleep(0.005)
        process.kill()
        asked = Counter(server.queries)
        lines = process.output.splitlines()
        output |= {query: asked[query] for query in lines if query not in output}
        kills += 1
    last = program.start(queries)
    assert (last.wait(), last.output.splitlines()) == (0, queries)
    asked = Counter(server.queries)
    assert set(asked) == set(queries)
    assert asked.total() <= len(queries) + kills, "only queries in flight are repeated"
    assert output == {query: asked[query] for query in output}, "answered queries were not repeated"
    began = datetime(2026, 11, 20, tzinfo=UTC)
    counted = requests_since(sqlite_store, ModelRef(name="openverse", revision="v1"), began)
    assert counted >= asked.total(), "lost requests count, too"


def test_a_stopped_run_sends_no_more_queries_and_stores_the_one_in_flight(
    sqlite_store: Store,
) -> None:
    budget = Budget()

    def reply_and_request_stop(query: str) -> SearchOutcome:
        budget.stop.request()
        return answer_to(query)

    inner = ScriptedSearch(reply_and_request_stop)
    search = recorded(sqlite_store, inner, budget=budget)
    for query in ("a cat", "a dog"):
        with pytest.raises(SystemExit, match="143"):
            search.search(query, 5)
    assert inner.asked == ["a cat"]
    assert budget.stop.in_flight == 0
    assert isinstance(recorded(sqlite_store, ScriptedSearch()).search("a cat", 5), SearchAnswer)
    assert inner.asked == ["a cat"]


def test_an_answer_that_cannot_be_stored_is_named_and_asked_again(sqlite_store: Store) -> None:
    is_full: list[bool] = []

    def refuse(*_: object) -> None:
        if is_full:
            raise ServiceError("the disk is full")

    def reply(query: str) -> SearchOutcome:
        is_full.append(True)
        return answer_to(query)

    event.listen(sqlite_store.engine, "begin", refuse)
    lost = "1 paid answer could not be stored anywhere, and the next run asks again about 'a cat'"
    budget = Budget()
    with pytest.raises(ServiceError, match=f"the disk is full; {lost}"):
        recorded(sqlite_store, ScriptedSearch(reply), budget=budget).search("a cat", 5)
    assert budget.stop.in_flight == 0
    is_full.clear()
    again = recorded(sqlite_store, ScriptedSearch(), 2)
    assert isinstance(again.search("a cat", 5), SearchAnswer), "no claim is left"
    assert search_all(again, ["a dog"]) == 0, "the lost answer counts"


def test_a_failure_without_cost_that_cannot_be_stored_is_no_lost_answer(
    sqlite_store: Store,
) -> None:
    is_full: list[bool] = []

    def refuse(*_: object) -> None:
        if is_full:
            raise ServiceError("the disk is full")

    def reply(_: str) -> SearchOutcome:
        is_full.append(True)
        return AWAY

    event.listen(sqlite_store.engine, "begin", refuse)
    with pytest.raises(ServiceError, match=r"the disk is full$"):
        recorded(sqlite_store, ScriptedSearch(reply)).search("a cat", 5)


class PausingService(ScriptedSearch):
    """A search that pauses for a minute before it asks again, if it may."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__()
        self.sleep = sleep

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        self.asked.append(query)
        self.sleep(60)
        if may_retry():
            self.asked.append(query)
        return LATER


def test_a_pause_is_said_and_ends_when_the_run_is_stopped(sqlite_store: Store) -> None:
    budget, waits, search = Budget(), Waits(), PausingService()
    said: list[str] = []

    def stop_when_it_is_said() -> None:
        while "again" not in str(waits):
            time.sleep(0.01)
        said.append(str(waits))
        budget.stop.request()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(stop_when_it_is_said)
        started = time.monotonic()
        with pytest.raises(SystemExit, match="143"):
            recorded(sqlite_store, search, budget=budget, waits=waits).search("a cat", 5)
        watching.result()
    assert time.monotonic() - started < 30
    assert "to ask scripted-search again" in said[0]
    assert search.asked == ["a cat"], "a stopped run does not ask again"
    assert requests_since(sqlite_store, search.ref, NOON - timedelta(hours=1)) == 1


def test_a_search_that_lost_its_claim_asks_nothing_more_and_takes_the_answer_of_the_other(
    sqlite_store: Store,
) -> None:
    """As a process that was stopped for longer than a lease, and woke before a retry."""

    def taken_over(_: float) -> None:
        with sqlite_store.write() as connection:
            connection.execute(delete(Claim))
        recorded(sqlite_store, ScriptedSearch()).search("a cat", 5)

    search = PausingService()
    ledger = recorded(sqlite_store, search)
    search.sleep = taken_over
    assert ledger.search("a cat", 5) == answer_to("a cat")
    assert search.asked == ["a cat"]
