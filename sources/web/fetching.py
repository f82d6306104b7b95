"""Answers of the web, redirects followed and faults of the world survived, under all rules."""

import asyncio
from typing import Final, NamedTuple

import aiohttp
from yarl import URL

from schemas.download import DownloadSettings
from sources.web.addresses import AddressRule
from sources.web.asking import Answer, Clock, ask
from sources.web.politeness import Hosts
from sources.web.refusal import DownloadRefusedError
from sources.web.robots import MAX_BYTES, Robots, check_tags
from sources.web.urls import checked, shown

_FIRST_PAUSE_SECONDS: Final = 0.5
_ROBOTS_REDIRECTS: Final = 5  # RFC 9309, section 2.3.1.2


class Fetched(NamedTuple):
    """A body, where it was in the end, and after how many redirects."""

    body: bytes
    url: URL
    redirects: int


class Fetcher:
    """Fetches addresses. Used in one event loop."""

    def __init__(
        self, settings: DownloadSettings, allow: AddressRule, session: aiohttp.ClientSession
    ) -> None:
        self._settings = settings
        self._allow = allow
        self._session = session
        self._hosts = Hosts(settings)
        self._robots = Robots(settings, self._ask_robots, self._hosts.slow_down)

    async def fetch(self, text: str) -> Fetched:
        """What the address `text` gives.

        Raises:
            DownloadRefusedError: nothing that may be used.
        """
        settings = self._settings
        robots = self._robots if settings.robots else None
        answer, redirects = await self._follow(
            text, settings.max_redirects, settings.max_bytes, robots
        )
        if robots is not None:
            check_tags(answer.headers.getall("X-Robots-Tag", ()), settings.user_agent)
        return Fetched(answer.body, answer.url, redirects)

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
    """The address that a `Location` header means; as it is where it cannot be understood."""
    try:
        return str(base.join(URL(location)))
    except (ValueError, TypeError):
        return location
