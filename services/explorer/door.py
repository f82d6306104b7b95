"""The door of the explorer: the only listener, which lets in its user and nobody else.

A browser is let in by an address with a ticket that counts once, or by the key; it then has a
session, in a cookie. LightlyStudio itself asks with a key of its own. Everything else gets 401, or
the page that asks for the key. Requests that change something must come from the page itself.
Answers allow the page to load nothing from elsewhere.
"""

import hmac
import html
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from loupe.schemas.errors import LoupeError
from loupe.services.desk_server.loupe_desk.origin import READING, is_foreign
from loupe.services.process import LOOPBACK, PLAIN_HTTP

_log = logging.getLogger(__name__)
LOGIN = "/loupe/login"
_ANSWER_SECONDS = 1800.0  # the map of a million embeddings takes minutes
_PAGE_SCRIPT = "/loupe/page.js"
_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"}
)
_KEPT_BACK = frozenset({*_HOP, "cookie", "authorization", "origin", "referer"})
_CHANGED = frozenset({*_HOP, "set-cookie", "content-security-policy"})
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; worker-src 'self' blob:; "
    "connect-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_SAFE = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_IMAGE = {**_SAFE, "Content-Security-Policy": "default-src 'none'; sandbox"}
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"})


class Explored(Protocol):
    """What the door asks of Loupe."""

    def image(self, id_: str) -> tuple[bytes, str]:
        """Return the bytes of an image and its media type."""

    def lineage(self, id_: str) -> str:
        """Return where an item comes from, as text."""

    def decide(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Plan a decision, or make it if it is confirmed; return whether, and a sentence."""

    def embed(self, request: dict[str, Any]) -> list[list[float]]:
        """Return the vectors of texts or images."""

    def refresh(self) -> None:
        """Show what is new since the page was loaded last."""

    def keep_tags(self) -> None:
        """Store the tags, as the database is a cache."""


class Keys:
    """The key of the user, tickets that count once, and the sessions of browsers."""

    def __init__(self, port: int, studio_key: str) -> None:
        self.key = secrets.token_urlsafe(24)
        self.cookie = f"loupe_explorer_{port}"
        self._studio_key = studio_key
        self._tickets = set[str]()
        self._sessions = set[str]()

    def ticket(self) -> str:
        """Return a new ticket."""
        made = secrets.token_urlsafe(24)
        self._tickets.add(made)
        return made

    def session_for(self, given: str) -> str | None:
        """Return a new session for a ticket or the key; None for anything else."""
        if given in self._tickets:
            self._tickets.discard(given)
        elif not hmac.compare_digest(given.encode(), self.key.encode()):
            return None
        session = secrets.token_urlsafe(32)
        self._sessions.add(session)
        return session

    def has_session(self, request: Request) -> bool:
        """Tell whether a browser was let in."""
        return request.cookies.get(self.cookie) in self._sessions

    def is_studio(self, request: Request) -> bool:
        """Tell whether LightlyStudio asks."""
        given = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, f"Bearer {self._studio_key}".encode())


class _Gate:
    """Refuses requests without a session or a key, and changes that other sites ask for."""

    def __init__(self, app: ASGIApp, keys: Keys, origins: frozenset[str]) -> None:
        self._app = app
        self._keys = keys
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets
            return
        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if self._keys.is_studio(request):
            return None
        logged_in = self._keys.has_session(request)
        changes = request.method not in READING
        if changes and is_foreign(request.headers, self._origins, logged_in=logged_in):
            return PlainTextResponse("this request does not come from the page", 403, _SAFE)
        if logged_in or request.url.path == LOGIN:
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303, _SAFE)
        return PlainTextResponse(
            "open the address that `loupe explore` printed, or enter its key", 401, _SAFE
        )


def to_socket(socket: Path) -> httpx.AsyncBaseTransport:
    """Return the way to a LightlyStudio that listens on a socket."""
    return httpx.AsyncHTTPTransport(uds=str(socket), verify=PLAIN_HTTP)


def create_door(
    explored: Explored, keys: Keys, transport: httpx.AsyncBaseTransport, port: int
) -> Starlette:
    """Create the door in front of a LightlyStudio, which is reached by `transport`."""
    backend = httpx.AsyncClient(
        transport=transport, base_url="http://studio", timeout=_ANSWER_SECONDS, trust_env=False
    )

    async def log_in(request: Request) -> Response:
        given = request.query_params.get("ticket", "")
        if request.method == "POST":
            form = parse_qs((await request.body()).decode("utf-8", "replace"))
            given = form.get("key", [""])[0].strip()
        session = keys.session_for(given) if given else None
        if session is None:
            return HTMLResponse(_login_page(was_wrong=bool(given)), 401 if given else 200, _SAFE)
        answer = RedirectResponse("/", 303, _SAFE)
        answer.set_cookie(keys.cookie, session, httponly=True, samesite="lax", path="/")
        return answer

    async def image(request: Request) -> Response:
        id_ = request.path_params["id"].replace("-", "")
        try:
            data, media_type = await run_in_threadpool(explored.image, id_)
        except LoupeError as error:
            return PlainTextResponse(str(error), 404, _SAFE)
        if media_type not in _IMAGE_TYPES:
            return PlainTextResponse("not an image that browsers show", 404, _SAFE)
        return Response(data, 200, {**_IMAGE, "Cache-Control": "private, max-age=300"}, media_type)

    async def lineage(request: Request) -> Response:
        try:
            text = await run_in_threadpool(explored.lineage, request.path_params["id"])
        except LoupeError as error:
            return PlainTextResponse(str(error), 404, _SAFE)
        return HTMLResponse(_page("Lineage", f"<pre>{html.escape(text)}</pre>"), 200, _SAFE)

    async def decide(request: Request) -> Response:
        if not keys.is_studio(request):
            return PlainTextResponse("only for LightlyStudio", 403, _SAFE)
        success, message = await run_in_threadpool(explored.decide, await request.json())
        return JSONResponse({"success": success, "message": message})

    async def embed(request: Request) -> Response:
        if not keys.is_studio(request):
            return PlainTextResponse("only for LightlyStudio", 403, _SAFE)
        return JSONResponse(
            {"vectors": await run_in_threadpool(explored.embed, await request.json())}
        )

    async def hand_on(request: Request) -> Response:
        is_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
        if is_page:
            try:
                await run_in_threadpool(explored.refresh)
            except LoupeError as error:
                _log.warning("the page shows an earlier state: %s", error)
        answer = await _forwarded(backend, request, plain=is_page)
        if request.method not in READING and "/tags" in request.url.path:
            await answer.aread()
            await run_in_threadpool(explored.keep_tags)
        headers = {
            name: value
            for name, value in answer.headers.items()
            if name not in _CHANGED and not name.startswith("access-control-")
        }
        if is_page and answer.headers.get("content-type", "").startswith("text/html"):
            page = (await answer.aread()).replace(
                b"</head>", f'<script src="{_PAGE_SCRIPT}" defer></script></head>'.encode(), 1
            )
            headers.pop("content-length", None)
            return Response(page, answer.status_code, {**headers, **_SAFE})
        return StreamingResponse(_raw(answer), answer.status_code, {**headers, **_SAFE})

    async def page_script(_: Request) -> Response:
        return Response(_LINKS, 200, _SAFE, "text/javascript")

    every = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    origins = frozenset(f"http://{host}:{port}" for host in (LOOPBACK, "localhost"))
    return Starlette(
        routes=[
            Route(LOGIN, log_in, methods=["GET", "POST"]),
            Route(_PAGE_SCRIPT, page_script),
            Route("/loupe/lineage/{id}", lineage),
            Route("/loupe/decide", decide, methods=["POST"]),
            Route("/loupe/embed", embed, methods=["POST"]),
            Route("/loupe/{path:path}", _nothing, methods=every),
            Route("/images/sample/{id}", image),
            Route("/{path:path}", hand_on, methods=every),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"]),
            Middleware(_Gate, keys=keys, origins=origins),
        ],
    )


async def _nothing(_: Request) -> Response:
    return PlainTextResponse("not found", 404, _SAFE)


async def _forwarded(
    backend: httpx.AsyncClient, request: Request, *, plain: bool
) -> httpx.Response:
    """Send a request on, without what identifies the browser; `plain` asks for no compression."""
    left = {*_KEPT_BACK, "accept-encoding"} if plain else _KEPT_BACK
    headers = [(name, value) for name, value in request.headers.items() if name not in left]
    if plain:
        headers.append(("accept-encoding", "identity"))
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    content = await request.body()
    asked = backend.build_request(request.method, target, headers=headers, content=content)
    return await backend.send(asked, stream=True)


async def _raw(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Return the body as it came, compressed or not, and close the answer."""
    try:
        if answer.is_stream_consumed:
            yield answer.content
            return
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


def _login_page(*, was_wrong: bool) -> str:
    wrong = "<p><strong>That is not the key.</strong></p>" if was_wrong else ""
    return _page(
        "Loupe explorer",
        f"{wrong}<p>Enter the key that <code>loupe explore</code> printed.</p>"
        f'<form method="post" action="{LOGIN}"><input name="key" type="password" autofocus '
        'aria-label="key" autocomplete="off"> <button>Open</button></form>',
    )


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>"
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:2rem;"
        "max-width:80rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
        "input,button{font:inherit;padding:.3rem 1rem}input{width:min(28rem,100%)}"
        f"</style></head><body><h1>{html.escape(title)}</h1>{body}</body></html>"
    )


