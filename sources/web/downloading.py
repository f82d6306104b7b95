"""Download images for synchronous code: addresses in, images or rejections out."""

import asyncio
import os
import queue
import ssl
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Final, NamedTuple, Self

import aiohttp
from PIL import Image
from PIL.ImageFile import ImageFile
from yarl import URL

from loupe.schemas.base import sha256_of
from loupe.schemas.image_search import DownloadedImage, DownloadSettings
from loupe.schemas.records import Rejection
from loupe.sources.bare_image import bare_image
from loupe.sources.decoding import (
    UPRIGHT,
    ImageRefusedError,
    decoded,
    encoded_upright,
    limited,
    load_pixels,
    opened,
    orientation_of,
)
from loupe.sources.web.addresses import (
    AddressRule,
    DownloadRefusedError,
    checked,
    public_addresses,
    shown,
)
from loupe.sources.web.requests import (
    MAX_BYTES,
    Answer,
    Clock,
    Hosts,
    NameLookup,
    Robots,
    ask,
    check_tags,
    open_session,
    system_lookup,
)

_ZIP_END_WITHIN_BYTES: Final = 22 + 0xFFFF  # its last record with the longest comment


class Content(NamedTuple):
    """An image: its bytes, and its size in pixels."""

    data: bytes
    media_type: str
    size: tuple[int, int]


def read_content(body: bytes, settings: DownloadSettings) -> Content:
    """Return the image in `body`, identified by its bytes, never by the host's content type.

    The header is checked before anything is decoded. Safe in threads.

    Raises:
        DownloadRefusedError: it is not a usable image.
    """
    try:
        content = limited(_content, body, settings, max_pixels=settings.max_pixels)
        return content if content.data else content._replace(data=body)
    except ImageRefusedError as refusal:
        raise DownloadRefusedError(refusal.reason, refusal.what) from None


def _content(body: bytes, settings: DownloadSettings) -> Content:
    """Return the image, without data if this is the whole body, which saves copying it."""
    picture = opened(body, settings.max_pixels)
    if min(picture.size) < settings.min_side_px:
        width, height = picture.size
        what = f"has {width:,}×{height:,} pixels, wanted sides of at least {settings.min_side_px:,}"
        raise DownloadRefusedError("too_small", what)
    stored_size = picture.size
    media_type = f"image/{str(picture.format).lower()}"
    _refuse_an_archive(body)
    bare = small = None
    longest = settings.resize_longest_px
    if longest is not None and max(stored_size) > longest:
        small = _scaled_down(picture, longest)
    else:
        bare = bare_image(body)
        if settings.decode_all or bare is None or picture.format != "JPEG":
            # A grey JPEG at an eighth of its size is still read to its end, in half the time.
            picture.draft("L", (1, 1))
            load_pixels(picture)
    orientation = orientation_of(picture)  # which may follow the pixels
    if small is not None:
        data, size = encoded_upright(small, orientation, lossy=True)
    elif bare is None or orientation != UPRIGHT:
        data, size = encoded_upright(decoded(body, settings.max_pixels), orientation)
    else:
        data, size = bare, stored_size
    return Content(b"" if data is body else data, media_type, size)


def _refuse_an_archive(body: bytes) -> None:
    """Raise if the image is also a valid archive; programs look for its end first."""
    tail = max(0, len(body) - _ZIP_END_WITHIN_BYTES)
    if body.rfind(b"PK\x05\x06", tail) >= 0 and b"PK\x01\x02" in body:
        raise DownloadRefusedError("refused_type", "also is a ZIP archive, wanted only an image")


# Images scaled down while they are decoded.


def _scaled_down(picture: ImageFile, longest_px: int) -> Image.Image:
    """Return the image with a longer side of `longest_px`, not turned. It is opened, not decoded.

    A JPEG is decoded at a half, a quarter or an eighth of its size if this is not too small: its
    own transform is the better filter, and less is decoded.

    Raises:
        ImageRefusedError: it is truncated or damaged.
    """
    width, height = picture.size
    scale = longest_px / max(width, height)
    wanted = max(1, round(width * scale)), max(1, round(height * scale))
    drafted = picture.draft(None, wanted)
    load_pixels(picture)
    smooth = _with_continuous_colours(picture)
    small = smooth.resize(wanted, Image.Resampling.BICUBIC, box=drafted[1] if drafted else None)
    small.format = picture.format
    small.info = {key: picture.info[key] for key in ("icc_profile",) if key in picture.info}
    return small


