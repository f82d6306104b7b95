"""Model calls: stored as soon as they return, found by key, and summed up."""

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Text, case, cast, func, select

from db.engine import insert_new
from db.entities import AgentRef, register_agents
from db.store import Store, retried
from db.tables.provenance import Agent
from db.tables.work import ModelCall
from schemas.base import sha256_of
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef, ServedModel
from schemas.errors import ServiceError
from schemas.provenance import ANSWERED

_SPOOLED = ".call.json"
_log = logging.getLogger(__name__)

SEARCH_STAGE = "search"
"""Stage of image searches (`db.search_calls`), which are stored with the calls."""


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


class CostRow(NamedTuple):
    """Requests to a model or an image search service in a stage, and their cost.

    `requests` counts the requests billed by a search service; it is None for models.
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


@retried
def claim_call(store: Store, key: str) -> str | None:
    """Claim a call before its request is sent; return the id of the claim.

    Returns None if the call is stored already, or another process has claimed it and is waiting for
    the answer.
    """
    with store.write() as connection:
        claim_id = store.claims.take(connection, call_subject(key))
        # An answer is stored and its claim released in one transaction, so both are visible
        # together.
        stored = select(ModelCall.key).where(ModelCall.key == key)
        if claim_id is not None and connection.execute(stored).first() is not None:
            store.claims.release(connection, claim_id)
            return None
        return claim_id


def call_subject(key: str) -> str:
    """Return the subject of a claim on the call with that key."""
    return f"call/{key}"


def record_call(store: Store, call: NewCall, claim_id: str | None = None) -> bool:
    """Store a call in its own transaction and release the claim on it.

    A call that is stored already is not changed. Returns False if the claim had been taken over;
    the other process may have stored its own answer.
    """
    agent = AgentRef.of_model(call.model)
    return _store_row(store, agent, _row(call, agent), claim_id)


@retried
def _store_row(
    store: Store, agent: AgentRef, row: dict[str, Any], claim_id: str | None = None
) -> bool:
    with store.write() as connection:
        register_agents(connection, [agent])
        insert_new(connection, ModelCall, [row])
        return claim_id is None or store.claims.release(connection, claim_id)


def spool_call(folder: Path, call: NewCall) -> None:
    """Write a call that the database cannot store into a file that only its owner can read.

    Raises:
        ServiceError: the file cannot be written.
    """
    agent = AgentRef.of_model(call.model)
    text = json.dumps({"agent": agent, "row": _row(call, agent)}, default=datetime.isoformat)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".call-")  # mode 600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(folder / f"{call.key}{_SPOOLED}")
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
        _store_row(store, agent, row)
        file.unlink(missing_ok=True)
        stored += 1
    return stored


@retried
def find_call(store: Store, key: str) -> ChatOutcome | None:
    """Return the outcome of the call with that key; None if it was never made."""
    with store.read() as connection:
        row = connection.execute(select(ModelCall).where(ModelCall.key == key)).one_or_none()
    if row is None:
        return None
    usage = {"raw": row.raw or "", "tokens_in": row.tokens_in, "tokens_out": row.tokens_out}
    if row.status not in ANSWERED:
        return ChatFailure(reason=row.status, detail=row.response, retriable=False, **usage)
    truncated = row.status == "truncated"
    return ChatAnswer(text=row.response, seconds=row.seconds, truncated=truncated, **usage)


@retried
def has_answered(
    store: Store, model: ModelRef, parameters: dict[str, Any], purposes: Iterable[str]
) -> bool:
    """Return whether the model, with these parameters, ever answered for one of the purposes."""
    query = select(ModelCall.key).where(
        ModelCall.agent_id == AgentRef.of_model(model).id,
        ModelCall.stage.in_(purposes),
        ModelCall.status.in_(ANSWERED),
        cast(ModelCall.parameters, Text) == json.dumps(parameters),  # JSON as stored
    )
    with store.read() as connection:
        return connection.execute(query.limit(1)).first() is not None


@retried
def cost_rows(store: Store, dataset: str | None = None) -> Sequence[CostRow]:
    """Return calls, tokens, requests, seconds and cost by model or service, stage and dataset."""
    is_search = ModelCall.stage == SEARCH_STAGE
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
    with store.read() as connection:
        return [CostRow(f"{row[0]}@{row[1]}", *row[2:]) for row in connection.execute(query)]


def _row(call: NewCall, agent: AgentRef) -> dict[str, Any]:
    """Return the row of a call; images are replaced by their digests."""
    request, outcome = call.request, call.outcome
    if isinstance(outcome, ChatFailure):
        response, status, seconds = outcome.detail, outcome.reason, 0.0
    else:
        response, seconds = outcome.text, outcome.seconds
        status = "truncated" if outcome.truncated else "answered"
    return {
        "key": call.key,
        "agent_id": agent.id,
        "stage": request.purpose,
        "dataset": call.dataset,
        "prompt_digest": request.prompt_digest,
        "parameters": call.parameters,
        "request": {
            **request.model_dump(mode="json", exclude={"images"}),
            "images": [sha256_of(image.data) for image in request.images],
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
        "called_at": datetime.now(UTC),
    }
