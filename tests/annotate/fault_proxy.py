"""A local proxy to a server that fails now and then, in the ways networks do."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

from loupe.services.process import PLAIN_HTTP

_PASSED_ON = ("authorization", "content-type")


class Fault(Enum):
    """The fault of a call, and whether the server had handled the request."""

    NONE = "none"
    REFUSED = "502 before the work"
    UNKNOWN = "502 after the work"
    RESET_BEFORE = "connection reset before the work"
    RESET_AFTER = "connection reset after the work"
    SLOW = "the answer comes too late"

    @property
    def happens_after(self) -> bool:
        """Whether the server had handled the request."""
        return self not in (Fault.REFUSED, Fault.RESET_BEFORE)


Chooser = Callable[[str, str], Fault]
"""Returns the fault of a call, given its method and path."""


@contextmanager
def fault_proxy(target: str, choose: Chooser, slow_seconds: float = 0.0) -> Iterator[str]:
    """Run a proxy to `target` with the faults of `choose`, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = choose(self.command, self.path)
            try:
                answer = self._ask(body) if fault.happens_after else None
            except httpx.TransportError:  # a test killed the server
                fault = Fault.RESET_AFTER
            match fault:
                case Fault.RESET_BEFORE | Fault.RESET_AFTER:
                    self._reset()
                    return
                case Fault.SLOW:
                    time.sleep(slow_seconds)
            if answer is None or fault is Fault.UNKNOWN:
                self._send(502, "text/html", b"<html>bad gateway</html>")
            else:
                kind = answer.headers.get("content-type", "text/plain")
                self._send(answer.status_code, kind, answer.content)

        def _ask(self, body: bytes) -> httpx.Response:
            headers = {k: v for k, v in self.headers.items() if k.lower() in _PASSED_ON}
            with httpx.Client(trust_env=False, timeout=120, verify=PLAIN_HTTP) as client:
                return client.request(
                    self.command, target + self.path, content=body, headers=headers
                )

        def _send(self, status: int, kind: str, content: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client has disconnected

        def _reset(self) -> None:
            """End the connection with RST instead of FIN."""
            at_once = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self.close_connection = True
            self.connection.close()

        def finish(self) -> None:
            if self.connection.fileno() >= 0:
                super().finish()

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        def shutdown_request(self, request: object) -> None:
            if isinstance(request, socket.socket) and request.fileno() >= 0:
                super().shutdown_request(request)

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
