"""Model calls and searches: stored as soon as they return, found by key, and summed up.

A search is counted before it is sent: until its outcome is stored, its row of `model_call` has the
id of its claim as its key and is `lost`, so that concurrent runs see the rest of the budget. A
killed run leaves it so, as it is not known whether the service counted the request. A failure that
may be retried leaves the key of the search free, too.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Text, case, cast, delete, func, insert, select, update

from loupe.db.entities import AgentRef, register_agents, rows_in
from loupe.db.store import Store, acquire_lock, reads, retried, writes
from loupe.db.tables import Agent, ModelCall, insert_new
from loupe.schemas.chat import (
    ChatAnswer,
    ChatFailure,
    ChatOutcome,
    ChatRequest,
    ModelRef,
    ServedModel,
)
from loupe.schemas.errors import ServiceError
from loupe.schemas.image_search import (
    SearchAnswer,
    SearchFailure,
    SearchOutcome,
    SearchPrices,
    SearchRequest,
)
from loupe.schemas.processes import write_atomically
from loupe.schemas.provenance import ANSWERED

_SPOOLED = ".call.json"
_log = logging.getLogger(__name__)

_SEARCH_STAGE = "search"
"""Stage of image searches, which are stored with the calls."""


_CALLS = select(ModelCall)


class NewCall(NamedTuple):
    """A call that has returned, to be stored."""

    key: str
    model: ModelRef
    parameters: dict[str, Any]
    request: ChatRequest
    outcome: ChatOutcome
    dataset: str
    cost: float | None
    currency: str | None
    served: ServedModel | None = None
    repairs: tuple[str, ...] = ()


class CostRow(NamedTuple):
    """Requests to a model or an image search service in a stage, and their cost.

    `requests` counts the requests billed by a search service; it is 0 for models.
    `unknown_usage` counts the calls without token numbers from the server. Sums are over the other
    calls, None if there are none. `cost` is also None if the profile has no prices.
    """

    model: str
    stage: str
    dataset: str
    calls: int
    failed: int
    unknown_usage: int
    tokens_in: int | None
    tokens_out: int | None
    requests: int
    seconds: float
    cost: float | None
    currency: str | None


def call_subject(key: str) -> str:
    """Return the subject of a claim on the call with that key."""
    return f"call/{key}"


def record_call(store: Store, call: NewCall, claim_id: str | None = None) -> bool:
    """Store a call in its own transaction and release the claim on it.

    A call that is stored already is not changed. Returns False if the claim had been taken over;
    the other process may have stored its own answer.
    """
    agent = AgentRef.of_model(call.model)
    return _store_rows(store, agent, [_row(call, agent)], claim_id)


def record_calls(store: Store, calls: Sequence[NewCall]) -> dict[str, ChatOutcome]:
    """Store calls of one model that cost nothing, in one transaction.

    Returns their stored outcomes by key: those of calls that another run stored before are its own.
    """
    if not calls:
        return {}
    agent = AgentRef.of_model(calls[0].model)
    _store_rows(store, agent, [_row(call, agent) for call in calls])
    return find_calls(store, [call.key for call in calls])


@retried
def _store_rows(
    store: Store, agent: AgentRef, rows: Sequence[dict[str, Any]], claim_id: str | None = None
) -> bool:
    with store.write() as connection:
        register_agents(connection, [agent])
        insert_new(connection, ModelCall, rows)
        return claim_id is None or store.claims.release(connection, claim_id)


def spool_call(folder: Path | None, call: NewCall) -> None:
    """Write a call that the database cannot store into a file that only its owner can read.

    Raises:
        ServiceError: there is no such folder, or the file cannot be written.
    """
    if folder is None:
        raise ServiceError(f"an answer of {call.model} cannot be stored: the store has no spool")
    agent = AgentRef.of_model(call.model)
    text = json.dumps({"agent": agent, "row": _row(call, agent)}, default=datetime.isoformat)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(folder / f"{call.key}{_SPOOLED}", text.encode())
    except OSError as error:
        raise ServiceError(
            f"an answer of {call.model} can be stored neither in the database nor in {folder}: "
            f"{error.strerror or error}"
        ) from error


def replay_calls(store: Store) -> int:
    """Store the calls in the store's spool and return their number.

    Incomplete files stay in the spool.
    """
    if store.spool is None or not store.spool.is_dir():
        return 0
    stored = 0
    for file in sorted(store.spool.glob(f"*{_SPOOLED}")):
        try:
            found = json.loads(file.read_bytes())
            row = found["row"] | {"called_at": datetime.fromisoformat(found["row"]["called_at"])}
            agent = AgentRef(*found["agent"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            _log.warning("the answer in %s cannot be read (%s) and stays there", file, error)
            continue
        _store_rows(store, agent, [row])
        file.unlink(missing_ok=True)
        stored += 1
    return stored


@reads
def find_call(connection: Connection, key: str) -> ChatOutcome | None:
    """Return the outcome of the call with that key; None if it was never made."""
    return find_calls(connection, [key]).get(key)


@reads
def find_calls(connection: Connection, keys: Iterable[str]) -> dict[str, ChatOutcome]:
    """Return the outcomes of the calls with these keys that were made, by key."""
    return {row.key: _outcome(row) for row in rows_in(connection, _CALLS, ModelCall.key, keys)}


def _outcome(row: Row[Any]) -> ChatOutcome:
    usage = {"raw": row.raw or "", "tokens_in": row.tokens_in, "tokens_out": row.tokens_out}
    if row.status not in ANSWERED:
        return ChatFailure(reason=row.status, detail=row.response, retriable=False, **usage)
    truncated = row.status == "truncated"
    return ChatAnswer(text=row.response, seconds=row.seconds, truncated=truncated, **usage)


@writes
def correct_call(connection: Connection, key: str, answer: ChatAnswer) -> None:
    """Store what was read in the raw answer of a call that could not be read before."""
    values = {"response": answer.text, "status": _status_of(answer), "seconds": answer.seconds}
    connection.execute(update(ModelCall).where(ModelCall.key == key).values(**values))


@reads
def has_answered(
    connection: Connection, model: ModelRef, parameters: dict[str, Any], purposes: Iterable[str]
) -> bool:
    """Return whether the model, with these parameters, ever answered for one of the purposes."""
    query = select(ModelCall.key).where(
        ModelCall.agent_id == AgentRef.of_model(model).id,
        ModelCall.stage.in_(purposes),
        ModelCall.status.in_(ANSWERED),
        cast(ModelCall.parameters, Text) == json.dumps(parameters),  # JSON as stored
    )
    return connection.execute(query.limit(1)).first() is not None


@reads
def cost_rows(connection: Connection, dataset: str | None = None) -> Sequence[CostRow]:
    """Return calls, tokens, requests, seconds and cost by model or service, stage and dataset."""
    is_search = ModelCall.stage == _SEARCH_STAGE
    of = Agent.name, Agent.revision, ModelCall.stage, ModelCall.dataset
    query = (
        select(
            *of,
            func.count(),
            func.count().filter(ModelCall.status.not_in(ANSWERED)),
            func.count().filter(ModelCall.tokens_in.is_(None) | ModelCall.tokens_out.is_(None)),
            func.sum(case((is_search, 0), else_=ModelCall.tokens_in)),
            func.sum(ModelCall.tokens_out),
            func.sum(case((is_search, ModelCall.tokens_in), else_=0)),
            func.sum(ModelCall.seconds),
            func.sum(ModelCall.cost),
            ModelCall.currency,
        )
        .join(Agent, Agent.id == ModelCall.agent_id)
        .group_by(*of, ModelCall.currency)
        .order_by(*of)
    )
    if dataset is not None:
        query = query.where(ModelCall.dataset == dataset)
    return [CostRow(f"{row[0]}@{row[1]}", *row[2:]) for row in connection.execute(query)]


def _row(call: NewCall, agent: AgentRef) -> dict[str, Any]:
    """Return the row of a call; images are replaced by their digests."""
    request, outcome = call.request, call.outcome
    if isinstance(outcome, ChatFailure):
        response, status, seconds = outcome.detail, outcome.reason, 0.0
    else:
        response, seconds, status = outcome.text, outcome.seconds, _status_of(outcome)
    return {
        "key": call.key,
        "agent_id": agent.id,
        "stage": request.purpose,
        "dataset": call.dataset,
        "prompt_digest": request.prompt_digest,
        "parameters": call.parameters,
        "request": {
            **request.model_dump(mode="json", exclude={"images"}),
            "images": [image.sha256 for image in request.images],
        },
        "response": response,
        "raw": outcome.raw or None,
        "status": status,
        "tokens_in": outcome.tokens_in,
        "tokens_out": outcome.tokens_out,
        "seconds": seconds,
        "cost": call.cost,
        "currency": call.currency,
        "served": call.served and call.served.model_dump_json(),
        "repairs": "; ".join(call.repairs) or None,
        "called_at": datetime.now(UTC),
    }


def _status_of(answer: ChatAnswer) -> str:
    return "truncated" if answer.truncated else "answered"


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


@reads
def find_search(connection: Connection, key: str) -> SearchOutcome | None:
    """Return the outcome of the search with that key; None if it has not returned."""
    query = select(ModelCall.status, ModelCall.response).where(ModelCall.key == key)
    if (row := connection.execute(query).one_or_none()) is None:
        return None
    kind = SearchAnswer if row.status == "answered" else SearchFailure
    return kind.model_validate_json(row.response)


@writes
def count_request(
    connection: Connection, search: NewSearch, claim_id: str, budget: DailyBudget
) -> int | None:
    """Count a request of a claimed search that is about to be sent.

    It counts until the search is recorded, also if the run ends before. Returns None, or the number
    of requests sent that day if one more is beyond the budget.
    """
    acquire_lock(connection, f"searches {search.service.name}")
    used = requests_since(connection, search.service, budget.day_began)
    if budget.most is not None and used >= budget.most:
        return used
    more = update(ModelCall).where(ModelCall.key == claim_id)
    more = more.values(tokens_in=ModelCall.tokens_in + 1)
    if not connection.execute(more).rowcount:
        _insert_search(connection, search, key=claim_id, status=LOST, tokens_in=1)
    return None


def _insert_search(connection: Connection, search: NewSearch, **values: Any) -> None:
    agent = AgentRef.of_model(search.service)
    row = {
        "agent_id": agent.id,
        "stage": _SEARCH_STAGE,
        "dataset": search.dataset,
        "prompt_digest": "",
        "parameters": search.parameters,
        "request": search.request.model_dump(mode="json"),
        "response": "",
        "tokens_out": 0,
        "seconds": 0.0,
        "called_at": search.asked_at,
        **values,
    }
    register_agents(connection, [agent])
    connection.execute(insert(ModelCall), row)


@retried
def record_search(
    store: Store,
    search: NewSearch,
    claim_id: str,
    outcome: SearchOutcome,
    budget: DailyBudget,
    prices: SearchPrices | None,
) -> tuple[bool, float | None]:
    """Store the outcome of a search in its own transaction, and release its claim.

    A failure that may pass leaves the search's key free; its requests count.

    Returns:
        False if another process took the search over, so that its outcome is kept; and the cost.
    """
    if isinstance(outcome, SearchAnswer):
        is_final, status, seconds = True, "answered", outcome.seconds
    else:
        is_final, status, seconds = not outcome.retriable, outcome.reason, 0.0
    with store.write() as connection:
        acquire_lock(connection, f"searches {search.service.name}")
        own = ModelCall.key == claim_id
        counted = connection.execute(select(ModelCall.tokens_in).where(own)).scalar() or 0
        before = requests_since(connection, search.service, budget.day_began) - counted
        cost = None if prices is None else prices.cost(outcome.requests, max(0, before))
        if not store.claims.release(connection, claim_id) and (
            find_search(connection, search.key) is not None
            or store.claims.is_taken(connection, call_subject(search.key))
        ):
            return False, cost
        connection.execute(delete(ModelCall).where(own))
        if is_final or outcome.requests:
            _insert_search(
                connection,
                search,
                key=search.key if is_final else claim_id,
                response=outcome.model_dump_json(),
                status=status,
                tokens_in=outcome.requests,
                seconds=seconds,
                cost=cost,
                currency=prices and prices.currency,
            )
        return True, cost


@reads
def requests_since(connection: Connection, service: ModelRef, began: datetime) -> int:
    """Count the requests to the service since a time, by all runs on all datasets."""
    agents = select(Agent.id).where(Agent.kind == "model", Agent.name == service.name)
    query = select(func.coalesce(func.sum(ModelCall.tokens_in), 0)).where(
        ModelCall.agent_id.in_(agents), ModelCall.called_at >= began
    )
    return connection.execute(query).scalar_one() or 0
