"""The Label Studio of an installation: its workspaces, the address of images, and webhooks."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from loupe.annotate.backend import LabelStudioDesk
from loupe.annotate.queues import SHARED
from loupe.db.reviews import annotators
from loupe.db.store import Store
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import ServiceError
from loupe.services.credentials import desk_key, load_workspaces, workspaces_path
from loupe.services.desk_server.loupe_desk.tickets import LASTING, MANAGER, ticket
from loupe.services.label_studio import (
    WATCHER,
    adding_people,
    has_label_studio,
    label_studio_access,
    label_studio_name,
)
from loupe.services.process import LOOPBACK, PLAIN_HTTP, running


def open_desks(settings: Settings, store: Store) -> Callable[[str], LabelStudioDesk]:
    """Return a function that opens an assignee's workspace by pseudonym, each on first use.

    The function raises `ServiceError` if the installation has no credentials for the assignee or
    Label Studio does not answer.
    """
    opened: dict[str, LabelStudioDesk] = {}

    def desk_of(assignee: str) -> LabelStudioDesk:
        if assignee not in opened:
            opened[assignee] = _open(settings, store, assignee)
        return opened[assignee]

    return desk_of


def desks_in_use(settings: Settings, store: Store) -> Callable[[str], LabelStudioDesk] | None:
    """Return `open_desks`, or None if Label Studio does not run."""
    return open_desks(settings, store) if has_label_studio(settings) else None


def images_url(settings: Settings) -> str:
    """Return the URL from which browsers load images: our server's current or default address.

    Our Label Studio adds tickets to it for those who are logged in; for another one, it has a
    ticket that lasts.
    """
    from loupe.services.blob_server import blob_server_url

    server = blob_server_url(settings.home)
    url = f"{server}/blobs" if server else settings.images_url
    if not settings.label_studio_url:
        return url
    return f"{url}/{ticket(desk_key(settings.home), MANAGER, LASTING)}"


def _open(settings: Settings, store: Store, assignee: str) -> LabelStudioDesk:
    token = None
    if assignee != SHARED:  # else the workspace of the installation, used without annotators
        credentials = load_workspaces(settings.home).get(assignee)
        if credentials is None:
            names = [person.name for person in annotators(store) if person.pseudonym == assignee]
            again = [adding_people(settings, repr(name)) for name in names]
            advice = f"add the person again: {again[0]}" if again else "restore it"
            raise ServiceError(
                f"there is no token for the workspace of {assignee} in "
                f"{workspaces_path(settings.home)}; {advice}"
            )
        token = credentials.token
    access = label_studio_access(settings)
    name = label_studio_name(settings)
    return LabelStudioDesk(access.url, token or access.token, server_name=name)


# Webhooks may arrive late, twice or never. Each ends the wait for the next pull, and at most says
# who has no task left. They carry the key of the desk, so that nobody else can cause pulls.

_PATH = "/answered"
_LEAD_PATH = "/lead"
_TIMEOUT_SECONDS = 10.0
_MOST_BYTES = 1 << 20


class Webhooks:
    """A flag that is set when a webhook arrives, and the accounts that asked for tasks."""

    def __init__(self) -> None:
        self._received = threading.Event()
        self._asking: set[int] = set()

    def receive(self, asking: int | None = None) -> None:
        """End the current wait; `asking` is the account whose page has no task left."""
        if asking is not None:
            self._asking.add(asking)
        self._received.set()

    def take_asking(self) -> list[int]:
        """Return the accounts that asked since the last call."""
        asking = sorted(self._asking)
        self._asking.difference_update(asking)
        return asking

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a webhook or the timeout; several webhooks count as one."""
        received = self._received.wait(timeout_seconds)
        self._received.clear()
        return received


Answering = Callable[[dict[str, Any]], tuple[HTTPStatus, dict[str, Any]]]
"""Answers a JSON object with a status and a JSON object."""


@contextmanager
def webhook_server(
    webhooks: Webhooks, key: str, port: int | None = None, lead: Answering | None = None
) -> Iterator[str]:
    """Serve the loopback address that webhooks are sent to, and yield its URL.

    A `POST` to it with `Authorization: Bearer <key>` is answered with 204, whatever its body is
    (`{"asking": 7}` says that account 7 has no task left), and so is `GET /health`; others get 401.
    What is posted to `/lead` is answered by `lead`.

    Raises:
        ServiceError: the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length") or ""
            body = self.rfile.read(min(int(length), _MOST_BYTES) if length.isdecimal() else 0)
            given = self.headers.get("Authorization") or ""
            is_ours = compare_digest(given.encode(), f"Bearer {key}".encode())
            if is_ours and self.path == _PATH:
                webhooks.receive(_asking(body))
                self.send_response(HTTPStatus.NO_CONTENT)
            elif is_ours and self.path == _LEAD_PATH and lead is not None:
                self._answer(*lead(_object(body)))
                return
            else:
                self.send_response(HTTPStatus.NOT_FOUND if is_ours else HTTPStatus.UNAUTHORIZED)
            self.end_headers()

        def _answer(self, status: HTTPStatus, content: dict[str, Any]) -> None:
            written = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def do_GET(self) -> None:
            is_health = self.path == "/health"
            self.send_response(HTTPStatus.NO_CONTENT if is_health else HTTPStatus.NOT_FOUND)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port or 0), Handler)
    except OSError as error:
        raise ServiceError(
            f"the webhook server could not listen on {LOOPBACK}:{port}: {error.strerror}"
        ) from error
    with server:
        threading.Thread(target=server.serve_forever, name="webhooks", daemon=True).start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}{_PATH}"
        finally:
            server.shutdown()


def _asking(body: bytes) -> int | None:
    """Return the account that a webhook names; None for all other webhooks."""
    asking = _object(body).get("asking")
    return asking if type(asking) is int else None


def _object(body: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one if it is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def wake_watcher(settings: Settings) -> None:
    """Let the queue watcher pull and push now, if it runs; otherwise the next round does."""
    service = running(settings.home, WATCHER)
    if service is None or service.url is None:
        return
    headers = {"Authorization": f"Bearer {desk_key(settings.home)}"}
    with suppress(httpx.HTTPError):
        httpx.post(
            f"{service.url}{_PATH}",
            headers=headers,
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
            verify=PLAIN_HTTP,
        )
