"""A search belongs to the holder of its claim; a caller that lost it stores and counts nothing."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from loupe.db.calls import (
    LOST,
    DailyBudget,
    NewSearch,
    call_subject,
    count_request,
    find_search,
    record_search,
    requests_since,
)
from loupe.db.store import Store, claim_subject, is_claim_held
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


def claim(store: Store, query: str = "a cat") -> str | None:
    return claim_subject(store, call_subject(new(query).key))


def send(store: Store, query: str = "a cat") -> str:
    claim_id = claim(store, query)
    assert claim_id is not None
    assert count_request(store, new(query), claim_id, DAY) is None
    return claim_id


def settle(store: Store, claim_id: str, outcome: SearchOutcome = FOUND) -> bool:
    return record_search(store, new(), claim_id, outcome, DAY, None)[0]


def statuses(store: Store) -> list[str]:
    with store.read() as connection:
        return sorted(connection.execute(select(ModelCall.status)).scalars())


def counted(store: Store) -> int:
    return requests_since(store, SERVICE, DAY.day_began)


def test_a_search_in_flight_is_claimed_and_counts(store: Store) -> None:
    claim_id = send(store)
    assert claim(store) is None
    assert find_search(store, new().key) is None
    assert counted(store) == 1
    assert settle(store, claim_id)
    assert find_search(store, new().key) == FOUND


@pytest.mark.usefixtures("database_url")
def test_an_expired_claim_is_taken_over_and_its_former_owner_changes_nothing(
    store: Store,
) -> None:
    first = send(store)
    hand_over_claims(store)  # to another machine
    assert claim(store) is None
    hand_over_claims(store, ended_place(), "a dead process")
    second = send(store)
    assert statuses(store) == [LOST, LOST]
    assert counted(store) == 2, "the first request may have been sent"
    assert not settle(store, first, SearchFailure(reason="x", detail="", retriable=False))
    assert not is_claim_held(store, first)
    assert settle(store, second)
    assert not settle(store, first)
    assert find_search(store, new().key) == FOUND
    assert counted(store) == 2


def test_an_answer_is_stored_if_its_claim_ended_and_nobody_took_the_search_over(
    store: Store,
) -> None:
    claim_id = send(store)
    hand_over_claims(store, ended_place(), "a dead process")
    with store.write() as connection:
        store.claims.drop_ended(connection)
    assert settle(store, claim_id)
    assert find_search(store, new().key) == FOUND


def test_a_failure_leaves_the_key_free_and_counts(store: Store) -> None:
    settle(store, send(store), FAILED)
    assert find_search(store, new().key) is None
    assert counted(store) == 2
    settle(store, send(store), FAILED.model_copy(update={"requests": 0}))
    assert counted(store) == 2
    settle(store, send(store))
    assert (counted(store), statuses(store)) == (3, ["answered", "timeout"])


def test_requests_in_flight_and_retries_count_against_the_budget_at_once(store: Store) -> None:
    budget = DAY._replace(most=3)
    claim_id, dog = send(store), send(store, "a dog")
    assert count_request(store, new(), claim_id, budget) is None
    assert count_request(store, new(), claim_id, budget) == 3
    assert count_request(store, new("a dog"), dog, budget) == 3
    settle(store, claim_id)
    assert counted(store) == 2
    assert count_request(store, new("a dog"), dog, budget) is None
