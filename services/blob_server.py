"""Serve images to Label Studio's pages in the browser.

`GET /blobs/<ticket>/<sha256>` answers only for images of open review tasks of the person that Label
Studio made the ticket for (`loupe_desk/tickets.py`): for the digest of another blob it does not
reveal whether it exists. `?others=<left>,<top>,<right>,<bottom>;…` frames other people in the crop
of a person (in pixels of the image), so that annotators see who is meant. Run it as `python -m
loupe.services.blob_server --port N`; the `LOUPE_` variables select the installation.
"""

import argparse
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from loupe.models.profiles.settings import Settings, load_settings, make_home
from loupe.schemas.decoders import DECODER_FAULTS, decode_limited
from loupe.schemas.errors import IntegrityError
from loupe.schemas.limited import LimitExceededError
from loupe.schemas.processes import PYTHON, processors
from loupe.services.credentials import desk_key
from loupe.services.desk_server.loupe_desk.tickets import MANAGER, reader_of
from loupe.services.framing import with_others_framed
from loupe.services.process import LOOPBACK, RunningService, ServiceSpec, running, start
from loupe.services.public import public_site

if TYPE_CHECKING:
    from loupe.db.store import Store

NAME = "blob-server"
_KEYS = re.compile(r"LOUPE_.*|HF_TOKEN|HUGGING_FACE_HUB_TOKEN|.*_API_KEY")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Only raster formats: an SVG can contain scripts.
_SERVED_TYPES = frozenset(
    {"image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp", "image/tiff"}
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "private, max-age=300",  # a page loads the images of the next task ahead
    "Referrer-Policy": "no-referrer",
}
_BOX = re.compile(r"\d{1,5}(?:\.\d)?(?:,\d{1,5}(?:\.\d)?){3}")
_MOST_BOXES = 20
_DRAWING = BoundedSemaphore(processors())
"""As many images are drawn at once."""
_log = logging.getLogger(__name__)


def create_app(
    read: Callable[[str, str], bytes],
    media_type_of: Callable[[str, int], str | None],
    reader_of_ticket: Callable[[str], int | None],
    origins: Sequence[str],
    hosts: Sequence[str] = (),
) -> Starlette:
    """Create the image server.

    Args:
        read: returns the verified bytes of a blob, by digest and media type; raises
            `IntegrityError` if they are missing or damaged.
        media_type_of: returns the media type of an image of an open review task that a reader may
            see, else None.
        reader_of_ticket: returns the reader that a valid ticket names, else None.
        origins: the pages that may read the images, `http://host:port`.
        hosts: host names of the server besides those of the loopback interface.
    """

    def blob(request: Request) -> Response:
        reader = reader_of_ticket(request.path_params.get("ticket", ""))
        if reader is None:
            said = "log in to Label Studio and open the task there; if it is open, load it again"
            return PlainTextResponse(said, 401, _HEADERS)
        sha256 = request.path_params["sha256"]
        media_type = media_type_of(sha256, reader) if _SHA256.fullmatch(sha256) else None
        if media_type not in _SERVED_TYPES:
            return PlainTextResponse("not an image of an open task", 404, _HEADERS)
        others = request.query_params.get("others")
        try:
            boxes = [] if others is None else _parsed_boxes(others)
        except ValueError:
            return PlainTextResponse("others must be boxes: left,top,right,bottom;…", 400, _HEADERS)
        try:
            data = read(sha256, media_type)
            data = _framed(data, boxes) if boxes else data
            return Response(data, 200, _HEADERS, media_type)
        except IntegrityError as error:
            _log.error("blob %s is not served: %s", sha256, error)
            return PlainTextResponse("the stored image is damaged or missing", 500, _HEADERS)

    def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/blobs/{ticket}/{sha256}", blob),
            Route("/blobs/{sha256}", blob),
            Route("/health", health),
        ],
        middleware=[
            # A foreign page whose host name resolves to this address would otherwise count as our
            # own.
            Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost", *hosts]),
            Middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["GET"]),
        ],
    )


