"""Messages to the lead: each once, without secrets, and never at the cost of the watcher."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.annotate.threads import answer, ask
from loupe.db.reviews import review_tasks
from loupe.db.store import Store
from loupe.flows.cli.main import app
from loupe.flows.notifying import Messages, concerns, deliver
from loupe.models.profiles.settings import Settings, load_settings
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.services.process import free_port
from tests.annotate.answering import accepting, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.world import DATASET, World

QUEUE = shipped().queue(DATASET, "rewrites").model_copy(update={"overlap": 2})
SECRET = "a-token-of-a-chat"


class Webhook:
    """A server on the loopback interface that keeps messages, and refuses them if told so."""

    def __init__(self, port: int) -> None:
        self.bodies: list[str] = []
        self.refuses = False
        self.port = port
        self.url = f"json://lead:{SECRET}@127.0.0.1:{port}/hook"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    found = Webhook(free_port())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not found.refuses:
                found.bodies.append(json.loads(body)["message"])
            self.send_response(500 if found.refuses else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", found.port), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def conflicting(tmp_path: Path) -> World:
    """A world whose only item is in conflict, without an adjudicator."""
    world, office = World(tmp_path), MemoryOffice()
    world.add()
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    push(world.store, office, QUEUE)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    pull(world.store, office, QUEUE, "test", "test")
    push(world.store, office, QUEUE)
    return world


def installation(home: Path, *urls: str) -> Settings:
    return load_settings(home=home, notify_urls=" ".join(urls))


def keys_of(store: Store, hours: float) -> list[str]:
    return sorted(concerns(store, [QUEUE], datetime.now(UTC) + timedelta(hours=hours)))


def test_what_needs_the_lead_is_told_once_also_after_a_restart(
    tmp_path: Path, webhook: Webhook, conflicting: World
) -> None:
    own, store = installation(tmp_path, webhook.url), conflicting.store
    for _ in range(2):
        messages = Messages()
        messages.send(own, store, [QUEUE])
        messages.send(own, store, [QUEUE])
    (body,) = webhook.bodies
    assert "no adjudicator is free for 1 conflict" in body
    messages = Messages()
    messages.add("people goes on")
    messages.send(own, store, [QUEUE])
    assert webhook.bodies[1:] == ["people goes on"]
    assert SECRET not in (tmp_path / "services" / "messages.json").read_text()


def test_nobody_worked_for_a_day(conflicting: World) -> None:
    assert keys_of(conflicting.store, 23) == [f"conflicts {QUEUE.name}"]
    assert keys_of(conflicting.store, 25) == [f"conflicts {QUEUE.name}", "idle"]


def test_each_question_to_the_lead_is_told_until_it_is_answered(conflicting: World) -> None:
    store = conflicting.store
    task = next(iter(review_tasks(store, QUEUE.name).values()))

    def questions() -> dict[str, str]:
        told = concerns(store, [QUEUE], datetime.now(UTC)).items()
        return {key: sentence for key, sentence in told if key.startswith("question")}

    ask(store, task, "Is this blue, Lea?")
    first = questions()
    (sentence,) = first.values()
    assert sentence.startswith(f"{task.assignee} asks about {task.entity_id} in {QUEUE.name}")
    answer(store, QUEUE, task.entity_id, task.assignee, "lead", "It is.", instructs=False)
    assert questions() == {}
    ask(store, task, "And this?")
    assert len(questions()) == 1
    assert questions().keys() != first.keys()


def test_what_no_address_takes_is_sent_later_and_the_refusal_shows_no_secret(
    tmp_path: Path, webhook: Webhook, conflicting: World, caplog: pytest.LogCaptureFixture
) -> None:
    own = installation(tmp_path, webhook.url)
    webhook.refuses = True
    messages = Messages(clock=iter(range(0, 6000, 60)).__next__)
    messages.add("people goes on")
    with pytest.raises(ServiceError, match="address 1 of LOUPE_NOTIFY_URLS") as caught:
        messages.send(own, conflicting.store, [QUEUE])
    assert SECRET not in f"{caught.value} {caplog.text} {own!r}"
    webhook.refuses = False
    messages.send(own, conflicting.store, [QUEUE])
    (body,) = webhook.bodies
    assert body.startswith("people goes on\n")
    messages.send(own, conflicting.store, [QUEUE])
    assert len(webhook.bodies) == 1


def test_an_address_that_works_is_not_told_twice_for_one_that_does_not(
    tmp_path: Path, webhook: Webhook, conflicting: World
) -> None:
    own = installation(tmp_path, webhook.url, f"json://127.0.0.1:{free_port()}")
    with pytest.raises(ServiceError, match="address 2"):
        Messages().send(own, conflicting.store, [QUEUE])
    Messages().send(own, conflicting.store, [QUEUE])
    assert len(webhook.bodies) == 1


def test_the_command_sends_a_message_and_wrong_addresses_are_refused(
    tmp_path: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    monkeypatch.setenv("LOUPE_NOTIFY_URLS", webhook.url)
    assert CliRunner().invoke(app, ["notify", "Good morning"]).exit_code == 0
    assert webhook.bodies == ["Good morning"]
    with pytest.raises(ConfigurationError, match="address 2") as caught:
        deliver(installation(tmp_path, webhook.url, f"nothing://{SECRET}"), ["x"])
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigurationError, match="not set"):
        deliver(load_settings(home=tmp_path / "other", notify_urls=None), ["x"])
