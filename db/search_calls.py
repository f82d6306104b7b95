"""Searches as calls: reserved before they are sent, stored when they return, counted by day.

A search has one row of `model_call`. It is stored as `in_flight`, with the id of a claim, before
the request is sent, so that concurrent runs see each other's searches and the rest of the budget.
The answer replaces it. A failure that may be retried leaves the key free. It has its own row if the
service counted the request, as has a killed run (`lost`: it is not known whether the service
counted it).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from db.calls import SEARCH_STAGE, call_subject
from db.entities import AgentRef, register_agents
from db.store import Store, retried
from db.tables.provenance import Agent
from db.tables.work import ModelCall
from schemas.base import digest_of
from schemas.chat import ModelRef
from schemas.image_search import SearchAnswer, SearchFailure, SearchOutcome, SearchRequest

IN_FLIGHT = "in_flight"
LOST = "lost"


class NewSearch(NamedTuple):
    """A search that is about to be sent."""

    key: str
    service: ModelRef
    parameters: dict[str, Any]
    request: SearchRequest
    dataset: str
    asked_at: datetime


class DailyBudget(NamedTuple):
    """The number of requests that a service may get since `day_began`; None for no limit."""

    day_began: datetime
    most: int | None


class Reserved(NamedTuple):
    """The search is reserved for this caller by a claim."""

    claim_id: str


class Busy(NamedTuple):
    """Another process has sent the same search; wait for its outcome."""


class Spent(NamedTuple):
    """The day's budget is used up; so many requests were sent."""

    requests: int


Costs = Callable[[int, int], float | None]
"""Returns the price of a number of requests, after a number of others that day."""


@retried
def find_search(store: Store, key: str) -> SearchOutcome | None:
    """Return the outcome of the search with that key; None if it has not returned."""
    with store.read() as connection:
        row = _row_of(connection, key)
    return None if row is None or row.status == IN_FLIGHT else _outcome(row)


@retried
def reserve_search(
    store: Store, search: NewSearch, budget: DailyBudget
) -> Reserved | Busy | Spent | SearchOutcome:
    """Reserve a search, unless it is known, in flight, or beyond the budget."""
    agent = AgentRef.of_model(search.service)
    with store.write() as connection:
        _lock_service(connection, search.service)
        row = _row_of(connection, search.key)
        if row is not None and row.status != IN_FLIGHT:
            return _outcome(row)
        claim_id = store.claims.take(connection, call_subject(search.key))
        if claim_id is None:
            return Busy()
        if row is not None:  # its claim has ended
            lost = {"key": uuid4().hex, "status": LOST}
            connection.execute(update(ModelCall).where(ModelCall.key == search.key).values(lost))
        used = _requests_since(connection, search.service, budget.day_began)
        if budget.most is not None and used >= budget.most:
            store.claims.release(connection, claim_id)
            return Spent(used)
        register_agents(connection, [agent])
        reserved = {
            "key": search.key,
            "agent_id": agent.id,
            "stage": SEARCH_STAGE,
            "dataset": search.dataset,
            "prompt_digest": "",
            "parameters": search.parameters,
            "request": search.request.model_dump(mode="json"),
            "response": claim_id,
            "status": IN_FLIGHT,
            "tokens_in": 1,
            "tokens_out": 0,
            "seconds": 0.0,
            "called_at": search.asked_at,
        }
        connection.execute(insert(ModelCall), reserved)
        return Reserved(claim_id)


@retried
def reserve_retry(store: Store, search: NewSearch, claim_id: str, budget: DailyBudget) -> bool:
    """Count one more request of a search in flight; return False if it is beyond the budget."""
    with store.write() as connection:
        _lock_service(connection, search.service)
        used = _requests_since(connection, search.service, budget.day_began)
        if budget.most is not None and used >= budget.most:
            return False
        more = {"tokens_in": ModelCall.tokens_in + 1}
        return connection.execute(_own(search.key, claim_id).values(more)).rowcount == 1


@retried
def settle_search(
    store: Store,
    search: NewSearch,
    claim_id: str,
    outcome: SearchOutcome,
    budget: DailyBudget,
    costs: Costs,
    currency: str | None,
) -> float | None:
    """Store the outcome of a search, in its own transaction, and return its cost.

    If the claim ended and another process took the search over, the other's outcome is kept.
    """
    with store.write() as connection:
        _lock_service(connection, search.service)
        own = select(ModelCall.tokens_in).where(*_is_own(search.key, claim_id))
        reserved = connection.execute(own).scalar_one_or_none() or 0
        before = _requests_since(connection, search.service, budget.day_began) - reserved
        cost = costs(outcome.requests, max(0, before))
        values = {
            "response": outcome.model_dump_json(),
            "status": "answered" if isinstance(outcome, SearchAnswer) else outcome.reason,
            "tokens_in": outcome.requests,
            "seconds": outcome.seconds if isinstance(outcome, SearchAnswer) else 0.0,
            "cost": cost,
            "currency": currency,
        }
        if isinstance(outcome, SearchFailure) and outcome.retriable:
            if outcome.requests == 0:
                connection.execute(delete(ModelCall).where(*_is_own(search.key, claim_id)))
                store.claims.release(connection, claim_id)
                return None
            values["key"] = uuid4().hex
        connection.execute(_own(search.key, claim_id).values(values))
        store.claims.release(connection, claim_id)
        return cost


@retried
def abandon_search(store: Store, search: NewSearch, claim_id: str) -> None:
    """Abandon a search whose request may have been sent: it counts, as `lost`."""
    with store.write() as connection:
        connection.execute(
            _own(search.key, claim_id).values(key=uuid4().hex, status=LOST, response=claim_id)
        )
        store.claims.release(connection, claim_id)


@retried
def requests_since(store: Store, service: ModelRef, began: datetime) -> int:
    """Count the requests to the service since a time, by all runs on all datasets."""
    with store.read() as connection:
        return _requests_since(connection, service, began)


def _requests_since(connection: Connection, service: ModelRef, began: datetime) -> int:
    agents = select(Agent.id).where(Agent.kind == "model", Agent.name == service.name)
    query = select(func.coalesce(func.sum(ModelCall.tokens_in), 0)).where(
        ModelCall.agent_id.in_(agents), ModelCall.called_at >= began
    )
    return connection.execute(query).scalar_one() or 0


def _lock_service(connection: Connection, service: ModelRef) -> None:
    """Lock a service, so that its searches are reserved one at a time (SQLite has one writer)."""
    if connection.dialect.name == "postgresql":
        number = int(digest_of("search-budget", service.name)[:15], 16)
        connection.execute(select(func.pg_advisory_xact_lock(number)))


def _row_of(connection: Connection, key: str) -> Row[str, str] | None:
    query = select(ModelCall.status, ModelCall.response).where(ModelCall.key == key)
    return connection.execute(query).one_or_none()


def _is_own(key: str, claim_id: str) -> tuple[Any, ...]:
    return ModelCall.key == key, ModelCall.status == IN_FLIGHT, ModelCall.response == claim_id


def _own(key: str, claim_id: str) -> Any:
    return update(ModelCall).where(*_is_own(key, claim_id))


def _outcome(row: Row[str, str]) -> SearchOutcome:
    kind = SearchAnswer if row.status == "answered" else SearchFailure
    return kind.model_validate_json(row.response)