def store_app(
    store: "Store",
    read: Callable[[str, str], bytes],
    desk: str,
    key: str,
    origins: Sequence[str],
    *,
    hosts: Sequence[str] = (),
    lasting: bool = False,
) -> Starlette:
    """Create the image server of a store.

    Args:
        store: the provenance store with the review tasks.
        read: see `create_app`.
        desk: the name of the Label Studio in the store.
        key: the key of the tickets.
        origins: see `create_app`.
        hosts: see `create_app`.
        lasting: whether tickets that do not end are accepted.
    """
    from loupe.db.reviews import Worker, open_image_media_type

    def media_type_of(sha256: str, reader: int) -> str | None:
        worker = None if reader == MANAGER else Worker(desk, reader)
        with store.read() as connection:
            return open_image_media_type(connection, sha256, worker)

    def reader_of_ticket(given: str) -> int | None:
        return reader_of(key, given, time.time(), lasting=lasting)

    return create_app(read, media_type_of, reader_of_ticket, origins, hosts)


def _parsed_boxes(text: str) -> list[list[float]]:
    boxes = text.split(";")
    if len(boxes) > _MOST_BOXES or not all(map(_BOX.fullmatch, boxes)):
        raise ValueError(f"expected at most {_MOST_BOXES} boxes left,top,right,bottom; got {text}")
    return [[float(side) for side in box.split(",")] for box in boxes]


def _framed(data: bytes, boxes: Sequence[Sequence[float]]) -> bytes:
    """Return the image with frames, drawn in a worker process with limits.

    Raises:
        IntegrityError: it cannot be decoded within the limits.
    """
    try:
        with _DRAWING:
            return decode_limited(with_others_framed, data, boxes)
    except LimitExceededError as fault:
        raise IntegrityError(f"it {fault}") from fault
    except DECODER_FAULTS as fault:
        raise IntegrityError(f"it cannot be decoded: {fault}") from fault


def start_blob_server(settings: Settings, port: int, origins: Sequence[str]) -> RunningService:
    """Start the image server of the installation as a detached process on the loopback interface.

    Raises:
        ServiceError: it could not be started.
    """
    listed = [argument for origin in origins for argument in ("--origin", origin)]
    if (site := public_site(settings.home)) is not None:
        listed += ["--origin", site.origin(), "--host", site.host_of("images")]
    make_home(settings.home)
    spec = ServiceSpec(
        name=NAME,
        command=(*PYTHON, "-m", "loupe.services.blob_server", "--port", str(port), *listed),
        working_directory=settings.home,
        environment={**without_keys(os.environ), **settings.environment()},
        port=port,
        port_option="--blobs-port",
    )
    return start(settings.home, spec)


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove signing, upload and paid-service keys; image stores may need the other variables."""
    return {name: value for name, value in environment.items() if not _KEYS.fullmatch(name)}


def blob_server_url(home: Path) -> str | None:
    """Return the URL of this installation's image server, or None if it does not run."""
    service = running(home, NAME)
    return service.url if service else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the images of the installation that the settings select."""
    import uvicorn

    from loupe.db.blobs import BlobStore
    from loupe.db.store import Store
    from loupe.services.label_studio import label_studio_name

    parser = argparse.ArgumentParser(
        prog="python -m loupe.services.blob_server", description=__doc__
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--origin", action="append", default=[], help="a page that may read images")
    parser.add_argument("--host", action="append", default=[], help="another name of this host")
    options = parser.parse_args(arguments)
    settings = load_settings()
    store = Store.open(settings.database_url, settings.home)
    blobs = BlobStore(settings.blobs_url)
    app = store_app(
        store,
        blobs.read,
        label_studio_name(settings),
        desk_key(settings.home),
        options.origin,
        hosts=options.host,
        lasting=bool(settings.label_studio_url),  # another Label Studio makes no tickets
    )
    uvicorn.run(app, host=LOOPBACK, port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
