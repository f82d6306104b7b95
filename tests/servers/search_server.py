"""A local server that responds like Google's Custom Search and Openverse, and records requests.

Responses follow the documented formats (`tests/data/image_search`). As with the real services, a
wrong key, too large a page or an invalid token is refused.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

DATA = Path(__file__).parents[1] / "data" / "image_search"
API_KEY = "AIza-not+for/other=eyes"
ENGINE = "017576662512468239146:omuauf_lfve"
TOKEN = "DLBYIcfnKfolaXKcmMC8RIDCavc2hW"
CLIENT_ID = "pm8GMaIXIhkjQ4iDfXLOvVUUcIKGYRnMlZYApbda"
CLIENT_SECRET = "YhVjvIBc7TuRJSvO2wIi344ez5SEreXLksV7GjalLiKDpxfb"
NOTHING = "nothing of this kind"
GOOGLE_PATH = "/customsearch/v1"
OPENVERSE_PATH = "/v1/images/"
TOKEN_PATH = "/v1/auth_tokens/token/"


@dataclass
class Reply:
    """A response; `reset` and `hang_up` end the connection instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    reset: bool = False
    hang_up: bool = False


@dataclass
class Seen:
    """A received request."""

    path: str
    parameters: dict[str, str]
    headers: dict[str, str]


def google_error(status: int, message: str, reason: str, name: str = "") -> Reply:
    """Return an error in the format of the API."""
    errors = [{"message": message, "domain": "global", "reason": reason}]
    error = {"code": status, "message": message, "errors": errors, "status": name}
    return Reply(status, {"error": error})


class SearchServer(ThreadingHTTPServer):
    """Both services on one local port; `faults` are returned first, one per request.

    `results_of` returns the results of Openverse for a query.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.faults: list[Reply] = []
        self.seen: list[Seen] = []
        self.seconds = 0.0
        self.lock = threading.Lock()
        self.google = json.loads((DATA / "google.json").read_text(encoding="utf-8"))
        self.openverse = json.loads((DATA / "openverse.json").read_text(encoding="utf-8"))
        self.results_of: Callable[[str], list[Any]] = self._recorded
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def base_url(self) -> str:
        """The `base_url` for a profile."""
        return f"http://127.0.0.1:{self.server_port}/"

    @property
    def queries(self) -> list[str]:
        """The search queries, in order."""
        return [seen.parameters["q"] for seen in self.seen if "q" in seen.parameters]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""

    def answer(self, seen: Seen) -> Reply:
        """Return the response to a request."""
        with self.lock:
            self.seen.append(seen)
            if self.faults:
                return self.faults.pop(0)
        if seen.path == GOOGLE_PATH:
            return self._google(seen)
        if seen.path == OPENVERSE_PATH:
            return self._openverse(seen)
        if seen.path == TOKEN_PATH:
            return self._token(seen)
        return Reply(404, {"detail": "Not found."})

    def _google(self, seen: Seen) -> Reply:
        parameters = seen.parameters
        if seen.headers.get("X-Goog-Api-Key") != API_KEY:
            message = "API key not valid. Please pass a valid API key."
            return google_error(400, message, "badRequest", "INVALID_ARGUMENT")
        number, start = int(parameters.get("num", 10)), int(parameters.get("start", 1))
        if parameters.get("cx") != ENGINE or not 1 <= number <= 10 or start + number > 100:
            message = "Request contains an invalid argument."
            return google_error(400, message, "badRequest", "INVALID_ARGUMENT")
        found = {name: value for name, value in self.google.items() if name != "items"}
        if parameters["q"] != NOTHING:
            found["items"] = self.google["items"][start - 1 : start - 1 + number]
        return Reply(body=found)

    def _openverse(self, seen: Seen) -> Reply:
        parameters = seen.parameters
        authorization = seen.headers.get("Authorization")
        if authorization not in (None, f"Bearer {TOKEN}"):
            return Reply(401, {"detail": "Authentication credentials were not provided."})
        size, page = int(parameters.get("page_size", 20)), int(parameters.get("page", 1))
        if size > (20 if authorization is None else 50) or size * page > 240:
            return Reply(401, {"detail": "page_size may not exceed 20 for anonymous requests"})
        if (
            unknown := set(parameters["license"].split(","))
            - {"cc0", "pdm", "by", "by-sa"}
            - {*("by-nc", "by-nc-sa", "by-nd", "by-nc-nd")}
        ):
            detail = f"Invalid input given for fields. 'license' -> License {unknown}"
            return Reply(400, {"error": "InputError", "detail": detail, "fields": ["license"]})
        results = self.results_of(parameters["q"])
        hits = results[(page - 1) * size : page * size]
        limits = {
            "X-RateLimit-Limit-anon_burst": "20/min",
            "X-RateLimit-Available-anon_burst": "19",
            "X-RateLimit-Limit-anon_sustained": "200/day",
            "X-RateLimit-Available-anon_sustained": "187",
        }
        return Reply(body={**self.openverse, "page": page, "results": hits}, headers=limits)

    def _recorded(self, query: str) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.openverse["results"]
        return [] if query == NOTHING else results

    def _token(self, seen: Seen) -> Reply:
        expected = {
            "grant_type": "client_credentials",
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
        }
        if seen.parameters != expected:
            return Reply(401, {"error": "invalid_client"})
        token = {"access_token": TOKEN, "scope": "read write groups", "expires_in": 36000}
        return Reply(body={**token, "token_type": "Bearer"})


@contextmanager
def search_server() -> Iterator[SearchServer]:
    """Run a server in a thread of this process, on a free port."""
    with SearchServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: SearchServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        self._reply(split.path, dict(parse_qsl(split.query)))

    def do_POST(self) -> None:
        """Handle a form; queries for Google that are too long for a URL are sent as one."""
        form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._reply(urlsplit(self.path).path, dict(parse_qsl(form)))

    def _reply(self, path: str, parameters: dict[str, str]) -> None:
        reply = self.server.answer(Seen(path, parameters, dict(self.headers)))
        time.sleep(self.server.seconds + reply.seconds)
        if reply.reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        if reply.hang_up:
            self.close_connection = True
            return
        is_text = isinstance(reply.body, str)
        body = (reply.body if is_text else json.dumps(reply.body)).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "text/html" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Log nothing."""
