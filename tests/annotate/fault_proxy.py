"""A loopback proxy that does what it is asked and then, now and then, says that it failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx


@contextmanager
def fault_proxy(target: str, fails: Callable[[str, str], bool]) -> Iterator[str]:
    """The URL of a proxy to `target` that, if `fails(method, path)`, says 502 after the work."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = ("authorization", "content-type")
            headers = {k: v for k, v in self.headers.items() if k.lower() in kept}
            with httpx.Client(trust_env=False, timeout=120) as client:
                answer = client.request(
                    self.command, target + self.path, content=body, headers=headers
                )
            status, content = answer.status_code, answer.content
            if fails(self.command, self.path):
                status, content = 502, b"<html>bad gateway</html>"
            self.send_response(status)
            self.send_header("Content-Type", answer.headers.get("content-type", "text/plain"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            """Keeps quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
