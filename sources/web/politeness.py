"""Rules of hosts: request rates, pauses, robots.txt (RFC 9309), and `X-Robots-Tag`."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from protego import Protego
from yarl import URL

from schemas.download import DownloadSettings
from sources.web.addresses import DownloadRefusedError
from sources.web.requests import Answer

_REMEMBERED_HOSTS: Final = 10_000


class _Host:
    def __init__(self, settings: DownloadSettings) -> None:
        self.interval = 1 / settings.requests_per_second
        self.free_at = 0.0  # in monotonic time
        self.connections = asyncio.Semaphore(settings.connections_per_host)
        self.line = asyncio.Lock()  # in order of arrival
        self.users = 0


class Hosts:
    """Schedules requests to hosts in one event loop.

    Waiting for a slow host does not occupy one of the `in_flight` slots.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._hosts: dict[str, _Host] = {}
        self._places = asyncio.Semaphore(settings.in_flight)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn to make one request to a host; its rate counts from start to start.

        Raises:
            DownloadRefusedError: the host asks for a longer pause than is permitted.
        """
        host = self._host(name)
        host.users += 1
        try:
            async with host.connections:
                async with host.line:
                    await self._rest(host)
                    await self._places.acquire()
                    host.free_at = time.monotonic() + host.interval
                try:
                    yield
                finally:
                    self._places.release()
        finally:
            host.users -= 1

    def slow_down(self, name: str, interval_seconds: float) -> None:
        """Set the seconds between requests, if slower than before."""
        host = self._host(name)
        host.interval = max(host.interval, interval_seconds)
        host.free_at = max(host.free_at, time.monotonic() + host.interval)

    def leave_alone(self, name: str, seconds: float) -> None:
        """Pause requests to the host for some seconds."""
        host = self._host(name)
        host.free_at = max(host.free_at, time.monotonic() + seconds)

    async def _rest(self, host: _Host) -> None:
        while (pause := host.free_at - time.monotonic()) > 0:
            longest = self._settings.longest_wait_seconds
            if pause > max(longest, 1 / self._settings.requests_per_second):
                what = f"asks for a pause of {pause:,.0f} seconds, wanted at most {longest:g}"
                raise DownloadRefusedError("asked_to_wait", what, retry_after_seconds=pause)
            await asyncio.sleep(pause)

    def _host(self, name: str) -> _Host:
        found = self._hosts.get(name)
        if found is None:
            if len(self._hosts) >= _REMEMBERED_HOSTS:
                self._forget_the_idle()
            found = self._hosts[name] = _Host(self._settings)
        return found

    def _forget_the_idle(self) -> None:
        now = time.monotonic()
        busy = {
            name: host for name, host in self._hosts.items() if host.users or host.free_at > now
        }
        self._hosts = busy


MAX_BYTES: Final = 500 * 1024  # RFC 9309, section 2.5, permits ignoring the rest
_TOO_MUCH_WORK: Final = 500_000
_FAILURE_SECONDS: Final = 300
_TAGS: Final = frozenset({"noai", "noimageai", "noindex", "noimageindex", "none"})


class _Rules(NamedTuple):
    """The rules of an origin: parsed, or an error for all of it; both None allow all."""

    parsed: Protego | None = None
    refusal: DownloadRefusedError | None = None


class Robots:
    """Checks addresses against robots.txt, in one event loop.

    Args:
        settings: the name of this client in robots.txt, and how long rules are cached.
        ask: fetches a robots.txt, with redirects and retries.
        slow_down: receives the host and the requested seconds between requests.
    """

    def __init__(
        self,
        settings: DownloadSettings,
        ask: Callable[[str], Awaitable[Answer]],
        slow_down: Callable[[str, float], None],
    ) -> None:
        self._settings = settings
        self._ask = ask
        self._slow_down = slow_down
        self._cached: OrderedDict[str, tuple[float, asyncio.Task[_Rules]]] = OrderedDict()

    async def check(self, url: URL) -> None:
        """Raise unless the address may be fetched.

        Raises:
            DownloadRefusedError: it is disallowed, or the rules are unavailable.
        """
        rules = await self._rules(url)
        if rules.refusal is not None:
            cause = rules.refusal
            raise DownloadRefusedError(cause.reason, cause.what, **cause.facts)
        if rules.parsed and not rules.parsed.can_fetch(str(url), self._settings.user_agent):
            raise DownloadRefusedError("forbidden_by_robots", "is forbidden by its robots.txt")

    async def _rules(self, url: URL) -> _Rules:
        origin = str(url.origin())
        expires, loading = self._cached.get(origin, (0.0, None))
        if loading is None or expires < time.monotonic():
            loading = asyncio.create_task(self._load(origin))
            self._cached[origin] = (time.monotonic() + self._settings.robots_cache_seconds, loading)
            while len(self._cached) > _REMEMBERED_HOSTS:
                self._cached.popitem(last=False)
        rules = await asyncio.shield(loading)  # other waiters share it
        if rules.refusal is not None:
            soon = time.monotonic() + _FAILURE_SECONDS
            expires = min(self._cached.get(origin, (soon, loading))[0], soon)
            self._cached[origin] = (expires, loading)
        return rules

    async def _load(self, origin: str) -> _Rules:
        try:
            answer = await self._ask(f"{origin}/robots.txt")
        except DownloadRefusedError as refusal:
            return _without_rules(refusal)
        text = answer.body.decode("utf-8-sig", errors="replace")
        if _work(text) > _TOO_MUCH_WORK:
            what = "has a robots.txt that is too large to be read, so downloads are forbidden"
            return _Rules(refusal=DownloadRefusedError("forbidden_by_robots", what))
        parsed = await asyncio.to_thread(Protego.parse, text)
        delay = parsed.crawl_delay(self._settings.user_agent)
        if delay:
            self._slow_down(str(URL(origin).raw_host), delay)
        return _Rules(parsed)


def _without_rules(refusal: DownloadRefusedError) -> _Rules:
    """Handle a missing robots.txt: absence allows all, failure forbids all (RFC 9309, 2.3.1)."""
    status = refusal.facts.get("status")
    if refusal.reason == "too_many_redirects":
        return _Rules()
    if status is None:
        what = f"did not return its robots.txt: it {refusal.what}"
        return _Rules(refusal=DownloadRefusedError(refusal.reason, what, **refusal.facts))
    if 400 <= status < 500 and not refusal.retry:
        return _Rules()
    what = f"answers with status {status} for its robots.txt, so downloads are forbidden"
    return _Rules(refusal=DownloadRefusedError("forbidden_by_robots", what, status=status))


def _work(text: str) -> int:
    """Return how many rules a parser stores: each rule once for each agent of its group."""
    agents = rules = kept = 0
    for line in text.splitlines():
        if line.lstrip()[:4].lower() == "user":
            agents, rules = (1, 0) if rules else (agents + 1, 0)
        elif line.strip():
            rules += 1
            kept += agents
    return kept


def check_tags(headers: Iterable[str], user_agent: str) -> None:
    """Raise if an `X-Robots-Tag` header of an image forbids collecting it.

    Raises:
        DownloadRefusedError: a header forbids it for all clients or for this one.
    """
    name = user_agent.partition("/")[0].lower()
    for header in headers:
        tags = [tag.strip() for tag in header.lower().split(",")]
        agent, colon, first = tags[0].partition(":")
        if colon and agent.strip() != "unavailable_after":
            if agent.strip() not in (name, "*"):
                continue  # for another client
            tags[0] = first.strip()
        if found := sorted(_TAGS.intersection(tags)):
            what = f"is sent with X-Robots-Tag {found[0]}, which forbids collecting it"
            raise DownloadRefusedError("forbidden_by_robots", what)
