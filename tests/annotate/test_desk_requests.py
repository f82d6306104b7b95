"""Requests of the review desk, by Label Studio's SDK, against a server with scripted responses."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr

from loupe.annotate.backend import (
    DeskFaultError,
    DeskUnavailableError,
    LabelStudioDesk,
    NewTask,
    ProjectSpec,
)
from loupe.schemas.errors import ServiceError

SPEC = ProjectSpec("loupe-queue:x", "x", "<View/>", "Read.")
TASKS = [NewTask("k", {"key": "k"}, [])]


class Script(NamedTuple):
    """The desk, the requests that its server received, and the next response."""

    desk: LabelStudioDesk
    requests: list[str]
    answers: list[tuple[int, str]]


@pytest.fixture
def script() -> Iterator[Script]:
    requests: list[str] = []
    answers: list[tuple[int, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, text = 200, json.dumps({"access": "signed"})
            if "token" not in self.path:
                assert self.headers["Authorization"] == "Bearer signed"
                requests.append(f"{self.command} {self.path.partition('?')[0]}")
                status, text = answers[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield Script(LabelStudioDesk(url, SecretStr("refresh")), requests, answers)
        server.shutdown()


Call = Callable[[LabelStudioDesk], Any]
READS: dict[str, Call] = {
    "account": lambda desk: desk.account_number(),
    "projects": lambda desk: desk.find_project(SPEC.marker),
    "count": lambda desk: desk.count(1),
    "tasks": lambda desk: list(desk.list_tasks(1)),
}
WRITES: dict[str, Call] = {
    "import": lambda desk: desk.import_tasks(1, TASKS),
    "delete": lambda desk: desk.delete_tasks(1, [1]),
}


@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_request_that_changes_something_is_sent_once(
    script: Script, call: Call, status: int
) -> None:
    script.answers[:] = [(status, "busy")]
    with pytest.raises(ServiceError, match=f"status {status}, it said busy") as raised:
        call(script.desk)
    assert len(script.requests) == 1
    assert isinstance(raised.value, DeskUnavailableError) is (status >= 500)


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_a_refusal_is_no_end_of_a_list(script: Script, call: Call) -> None:
    for status in (400, 401, 403, 404):
        script.answers[:] = [(status, '{"detail": "no"}')]
        with pytest.raises(ServiceError, match=f"status {status}") as raised:
            call(script.desk)
        assert not isinstance(raised.value, DeskUnavailableError), status


@pytest.mark.parametrize("call", READS.values(), ids=READS)
@pytest.mark.parametrize("text", ["<html>sign in</html>", "[]", "{}", "null", '{"id": "x"}', ""])
def test_an_unexpected_response_is_a_fault(script: Script, call: Call, text: str) -> None:
    script.answers[:] = [(200, text)]
    with pytest.raises(DeskFaultError, match="unexpected response"):
        call(script.desk)


def test_reading_is_tried_again(script: Script) -> None:
    script.answers[:] = [(502, "<html>")]
    with pytest.raises(DeskUnavailableError):
        script.desk.account_number()
    assert script.requests == ["GET /api/current-user/whoami"] * 3
