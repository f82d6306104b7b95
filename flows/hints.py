"""Hints: a review server may say that something changed; what did, a pull finds out for itself.

Label Studio posts its webhooks once, unsigned, in any order and sometimes twice. So nothing of what
they say is read: each only ends the waiting for the next pull.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from schemas.errors import ServiceError
from services.process import LOOPBACK, free_port

PATH = "/hint"
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


class Hints:
    """Whether something may have changed since the last look."""

    def __init__(self) -> None:
        self._hinted = threading.Event()

    def give(self) -> None:
        """Says that something may have changed."""
        self._hinted.set()

    def wait(self, timeout_seconds: float) -> bool:
        """Waits for a hint, or until the time is over; many hints are one."""
        hinted = self._hinted.wait(timeout_seconds)
        self._hinted.clear()
        return hinted


@contextmanager
def hint_server(hints: Hints, port: int | None = None) -> Iterator[str]:
    """The address of a server on the loopback interface to which webhooks may be sent.

    It answers every `POST` with 204 and reads nothing of it.

    Raises:
        ServiceError: the port is taken.
    """
    import uvicorn

    def hint(_: Request) -> Response:
        hints.give()
        return Response(status_code=204)

    chosen = port or free_port()
    app = Starlette(routes=[Route(PATH, hint, methods=["POST"])])
    config = uvicorn.Config(app, host=LOOPBACK, port=chosen, log_level="warning", access_log=False)
    server = uvicorn.Server(config)

    def serve() -> None:
        with suppress(SystemExit):  # how it says that the port is taken
            server.run()

    thread = threading.Thread(target=serve, name="hints", daemon=True)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(_POLL_SECONDS)
    if not server.started:
        raise ServiceError(f"the hint server could not listen on {LOOPBACK}:{chosen}")
    try:
        yield f"http://{LOOPBACK}:{chosen}{PATH}"
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)
