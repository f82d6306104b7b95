"""Model calls: stored the moment they return, found again by their key, added up."""

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
"""The stage of searches for images (`db.search_calls`), which are kept beside the calls."""


class NewCall(NamedTuple):
    """A call that has just returned."""

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
    """What a model, or an image search, was asked and paid for in a stage.

    `requests` are those that a search service counts; models have none. `unknown_usage`
    are the calls whose tokens the server did not state: sums are of the others, None where there
    are no others. `cost` is None, too, where the profile gives no prices.
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
    """Claims a call before its request is sent; gives the claim's id.

    None where the call is stored by now, or claimed by somebody else, who is buying the answer.
    """
    with store.write() as connection:
        claim_id = store.claims.take(connection, call_subject(key))
        # An answer is stored and its claim released at once: with the claim, we see the answer.
        stored = select(ModelCall.key).where(ModelCall.key == key)
        if claim_id is not None and connection.execute(stored).first() is not None:
            store.claims.release(connection, claim_id)
            return None
        return claim_id


def call_subject(key: str) -> str:
    """What a claim on the call with that key names."""
    return f"call/{key}"


def record_call(store: Store, call: NewCall, claim_id: str | None = None) -> bool:
    """Stores a call in a transaction of its own, and gives the claim on it back.

    A call that is stored already stays as it is. False where the claim had been taken over: then
    another may have stored its own answer.
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
    """Writes a call that the database does not take into a file that only its owner can read.

    Raises:
        ServiceError: the file cannot be written, either.
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
            f"an answer of {call.model} that was paid for can neither be stored nor be kept in "
            f"{folder}: {error.strerror or error}"
        ) from error


def replay_calls(store: Store) -> int:
    """Stores the calls that wait in the store's spool; gives how many there were.

    A file that is not whole stays where it is.
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
    """The outcome of the call with that key, or None where it was never made."""
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
    """Whether the model, with these parameters, ever answered a request of one of the purposes."""
    query = select(ModelCall.key).where(
        ModelCall.agent_id == AgentRef.of_model(model).id,
        ModelCall.stage.in_(purposes),
        ModelCall.status.in_(ANSWERED),
        cast(ModelCall.parameters, Text) == json.dumps(parameters),  # JSON as it was stored
    )
    with store.read() as connection:
        return connection.execute(query.limit(1)).first() is not None


@retried
def cost_rows(store: Store, dataset: str | None = None) -> Sequence[CostRow]:
    """Calls, tokens, requests, seconds and money by model or service, stage and dataset."""
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
    """The row of a call; images by digest, since their bytes are in the blob store."""
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
