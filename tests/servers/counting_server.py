"""An OpenAI-compatible chat server that counts its requests and fails on demand.

It answers every request deterministically, from the request alone, and counts how often it received
each distinct request. In its own process it survives the processes that a test kills::

    python -m tests.servers.counting_server --port 8123 --state counts.jsonl

Besides `POST /v1/chat/completions` and `GET /v1/models` it has routes for the tests:

- `GET /counts`: `{"distinct": …, "total": …, "peak_in_flight": …, "counts": {digest: times}}`
- `POST /faults`: a JSON list of `Fault`s; each applies to requests that it matches
- `POST /reset`: forget counts and faults
"""

import argparse
import hashlib
import json
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

MODEL = "counting"

_LONGEST_STRING = 2000  # characters of an echoed string, unless the schema allows fewer


@dataclass
class Fault:
    """A fault of the next `times` requests whose prompt contains `match`.

    - `status`: an error with `status` (500) and, if given, `retry_after_seconds`
    - `slow`: the answer comes after `seconds`
    - `reset`: the connection is reset without a response
    - `malformed`: status 200 and a body that is cut off within its JSON
    - `page`: status 200 and an HTML page, as a proxy might send
    - `content`: a valid answer with the given `text` (None: null) and `finish_reason`
    - `body`: `text` as the body, with its own `headers` (and `status`)
    - `stall`: half of an answer, and nothing more for `seconds`
    - `doubled`: the answer twice, one response after the other on the same connection
    - `model`: the answer of the model `text`
    - `other`: the answer to the request before
    """

    kind: Literal[
        "status",
        "slow",
        "reset",
        "malformed",
        "page",
        "content",
        "body",
        "stall",
        "doubled",
        "model",
        "other",
    ]
    times: int = 1
    match: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None
    seconds: float = 1.0
    text: str | None = ""
    finish_reason: str = "stop"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class SeenRequest:
    """A received chat request."""

    digest: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Ledger:
    """The received requests and the faults still to produce; thread-safe."""

    state_file: Path | None = None
    counts: Counter[str] = field(default_factory=Counter)
    seen: list[SeenRequest] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    in_flight: int = 0
    peak_in_flight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.state_file and self.state_file.exists():
            self.counts.update(self.state_file.read_text().split())

    @contextmanager
    def taking(self, request: SeenRequest) -> Iterator[Fault | None]:
        """Count `request` and yield its fault, if any."""
        with self._lock:
            self.counts[request.digest] += 1
            self.seen.append(request)
            if self.state_file:
                with self.state_file.open("a") as state:
                    state.write(request.digest + "\n")
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
            fault = self._next_fault(json.dumps(request.body["messages"], ensure_ascii=False))
        try:
            yield fault
        finally:
            with self._lock:
                self.in_flight -= 1

    def _next_fault(self, messages: str) -> Fault | None:
        for fault in self.faults:
            if fault.match in messages:
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
                return fault
        return None

    def add_faults(self, *faults: Fault) -> None:
        """Add faults, to be produced in this order."""
        with self._lock:
            self.faults.extend(faults)

    def reset(self) -> None:
        """Forget counts, requests and faults."""
        with self._lock:
            self.counts.clear()
            self.seen.clear()
            self.faults.clear()
            self.peak_in_flight = 0
            if self.state_file:
                self.state_file.unlink(missing_ok=True)

    def summary(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        with self._lock:
            return {
                "distinct": len(self.counts),
                "total": self.counts.total(),
                "peak_in_flight": self.peak_in_flight,
                "counts": dict(self.counts),
            }


Complete = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the completion of a chat request, from the request alone."""


class CountingServer(ThreadingHTTPServer):
    """The server on a loopback port (0: a free one), with its ledger.

    `refuse` returns the message with which a request is refused (status 400), or None. `say`, if
    set, returns the text of the answers. `listed` are the models that the server lists (None: it
    has no list of models).
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        port: int = 0,
        state_file: Path | None = None,
        delay_seconds: float = 0,
        complete: Complete | None = None,
    ) -> None:
        self.ledger = Ledger(state_file)
        self.complete = complete or completion
        self.delay_seconds = delay_seconds
        self.refuse: Callable[[dict[str, Any]], str | None] = lambda _: None
        self.listed: list[dict[str, Any]] | None = [{"id": MODEL, "object": "model"}]
        self.say: Callable[[dict[str, Any]], str] | None = None
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def base_url(self) -> str:
        """The `base_url` for a profile."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up; print other errors as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def counting_server(
    delay_seconds: float = 0, complete: Complete | None = None
) -> Iterator[CountingServer]:
    """Run a server in a thread of this process, on a free port."""
    with CountingServer(delay_seconds=delay_seconds, complete=complete) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: CountingServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body are sent together
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/counts":
            self._send_json(self.server.ledger.summary())
        elif self.path == "/v1/models" and self.server.listed is not None:
            self._send_json({"object": "list", "data": self.server.listed})
        else:
            self._send_json({"error": {"message": f"no {self.path} here"}}, status=404)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the sender was killed
            self.close_connection = True
            return
        if self.path.partition("?")[0] == "/v1/chat/completions":
            self._chat(body)
        elif self.path == "/faults":
            self.server.ledger.add_faults(*(Fault(**fault) for fault in json.loads(body)))
            self._send_json({"faults": [asdict(fault) for fault in self.server.ledger.faults]})
        elif self.path == "/reset":
            self.server.ledger.reset()
            self._send_json({})
        else:
            self._send_json({"error": {"message": f"no {self.path} here"}}, status=404)

    def _chat(self, body: bytes) -> None:
        request = json.loads(body)
        canonical = json.dumps(request, sort_keys=True, ensure_ascii=False).encode()
        seen = SeenRequest(hashlib.sha256(canonical).hexdigest(), dict(self.headers), request)
        with self.server.ledger.taking(seen) as fault:
            time.sleep(self.server.delay_seconds)
            if (refusal := self.server.refuse(request)) is not None:
                error = {"message": refusal, "type": "invalid_request_error"}
                self._send_json({"error": error}, 400)
            elif fault is None and self.server.say is not None:
                self._send_json(completion_of(request, self.server.say(request)))
            elif fault is None:
                self._send_json(self.server.complete(request))
            else:
                self._go_wrong(fault, request)

    def _go_wrong(self, fault: Fault, request: dict[str, Any]) -> None:
        match fault.kind:
            case "status":
                after = fault.retry_after_seconds
                headers = {} if after is None else {"Retry-After": str(after)}
                status = fault.status or 500
                error = {"error": {"message": f"instructed to answer {status} to {self.path}"}}
                self._send_json(error, status, headers)
            case "slow":
                time.sleep(fault.seconds)
                self._send_json(self.server.complete(request))
            case "reset":
                # A linger time of 0 makes the kernel send RST instead of FIN.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
                self.connection.close()
            case "malformed":
                self._send(
                    json.dumps(self.server.complete(request)).encode()[:-20], "application/json"
                )
            case "page":
                self._send(b"<html><body>Please log in.</body></html>", "text/html")
            case "body":
                # a length other than that of the body keeps the client waiting for the rest
                self.close_connection = True
                body = (fault.text or "").encode("utf-8", "surrogateescape")
                self._send(body, "application/json", fault.status or 200, fault.headers)
            case "stall":
                body = json.dumps(self.server.complete(request)).encode()
                self._send(
                    body[:-20], "application/json", headers={"Content-Length": str(len(body))}
                )
                self.wfile.flush()
                time.sleep(fault.seconds)
                self.close_connection = True
            case "doubled":
                for _ in range(2):
                    self._send_json(self.server.complete(request))
            case "model":
                self._send_json(self.server.complete(request) | {"model": fault.text})
            case "other":
                before = self.server.ledger.seen[-2]
                self._send_json(
                    self.server.complete(before.body),
                    headers={"X-Request-Id": before.headers["X-Request-Id"]},
                )
            case "content":
                answer = self.server.complete(request)
                answer["choices"][0]["message"]["content"] = fault.text
                answer["choices"][0]["finish_reason"] = fault.finish_reason
                self._send_json(answer)

    def _send_json(
        self, value: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self._send(json.dumps(value).encode(), "application/json", status, headers)

    def _send(
        self,
        body: bytes,
        media_type: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        usual = {"Content-Type": media_type, "Content-Length": str(len(body))}
        for name, value in (usual | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as in the base
        """Log nothing; the ledger records all requests."""


def completion(request: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion for `request`; equal requests get equal completions."""
    text = reworded(prompt_text(request))
    schema = request.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is not None:
        text = json.dumps(instance_of(schema, text), ensure_ascii=False)
    return completion_of(request, text)


