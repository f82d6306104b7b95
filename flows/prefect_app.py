"""The Prefect server that `loupe up` starts: Prefect's own application behind our checks.

Run it as `python -m loupe.flows.prefect_app --port N`; all other settings are `PREFECT_` variables.
"""

import argparse
from collections.abc import Sequence

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from loupe.schemas.errors import ConfigurationError
from loupe.services.process import LOOPBACK

_OWN_PAGE = {"same-origin", "none"}
"""`Sec-Fetch-Site` of requests by a server's own pages, and of URLs entered by the user."""


class LocalRequestsOnly:
    """Refuses requests from web pages of other origins, over HTTP or a WebSocket.

    `Host` must name this server, or its `public` origin behind a proxy: a foreign host name that
    resolves to this address (DNS rebinding) would otherwise make a foreign page one of ours.
    `Origin`, which browsers send with every WebSocket and every request that changes something,
    must be one of our own pages. A foreign page may link to our pages, but neither embed them nor
    load parts of them.

    Bodies must be declared as JSON: Prefect treats a body without a content type as JSON, and a
    page of any origin may send one without a CORS preflight, which `application/json` requires.
    """

    def __init__(self, app: ASGIApp, port: int, public: str = "") -> None:
        self._app = app
        self._hosts = {f"{LOOPBACK}:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}
        if public:
            self._hosts.add(public.removeprefix("https://"))
            self._origins.add(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403, or 415 if its body is not declared as JSON."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif refusal := self._refusal(Headers(scope=scope)):
            is_socket = scope["type"] == "websocket"
            answer = WebSocketClose(1008, refusal) if is_socket else PlainTextResponse(refusal, 403)
            await answer(scope, receive, send)
        elif scope["type"] == "http" and not _is_declared(Headers(scope=scope)):
            message = "the body must come with the header Content-Type: application/json"
            await PlainTextResponse(message, 415)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> str | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return f"this server answers to {' and '.join(sorted(self._hosts))} only"
        if not self._origins.issuperset(origins):
            return "pages of other origins must not send requests to this server"
        is_foreign = not origins and headers.get("sec-fetch-site", "none") not in _OWN_PAGE
        if is_foreign and headers.get("sec-fetch-dest") != "document":
            return "pages of other origins must not load anything from this server"
        return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve Prefect on the loopback interface.

    Raises:
        ConfigurationError: no password is set for the API.
    """
    parser = argparse.ArgumentParser(prog="python -m loupe.flows.prefect_app", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--public", default="", help="the origin of its pages behind a proxy")
    options = parser.parse_args(arguments)
    api = get_current_settings().server.api
    if api.auth_string is None:
        raise ConfigurationError(
            "the Prefect server needs PREFECT_SERVER_API_AUTH_STRING; start it with: loupe up"
        )
    uvicorn.run(
        LocalRequestsOnly(create_app(final=True), options.port, options.public),
        host=LOOPBACK,
        port=options.port,
        timeout_keep_alive=api.keepalive_timeout,
        log_level="warning",
    )


def _is_declared(headers: Headers) -> bool:
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return not has_body or media_type == "application/json"


if __name__ == "__main__":
    main()
