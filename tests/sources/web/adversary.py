"""A web server on loopback that sends exactly the bytes a test asks for."""

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Self

from loupe.schemas.image_search import DownloadedImage, DownloadSettings
from loupe.schemas.records import Rejection
from loupe.sources.web.addresses import IPAddress
from loupe.sources.web.downloading import ImageDownloader

LOOPBACK = ip_address("127.0.0.1")
SECRET = "s3cr3t"

Speak = Callable[[asyncio.StreamWriter], Awaitable[None]]
Reply = bytes | Speak


@dataclass(frozen=True)
class Request:
    """A request of a client and its time on the monotonic clock."""

    path: str
    headers: dict[str, str]
    at: float


@dataclass
class Adversary:
    """A server with a reply, or a list of successive replies, for each path.

    The last reply of a list is repeated.
    """

    replies: dict[str, Reply | list[Reply]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    scheme: str = "http"

    def url(self, path: str = "/a.jpg", host: str = "127.0.0.1") -> str:
        """A URL of this server, with a secret in its query."""
        return f"{self.scheme}://{host}:{self.port}{path}?key={SECRET}"

    def paths(self) -> list[str]:
        """Requested paths without their queries; robots.txt is left out."""
        asked = [request.path.partition("?")[0] for request in self.requests]
        return [path for path in asked if path != "/robots.txt"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request = _request(head)
                self.requests.append(request)
                if not await self._reply(request.path.partition("?")[0], writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _reply(self, path: str, writer: asyncio.StreamWriter) -> bool:
        """Send the reply for `path` and return whether the connection stays open."""
        reply = self.replies.get(path, answer(status="404 Not Found"))
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        if isinstance(reply, bytes):
            writer.write(reply)
            await writer.drain()
            return True
        await reply(writer)
        return False


def _request(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    return Request(first.split(" ")[1], headers, time.monotonic())


def answer(body: bytes = b"", *, status: str = "200 OK", **headers: str) -> bytes:
    """An HTTP response; underscores in the names of `headers` become hyphens."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = {"Content-Type": "image/jpeg", "Content-Length": str(len(body))} | given
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(target: str, status: str = "302 Found") -> bytes:
    return answer(status=status, Location=target)


def drip(head: bytes, pause_seconds: float = 0.02, piece: bytes = b"x") -> Speak:
    """Send `head`, then slowly repeat `piece` forever."""

    async def speak(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_seconds)

    return speak


def hang_up(sent: bytes = b"") -> Speak:
    """Send `sent` and close the connection."""

    async def speak(writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    return speak


@contextmanager
def serving(
    host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Adversary]:
    """Run an adversary in a thread."""
    adversary = Adversary(scheme="https" if tls else "http")
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def live() -> None:
        server = await asyncio.start_server(adversary.serve, host, port, ssl=tls)
        adversary.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await ended.wait()

    def run() -> None:  # in its own loop: the thread of the tests may have another one
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(live())

    ended = asyncio.Event()
    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(300)
    try:
        yield adversary
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def only_loopback(address: IPAddress) -> bool:
    """Whether `address` is 127.0.0.1; other loopback addresses are not allowed either."""
    return address == LOOPBACK


@dataclass
class Names:
    """A name service with successive lists of addresses for each name."""

    known: dict[str, list[list[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        turns = self.known.get(host, [[]])
        return turns.pop(0) if len(turns) > 1 else turns[0]


def quick(*ports: int, **changes: Any) -> DownloadSettings:
    """Settings for tests: short pauses, but long timeouts for servers on a busy machine."""
    defaults = {
        "ports": frozenset(ports),
        "timeout_seconds": 20,
        "connect_timeout_seconds": 20,
        "requests_per_second": 1000,
        "longest_wait_seconds": 1,
        "attempts": 1,
        "min_side_px": 8,
        "max_bytes": 200_000,
    }
    return DownloadSettings(**(defaults | changes))


class Downloads:
    """Downloads from one adversary; all results are searched for the secret."""

    def __init__(self, adversary: Adversary, settings: DownloadSettings, **options: Any) -> None:
        self._downloader = ImageDownloader(settings, **({"allow": only_loopback} | options))
        self.adversary = adversary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._downloader.close()

    def each(self, *urls: str) -> list[DownloadedImage | Rejection]:
        """Results in the order of `urls`."""
        found = dict(self._downloader.download(urls))
        assert sorted(found) == list(range(len(urls)))
        for result in found.values():
            assert SECRET not in f"{result!r}{result!s}"
            if isinstance(result, Rejection):
                assert SECRET not in result.model_dump_json()
                assert result.stage == "download_image"
        return [found[place] for place in range(len(urls))]

    def image(self, url: str) -> DownloadedImage:
        (result,) = self.each(url)
        assert isinstance(result, DownloadedImage), result
        return result

    def refusal(self, url: str) -> Rejection:
        (result,) = self.each(url)
        assert isinstance(result, Rejection), result
        return result
