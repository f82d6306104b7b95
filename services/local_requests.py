"""Restrict our servers on the loopback interface to local requests."""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from services.process import LOOPBACK

_OWN_PAGE = {"same-origin", "none"}
"""`Sec-Fetch-Site` of requests by a server's own pages, and of URLs entered by the user."""


class LocalRequestsOnly:
    """Refuses requests from web pages of other origins, over HTTP or a WebSocket.

    `Host` must name this server: a foreign host name that resolves to this address (DNS rebinding)
    would otherwise make a foreign page one of ours. `Origin`, which browsers send with every
    WebSocket and every request that changes something, must be one of our own pages. A foreign page
    may link to our pages, but neither embed them nor load parts of them.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{LOOPBACK}:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] != "lifespan" else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(1008, refusal)(scope, receive, send)
        else:
            await PlainTextResponse(refusal, 403)(scope, receive, send)

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
