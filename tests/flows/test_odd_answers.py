"""Odd values in an answer do not matter, and a response without a whole one is asked again."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from loupe.db.calls import cost_rows
from loupe.db.quarantine import put_back
from loupe.db.store import Store
from loupe.db.tables import ModelCall
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.model_step import ask
from loupe.flows.engine.stopping import Budget
from loupe.models.openai_chat import OpenAIChatModel
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest
from loupe.schemas.errors import BudgetReachedError
from loupe.schemas.profile import OpenAIChat, Prices
from tests.db.samples import DATASET, row_count
from tests.flows.command_line import Loupe
from tests.servers.counting_server import CountingServer, Fault, counting_server

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    float("nan"),
    "",
    "9",
    "\0\ud800",
    [],
    {},
)
PRICES = Prices(input_per_million=1_000_000, output_per_million=1_000_000)


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server() as running:
        yield running


def recorded(store: Store, server: CountingServer, budget: Budget | None = None) -> Any:
    spec = OpenAIChat(
        provider="openai", name="counting", revision="1", base_url=server.base_url, max_in_flight=8
    )
    return RecordedChatModel(OpenAIChatModel(spec), store, DATASET, PRICES, budget or Budget())


def requests(count: int) -> list[ChatRequest]:
    return [
        ChatRequest(purpose="rewrite", prompt=f"Reword number {n}.", prompt_digest="d")
        for n in range(count)
    ]


def mutated(chance: random.Random, number: int) -> Fault:
    """A response with a wrong or missing value, broken JSON, or wrong headers."""
    envelope: dict[str, Any] = {
        "choices": [{"finish_reason": "stop", "message": {"content": f"Said {number}."}}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 2},
    }
    places: list[tuple[Any, Any]] = [
        *((envelope, key) for key in envelope),
        *((envelope["usage"], key) for key in envelope["usage"]),
        *((envelope["choices"][0], key) for key in envelope["choices"][0]),
        (envelope["choices"][0]["message"], "content"),
        (envelope["choices"], 0),
    ]
    holder, key = chance.choice(places)
    if chance.random() < 0.1:
        del holder[key]
    else:
        parts = [{"type": "text", "text": f"Said {number}."}]
        holder[key] = chance.choice([*ODD_VALUES, parts])
    text = json.dumps(envelope)
    headers = {}
    match chance.randrange(12):
        case 0:
            text = text[: chance.randrange(len(text))]
        case 1:
            text = f"<html><body>{number}</body></html>"
        case 2:
            text = "[" * 100_000
        case 3:
            headers = {"Content-Length": str(len(text) + 9)}
        case 4:
            headers = {"Content-Encoding": chance.choice(["gzip", "br", "x-own"])}
    return Fault("body", text=text, match=f"number {number}.", headers=headers)


@pytest.mark.parametrize(
    "count", [40, pytest.param(300, marks=pytest.mark.soak)], ids=["a few", "many"]
)
def test_a_response_without_a_whole_completion_is_asked_again_and_costs_once(
    sqlite_store: Store, server: CountingServer, count: int
) -> None:
    store, chance = sqlite_store, random.Random(9)
    server.ledger.add_faults(*(mutated(chance, number) for number in range(count)))
    budget = Budget(max_cost=1e12)
    first = ask(recorded(store, server, budget), requests(count))
    again = ask(recorded(store, server), requests(count))

    assert set(server.ledger.counts.values()) == {1, 2}
    assert first == again
    assert sorted(first) == list(range(count))
    assert all(isinstance(one, ChatAnswer) for one in first.values())
    assert sum(map(is_read, first.values())) > count / 5
    assert row_count(store, ModelCall) == count
    with store.read() as connection:
        assert all(connection.execute(select(ModelCall.raw)).scalars())
    assert budget.calls == count
    assert budget.cost > count * 6 / 2
    assert server.ledger.faults == []


def is_read(outcome: ChatOutcome) -> bool:
    return isinstance(outcome, ChatAnswer) and outcome.text.startswith("Said")


@pytest.mark.parametrize(("named", "said"), [("zzz-other", 1), ("lab/counting-2026", 0)])
def test_a_server_that_names_another_model_is_warned_of_once(
    sqlite_store: Store, server: CountingServer, named: str, said: int
) -> None:
    server.ledger.add_faults(Fault("model", text=named, times=99))
    spec = OpenAIChat(provider="openai", name="counting", revision="1", base_url=server.base_url)
    warnings: list[str] = []
    model = RecordedChatModel(
        OpenAIChatModel(spec), sqlite_store, DATASET, None, Budget(), warn=warnings.append
    )
    assert len(ask(model, requests(5))) == 5
    assert len(warnings) == said
    assert all("'counting'" in one and "'zzz-other'" in one for one in warnings)


def test_an_answer_whose_usage_is_unknown_counts_towards_the_limit(
    sqlite_store: Store, server: CountingServer
) -> None:
    body = json.dumps({"choices": [{"message": {"content": "Said. " * 100}}], "usage": None})
    server.ledger.add_faults(Fault("body", text=body, times=99))
    with pytest.raises(BudgetReachedError):
        ask(recorded(sqlite_store, server, Budget(max_cost=300)), requests(50))
    assert server.ledger.summary()["total"] < 50


def test_unknown_usage_is_shown_as_unknown(
    loupe: Loupe, home: Path, server: CountingServer
) -> None:
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    body = json.dumps({"choices": [{"message": {"content": "Said."}}]})
    server.ledger.add_faults(Fault("body", text=body))
    ask(recorded(store, server), requests(1))
    [row] = cost_rows(store)
    assert (row.unknown_usage, row.tokens_in, row.tokens_out, row.cost) == (1, None, None, None)
    assert loupe("cost").out.count("unknown") == 4  # three values and a column heading
    ask(recorded(store, server), requests(2))
    assert "at least 3" in loupe("cost").out


@pytest.mark.postgres
def test_a_failed_call_is_requested_again_when_it_is_put_back(
    postgres_store: Store, server: CountingServer
) -> None:
    store = postgres_store
    server.ledger.add_faults(Fault("content", text="", finish_reason="content_filter"))
    assert isinstance(ask(recorded(store, server), requests(1))[0], ChatFailure)
    put_back(store, DATASET, "content_filter")
    assert isinstance(ask(recorded(store, server), requests(1))[0], ChatAnswer)
    assert row_count(store, ModelCall) == 2, "the first call is still counted as a cost"