def _with_continuous_colours(picture: Image.Image) -> Image.Image:
    """Convert palettes and transparent colours, which cannot be interpolated."""
    if "transparency" in picture.info:
        return picture.convert("RGBA")
    if picture.mode in ("P", "PA"):
        return picture.convert("RGB" if picture.mode == "P" else "RGBA")
    return picture.convert("L") if picture.mode == "1" else picture


Result = DownloadedImage | Rejection

_FIRST_PAUSE_SECONDS: Final = 0.5
_ROBOTS_REDIRECTS: Final = 5  # RFC 9309, section 2.3.1.2
_LOOKUPS_PER_REQUEST: Final = 4  # the current one, and earlier ones that were abandoned


class ImageDownloader:
    """Downloads images with an event loop in its own thread; decoding uses other threads.

    What hosts ask for (robots.txt, pauses) is shared by all downloads of one downloader. Close it
    with `with` or `close`.

    Args:
        settings: limits and politeness.
        allow: decides which addresses may be connected to.
        lookup: resolves names.
        trusted: TLS authorities; default: those of the system.
    """

    def __init__(
        self,
        settings: DownloadSettings,
        *,
        allow: AddressRule = public_addresses,
        lookup: NameLookup = system_lookup,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._connect = (allow, lookup, trusted or _system_authorities())
        self._decoders = ThreadPoolExecutor(os.cpu_count(), "decode-download")
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live()), name="download", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all downloads and connections. Has no effect if closed."""
        loop, ended = self._ready.result()
        if self._thread.is_alive():
            loop.call_soon_threadsafe(ended.set)
            self._thread.join()
        self._decoders.shutdown(cancel_futures=True)

    def download(self, urls: Iterable[str]) -> Iterator[tuple[int, Result]]:
        """Yield one result per address with its position, from 0, as they finish.

        Addresses are consumed along with results, never more than `look_ahead` before the first
        result that is still open. Safe in threads; closing the iterator ends its downloads.

        Raises:
            RuntimeError: the downloader is closed.
        """
        loop, _ = self._ready.result()
        finished: queue.SimpleQueue[Future[tuple[int, Result]]] = queue.SimpleQueue()
        in_progress: set[Future[tuple[int, Result]]] = set()

        def next_result() -> tuple[int, Result]:
            done = finished.get()
            in_progress.discard(done)
            return done.result()

        try:
            for place, url in enumerate(urls):
                if not self._thread.is_alive():
                    raise RuntimeError("the downloader is closed")
                started = asyncio.run_coroutine_threadsafe(self._one(place, url), loop)
                in_progress.add(started)
                started.add_done_callback(finished.put)
                while len(in_progress) >= self._settings.look_ahead or not finished.empty():
                    yield next_result()
            while in_progress:
                yield next_result()
        finally:
            for started in in_progress:
                started.cancel()

    async def _live(self) -> None:
        allow, lookup, trusted = self._connect
        # names are resolved in threads; an unresponsive name server blocks them longer than we wait
        lookups = ThreadPoolExecutor(_LOOKUPS_PER_REQUEST * self._settings.in_flight, "look-up")
        asyncio.get_running_loop().set_default_executor(lookups)
        async with open_session(self._settings, allow, lookup, trusted) as session:
            self._fetcher = _Fetcher(self._settings, allow, session)
            ended = asyncio.Event()
            self._ready.set_result((asyncio.get_running_loop(), ended))
            await ended.wait()
            # before the session is closed: later connections would stay open
            in_progress = asyncio.all_tasks() - {asyncio.current_task()}
            for task in in_progress:
                task.cancel()
            await asyncio.gather(*in_progress, return_exceptions=True)

    async def _one(self, place: int, url: str) -> tuple[int, Result]:
        try:
            fetched = await self._fetcher.fetch(url)
            loop = asyncio.get_running_loop()
            return place, await loop.run_in_executor(self._decoders, self._image, *fetched)
        except DownloadRefusedError as refusal:
            return place, refusal.as_rejection(shown(url))
        except Exception as fault:  # noqa: BLE001 - no stranger's answer ends the others' downloads
            # its message is not repeated, as it may contain the address with its query
            name = type(fault).__name__
            unread = DownloadRefusedError("bad_answer", f"cannot be read: {name}", fault=name)
            return place, unread.as_rejection(shown(url))

    def _image(self, answer: Answer, redirects: int) -> DownloadedImage:
        content = read_content(answer.body, self._settings)
        source_sha256 = sha256_of(answer.body)
        unchanged = content.data is answer.body
        return DownloadedImage(
            data=content.data,
            sha256=source_sha256 if unchanged else sha256_of(content.data),
            source_sha256=source_sha256,
            media_type=content.media_type,
            width_px=content.size[0],
            height_px=content.size[1],
            url=shown(answer.url),
            redirects=redirects,
            robots="allowed" if self._settings.robots else "not_asked",
        )


class _Fetcher:
    """Fetches addresses with redirects and retries under all rules, in one event loop."""

    def __init__(
        self, settings: DownloadSettings, allow: AddressRule, session: aiohttp.ClientSession
    ) -> None:
        self._settings = settings
        self._allow = allow
        self._session = session
        self._hosts = Hosts(settings)
        self._robots = Robots(settings, self._ask_robots, self._hosts.slow_down)

    async def fetch(self, text: str) -> tuple[Answer, int]:
        """Return the content at the address `text`, and the number of redirects.

        Raises:
            DownloadRefusedError: there is no usable content.
        """
        settings = self._settings
        robots = self._robots if settings.robots else None
        answer, redirects = await self._follow(
            text, settings.max_redirects, settings.max_bytes, robots
        )
        if robots is not None:
            check_tags(answer.headers.getall("X-Robots-Tag", ()), settings.user_agent)
        return answer, redirects

    async def _ask_robots(self, text: str) -> Answer:
        answer, _ = await self._follow(text, _ROBOTS_REDIRECTS, MAX_BYTES, None, cut=True)
        return answer

    async def _follow(
        self,
        text: str,
        max_redirects: int,
        max_bytes: int,
        robots: Robots | None,
        *,
        cut: bool = False,
    ) -> tuple[Answer, int]:
        clock = Clock(self._settings.timeout_seconds)
        for redirects in range(max_redirects + 1):
            try:
                url = checked(text, self._settings.ports, self._allow)
                if robots is not None:
                    await robots.check(url)
                answer = await self._ask(url, max_bytes, clock, cut=cut)
            except DownloadRefusedError as refusal:
                if redirects:
                    refusal.what = f"redirects to {shown(text)}, which {refusal.what}"
                raise
            if answer.location is None:
                return answer, redirects
            text = _target(url, answer.location)
        what = f"redirects more than {max_redirects} times"
        raise DownloadRefusedError("too_many_redirects", what)

    async def _ask(self, url: URL, max_bytes: int, clock: Clock, *, cut: bool) -> Answer:
        host = str(url.raw_host)
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, self._settings.attempts + 1):
            try:
                async with self._hosts.turn(host), clock.running():
                    return await ask(self._session, url, max_bytes, cut=cut)
            except DownloadRefusedError as refusal:
                asked = refusal.retry_after_seconds
                if refusal.retry and asked:
                    self._hosts.leave_alone(host, asked)
                last = attempt == self._settings.attempts
                if not refusal.retry or last or asked > self._settings.longest_wait_seconds:
                    raise
            await asyncio.sleep(min(pause, self._settings.longest_wait_seconds))
            pause *= 2
        raise AssertionError("the last attempt returns or raises")


def _target(base: URL, location: str) -> str:
    """Return the address of a `Location` header, unchanged if it cannot be parsed."""
    try:
        return str(base.join(URL(location)))
    except (ValueError, TypeError):
        return location


@cache
def _system_authorities() -> ssl.SSLContext:
    """Load the system's TLS authorities once, which takes longer than a request."""
    return ssl.create_default_context()
