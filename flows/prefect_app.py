"""The Prefect server that `loupe up` starts: Prefect's own application behind our checks.

Run it as `python -m flows.prefect_app --port N`; all other settings are `PREFECT_` variables.
"""

import argparse
from collections.abc import Sequence

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from schemas.errors import ConfigurationError
from services.local_requests import LocalRequestsOnly
from services.process import LOOPBACK


class DeclaredJsonOnly:
    """Refuses request bodies that are not declared as JSON.

    Prefect treats a body without a content type as JSON. A page of any origin may send such a
    request without a CORS preflight, which `application/json` requires.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 415."""
        if scope["type"] == "http" and not _is_declared(Headers(scope=scope)):
            message = "the body must come with the header Content-Type: application/json"
            await PlainTextResponse(message, 415)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def guarded(app: ASGIApp, port: int) -> ASGIApp:
    """Restrict `app` to local programs and its own pages."""
    return LocalRequestsOnly(DeclaredJsonOnly(app), port)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve Prefect on the loopback interface.

    Raises:
        ConfigurationError: no password is set for the API.
    """
    parser = argparse.ArgumentParser(prog="python -m flows.prefect_app", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args(arguments)
    api = get_current_settings().server.api
    if api.auth_string is None:
        raise ConfigurationError(
            "the Prefect server needs PREFECT_SERVER_API_AUTH_STRING; start it with: loupe up"
        )
    uvicorn.run(
        guarded(create_app(final=True), options.port),
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