_LINKS = r"""
"use strict";
// The lineage of an item is a field like others, whose value the page shows as text.
const LINEAGE = /\/loupe\/lineage\/[0-9a-f]{32}/;
document.addEventListener("click", (event) => {
  const found = LINEAGE.exec(event.target.textContent.trim());
  if (found && event.target.childElementCount === 0) window.open(found[0], "_blank", "noopener");
});
let isWaiting = false;
function mark() {
  isWaiting = false;
  for (const one of document.querySelectorAll("span, dd, td, p, div"))
    if (one.childElementCount === 0 && LINEAGE.test(one.textContent)) {
      one.style.cursor = "pointer";
      one.style.textDecoration = "underline";
      one.title = "open the lineage";
    }
}
new MutationObserver(() => {
  if (isWaiting) return;
  isWaiting = true;
  setTimeout(mark, 300);
}).observe(document.documentElement, { childList: true, subtree: true });
"""


def serve(door: Starlette, port: int, on_start: Callable[[], None]) -> None:
    """Serve the door until it is interrupted; `on_start` is called once it listens."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, *args: Any, **kwargs: Any) -> None:
            await super().startup(*args, **kwargs)
            if self.started:
                on_start()

    config = uvicorn.Config(
        door,
        host=LOOPBACK,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,  # browsers keep connections open
    )
    with suppress(KeyboardInterrupt):  # it raises the signal again that stopped it
        Server(config).run()
