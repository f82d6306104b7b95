"""Whatever happens to a response on its way, the result is that of a run without faults."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.db.store import Store
from loupe.db.tables import ModelCall
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.model_step import ask
from loupe.flows.engine.stopping import Budget
from loupe.models.openai_chat import OpenAIChatModel
from loupe.schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from loupe.schemas.profile import OpenAIChat
from tests.db.samples import DATASET, row_count
from tests.flows.command_line import Loupe
from tests.flows.test_unusable_models import Hosted
from tests.servers.counting_server import CountingServer, Fault, counting_server

ANSWER = json.dumps({"choices": [{"message": {"content": "Cut off"}}]})
ERROR = {"error": {"message": "The engine is overloaded.", "type": "server_error"}}
FAULTS = {
    "reset": Fault("reset"),
    "cut in the body": Fault("body", text=ANSWER[:-9], headers={"Content-Length": "999"}),
    "cut in a chunk": Fault("body", text="9f\r\n{", headers={"Transfer-Encoding": "chunked"}),
    "too short a length": Fault("body", text=ANSWER, headers={"Content-Length": "20"}),
    "stalled": Fault("stall", seconds=3),
    "truncated JSON": Fault("malformed"),
    "empty": Fault("body", text=""),
    "a damaged byte": Fault("body", text=ANSWER.replace("C", "\udcff")),
    "a page": Fault("page"),
    "no choices": Fault("body", text='{"choices": [], "usage": {"prompt_tokens": 3}}'),
    "no message": Fault("body", text='{"choices": [{}]}'),
    "an error": Fault("body", text=json.dumps(ERROR)),
    "an error in a choice": Fault("body", text=json.dumps({"choices": [{**ERROR, "message": {}}]})),
    "an error that names a status": Fault(
        "body", text='{"error": {"code": 400, "message": "No."}}'
    ),
    "not compressed as it says": Fault("body", text=ANSWER, headers={"Content-Encoding": "gzip"}),
    "answered twice": Fault("doubled"),
    "another model": Fault("model", text="someone/else"),
    "the answer to another request": Fault("other"),
    "too many requests": Fault("status", status=429, retry_after_seconds=0.01),
    "a gateway": Fault("status", status=502),
}


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server() as running:
        yield running


def requests(count: int) -> list[ChatRequest]:
    return [
        ChatRequest(purpose="rewrite", prompt=f"Reword number {n}.", prompt_digest="d")
        for n in range(count)
    ]


def asked(store: Store, server: CountingServer, **settings: Any) -> dict[int, ChatOutcome]:
    spec = OpenAIChat(
        provider="openai",
        name="counting",
        revision="1",
        base_url=server.base_url,
        max_in_flight=1,
        timeout_seconds=1,
        **settings,
    )
    model = RecordedChatModel(OpenAIChatModel(spec), store, DATASET, None, Budget())
    return ask(model, requests(3))


def texts(outcomes: dict[int, ChatOutcome]) -> list[str]:
    assert all(isinstance(one, ChatAnswer) for one in outcomes.values()), outcomes
    return [one.text for _, one in sorted(outcomes.items()) if isinstance(one, ChatAnswer)]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_transport_is_asked_again(
    sqlite_store: Store, server: CountingServer, name: str
) -> None:
    fault = Fault(**{**vars(FAULTS[name]), "match": "number 1."})
    server.ledger.add_faults(fault)
    found = texts(asked(sqlite_store, server))
    assert server.ledger.faults == []
    expected = [server.complete(one.body) for one in server.ledger.seen]
    without_fault = {one["choices"][0]["message"]["content"] for one in expected}
    assert set(found) == without_fault
    assert len(set(found)) == row_count(sqlite_store, ModelCall) == 3
    assert server.ledger.summary()["total"] == 3 + (name != "answered twice")


def test_a_fault_that_stays_leaves_the_record_for_later_and_quotes_the_server(
    sqlite_store: Store, server: CountingServer
) -> None:
    fault = Fault(**{**vars(FAULTS["an error"]), "times": 99})
    server.ledger.add_faults(fault)
    outcomes = asked(sqlite_store, server, max_retries=0)
    assert {(one.reason, one.retriable) for one in outcomes.values()} == {("server_error", True)}  # type: ignore[union-attr]
    assert "The engine is overloaded." in outcomes[0].detail  # type: ignore[union-attr]
    assert row_count(sqlite_store, ModelCall) == 0


@pytest.mark.slow
def test_a_build_with_faults_gives_the_same_release(
    loupe: Loupe,
    tmp_path: Path,
    home: Path,
    migrated_sqlite: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: CountingServer,
) -> None:
    hosted = Hosted(loupe, tmp_path, home, server)
    model = {"max_retries": 6, "timeout_seconds": 2}
    expected = hosted.run(model)
    assert expected.exit_code == 0, expected.err
    captions = [one.body["messages"][0]["content"] for one in server.ledger.seen]

    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(migrated_sqlite, other / "loupe.db")
    monkeypatch.setenv("LOUPE_HOME", str(other))
    server.ledger.reset()
    for place, fault in enumerate(FAULTS.values(), start=1):
        caption = captions[1 + place % (len(captions) - 1)]
        match = json.dumps(caption, ensure_ascii=False)
        server.ledger.add_faults(Fault(**{**vars(fault), "match": match}))
    with_faults = hosted.run(model)
    assert with_faults.exit_code == 0, with_faults.err
    assert server.ledger.faults == []
    manifests = [one / "releases" / "people-0.1.0" / "manifest.json" for one in (home, other)]
    assert manifests[0].read_bytes() == manifests[1].read_bytes()
