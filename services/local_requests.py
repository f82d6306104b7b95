"""Which requests a server of ours on the loopback interface answers."""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from services.process import LOOPBACK

_OWN_PAGE = {"same-origin", "none"}
"""`Sec-Fetch-Site` of what a page asks of its own server, and of what people type."""


class LocalRequestsOnly:
    """Refuses what a web page of another origin sends, over HTTP or a WebSocket.

    `Host` must name this server: a foreign name that was made to point here (DNS rebinding) would
    otherwise make a foreign page one of ours. `Origin`, which browsers send with every WebSocket
    and with every request that changes something, must be one of our own pages. A foreign page may
    link to one of ours, but neither embed it nor load parts of it.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{LOOPBACK}:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on, or answers 403."""
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
            return "pages of other origins may not talk to this server"
        is_foreign = not origins and headers.get("sec-fetch-site", "none") not in _OWN_PAGE
        if is_foreign and headers.get("sec-fetch-dest") != "document":
            return "pages of other origins may not load anything from this server"
        return None
