"""When a host may be asked: at a polite rate, by few at a time, and not while it asks for rest."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from schemas.download import DownloadSettings
from sources.web.refusal import DownloadRefusedError

_REMEMBERED_HOSTS: Final = 10_000


class _Host:
    def __init__(self, settings: DownloadSettings) -> None:
        self.interval = 1 / settings.requests_per_second
        self.free_at = 0.0  # by the monotonic clock
        self.connections = asyncio.Semaphore(settings.connections_per_host)
        self.line = asyncio.Lock()  # in the order in which they came
        self.users = 0


class Hosts:
    """Hands out turns at hosts. Used in one event loop.

    Who waits for a slow host holds none of the `in_flight` places.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._hosts: dict[str, _Host] = {}
        self._places = asyncio.Semaphore(settings.in_flight)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """A turn to make one request to a host; its rate counts from start to start.

        Raises:
            DownloadRefusedError: it asks for a longer pause than is waited for.
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
        """From now on so many seconds pass between requests, if that is slower than before."""
        host = self._host(name)
        host.interval = max(host.interval, interval_seconds)
        host.free_at = max(host.free_at, time.monotonic() + host.interval)

    def leave_alone(self, name: str, seconds: float) -> None:
        """Nobody's turn comes for so many seconds."""
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
