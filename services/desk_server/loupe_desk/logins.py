"""Slow down the guessing of passwords."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

FREE_FAILURES = 5
LONGEST_WAIT_SECONDS = 60.0
MOST_REMEMBERED = 10_000
_ACCOUNT_CHARACTERS = 254


class _Failures(NamedTuple):
    tries: int
    free_at: float


class LoginBrake:
    """Counts failed logins of an account from an address, and lets the next one wait.

    The first failures cost nothing; then the wait doubles from one second to a minute. Other
    accounts and other addresses are not affected. Only the most recent pairs are remembered, in the
    memory of this process.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def begin(self, account: str, address: str) -> float:
        """Return the seconds to wait, or 0 if the login may be tried now.

        A try counts as failed until `succeed` is called, so that simultaneous tries count as well.
        """
        pair, now = self._pair(account, address), self._clock()
        with self._lock:
            known = self._failures.get(pair, _Failures(0, now))
            if known.free_at > now:
                return known.free_at - now
            tries = known.tries + 1
            doublings = min(tries - FREE_FAILURES, 10)
            wait = min(2.0**doublings, LONGEST_WAIT_SECONDS) if doublings >= 0 else 0.0
            self._failures[pair] = _Failures(tries, now + wait)
            self._failures.move_to_end(pair)
            if len(self._failures) > MOST_REMEMBERED:
                self._failures.popitem(last=False)
        return 0.0

    def succeed(self, account: str, address: str) -> None:
        """Forget the failures of an account from an address."""
        with self._lock:
            self._failures.pop(self._pair(account, address), None)

    def __len__(self) -> int:
        """Return the number of remembered pairs."""
        return len(self._failures)

    @staticmethod
    def _pair(account: str, address: str) -> tuple[str, str]:
        return account.strip().casefold()[:_ACCOUNT_CHARACTERS], address