def completion_of(request: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a chat completion with this text."""
    prompt = prompt_text(request)
    tokens_in, tokens_out = len(prompt.split()), len(text.split())
    return {
        "id": "chatcmpl-" + hashlib.sha256(prompt.encode()).hexdigest()[:16],
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model", MODEL),
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def prompt_text(request: dict[str, Any]) -> str:
    """Return the text of the last message, without images."""
    content = request["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def reworded(prompt: str) -> str:
    """Return the text that `prompt` asks to reword, with its sentences in another order.

    That text is the content of the last tags (`<description>…</description>`), or else the last
    paragraph. No fact is added or lost, so checks of faithfulness find no fault.
    """
    tagged = re.findall(r"<(\w+)>\s*(.*?)\s*</\1>", prompt, re.DOTALL)
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", prompt) if part.strip()]
    subject = tagged[-1][1] if tagged else (paragraphs or [""])[-1]
    sentences = re.split(r"(?<=[.!?])\s+", subject)
    text = " ".join([*sentences[1:], sentences[0]])
    return f"In this picture, one can see the following: {text[:1].lower()}{text[1:]}"


def instance_of(schema: dict[str, Any], text: str) -> Any:
    """Return a JSON value that matches `schema` (a subset of JSON Schema), made from `text`."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            return {name: instance_of(part, text) for name, part in parts.items()}
        case "array":
            return [instance_of(schema["items"], text)] * schema.get("minItems", 1)
        case "string":
            return text[: schema.get("maxLength", _LONGEST_STRING)]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return True
    return None


def main() -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, default=None, help="file that keeps the counts")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    arguments = parser.parse_args()
    with CountingServer(arguments.port, arguments.state, arguments.delay) as server:
        print(server.base_url, flush=True)  # noqa: T201 - the parent process reads the address
        server.serve_forever()


if __name__ == "__main__":
    main()
