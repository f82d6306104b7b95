"""A search belongs to the holder of its claim; a caller that lost it stores and counts nothing."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from loupe.db.calls import (
    LOST,
    Busy,
    DailyBudget,
    NewSearch,
    Reserved,
    Spent,
    find_search,
    requests_since,
    reserve_retry,
    reserve_search,
    settle_search,
)
from loupe.db.store import Store
from loupe.db.tables import ModelCall
from loupe.schemas.chat import ModelRef
from loupe.schemas.image_search import SearchAnswer, SearchFailure, SearchOutcome, SearchRequest
from tests.db.samples import hand_over_claims
from tests.separation import ended_place

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = DailyBudget(NOW.replace(hour=0), None)
SERVICE = ModelRef(name="a-search", revision="1")
FOUND = SearchAnswer(hits=(), raw="{}", seconds=1)
FAILED = SearchFailure(reason="timeout", detail="late", retriable=True, requests=2)


def new(query: str = "a cat") -> NewSearch:
    request = SearchRequest(query=query, count=5)
    return NewSearch(request.key(SERVICE, {}), SERVICE, {}, request, "cats", NOW)


def reserve(store: Store, query: str = "a cat", most: int | None = None) -> str:
    taken = reserve_search(store, new(query), DAY._replace(most=most))
    assert isinstance(taken, Reserved), taken
    return taken.claim_id


def settle(store: Store, claim_id: str, outcome: SearchOutcome = FOUND) -> None:
    settle_search(store, new(), claim_id, outcome, DAY, None)


def statuses(store: Store) -> list[str]:
    with store.read() as connection:
        return sorted(connection.execute(select(ModelCall.status)).scalars())


def counted(store: Store) -> int:
    return requests_since(store, SERVICE, DAY.day_began)


def test_a_search_in_flight_is_reported_as_busy(store: Store) -> None:
    claim_id = reserve(store)
    assert reserve_search(store, new(), DAY) == Busy()
    assert find_search(store, new().key) is None
    settle(store, claim_id)
    assert reserve_search(store, new(), DAY) == find_search(store, new().key) == FOUND


@pytest.mark.usefixtures("database_url")
def test_an_expired_claim_is_taken_over_and_its_former_owner_changes_nothing(
    store: Store,
) -> None:
    first = reserve(store)
    hand_over_claims(store)  # to another machine
    assert reserve_search(store, new(), DAY) == Busy()
    assert counted(store) == 1
    hand_over_claims(store, ended_place(), "a dead process")
    second = reserve(store)
    assert statuses(store) == [LOST, LOST]
    assert counted(store) == 2, "the first request may have been sent"
    settle(store, first, SearchFailure(reason="x", detail="", retriable=False))
    assert not reserve_retry(store, new(), first, DAY)
    settle(store, second)
    assert find_search(store, new().key) == FOUND
    assert counted(store) == 2


def test_an_answer_is_stored_if_its_claim_ended_and_nobody_took_the_search_over(
    store: Store,
) -> None:
    claim_id = reserve(store)
    hand_over_claims(store, ended_place(), "a dead process")
    with store.write() as connection:
        store.claims.drop_ended(connection)
    settle(store, claim_id)
    assert reserve_search(store, new(), DAY) == FOUND


def test_a_failure_leaves_the_key_free_and_counts(store: Store) -> None:
    settle(store, reserve(store), FAILED)
    assert find_search(store, new().key) is None
    assert counted(store) == 2
    settle(store, reserve(store), FAILED.model_copy(update={"requests": 0}))
    assert counted(store) == 2
    settle(store, reserve(store))
    assert (counted(store), statuses(store)) == (3, ["answered", "timeout"])


def test_reservations_and_retries_count_against_the_budget_at_once(store: Store) -> None:
    claim_id = reserve(store, most=3)
    budget = DAY._replace(most=3)
    assert reserve_retry(store, new(), claim_id, budget)
    reserve(store, "a dog", most=3)
    assert not reserve_retry(store, new(), claim_id, budget)
    assert reserve_search(store, new("a bird"), budget) == Spent(3)
    settle(store, claim_id)
    assert counted(store) == 2
    reserve(store, "a bird", most=3)
