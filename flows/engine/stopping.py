"""Limits of a run, what it waits for, and its stop: nothing new is sent, paid answers are stored.

The first SIGINT or SIGTERM prints on standard error what the run waits for; a second one ends the
process immediately. Code that sends requests counts them with `Stop.begin` and `Stop.end`.
"""

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Never

_EXIT_CODE_OF_SIGNALS = 128  # plus the number: 130 after SIGINT, 143 after SIGTERM


class Stop:
    """Whether a run must stop, and how many of its requests are in flight. Thread-safe."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.exit_code: int | None = None
        self.is_announced = False
        self._counting = threading.Lock()
        self._process = os.getpid()

    @property
    def is_requested(self) -> bool:
        """True if nothing new may be sent."""
        return self.exit_code is not None

    def request(self, number: int | None = None) -> None:
        """Send nothing new from now on because of that signal (SIGTERM)."""
        self.exit_code = self.exit_code or _EXIT_CODE_OF_SIGNALS + (number or signal.SIGTERM)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal in the main thread, without a lock, which it might already hold.

        While requests are in flight, the signal is only recorded: the threads that store their
        outcomes end afterwards (`check`), and the stage with them.
        """
        if self.is_requested or os.getpid() != self._process:
            _end_at_once(number)
        self.request(number)
        if self.in_flight == 0:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(self.exit_code)
        self.is_announced = True
        again = "press Ctrl-C" if number == signal.SIGINT else "send the signal"
        _write(f"{self.waiting()}; {again} again to stop at once\n")

    def begin(self) -> bool:
        """Count a request that is about to be sent; False if it must not be sent."""
        with self._counting:
            self.in_flight += 1
        if self.is_requested:  # checked after counting: a signal sees the count or is seen here
            self.end()
            return False
        return True

    def end(self, count: int = 1) -> None:
        """Count requests whose outcome is stored or given up."""
        with self._counting:
            self.in_flight -= count

    def check(self) -> None:
        """End a thread if the run must stop.

        Raises:
            SystemExit: the run must stop.
        """
        if self.is_requested:
            raise SystemExit(self.exit_code)

    def waiting(self) -> str:
        """Return what the run waits for, in one line."""
        match self.in_flight:
            case 0:
                return "stopping: waiting for work in progress to be stored"
            case 1:
                return "stopping: waiting for 1 paid answer"
            case count:
                return f"stopping: waiting for {count} answers that were paid for"


_current: list[Stop] = []


def current_stop() -> Stop:
    """Return the stop of this process if signals request it, else one that is never requested."""
    return _current[-1] if _current else Stop()


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Stop runs in the block on SIGINT and SIGTERM; call it in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop.handle) for number in numbers}
    _current.append(stop)
    try:
        yield
    finally:
        _current.remove(stop)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int) -> Never:
    if sys.stderr.isatty():
        _write("\x1b[?25h")  # a progress bar hides the cursor
    os._exit(_EXIT_CODE_OF_SIGNALS + number)


def _write(text: str) -> None:
    """Write to standard error without its buffer, which the interrupted code may be using."""
    os.write(2, ("\n" + text if sys.stderr.isatty() else text).encode())


class Budget:
    """Limit on what a run spends on model calls. Thread-safe. A limit of None means no limit.

    `stop` tells whether the run may send requests at all.
    """

    def __init__(self, max_cost: float | None = None, max_tokens: int | None = None) -> None:
        self.stop = current_stop()
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.cost = 0.0
        self.tokens = 0
        self.calls = 0
        self._lock = threading.Lock()

    def spend(self, tokens: int, cost: float | None) -> None:
        """Count one call."""
        with self._lock:
            self.calls += 1
            self.tokens += tokens
            self.cost += cost or 0.0

    def reached(self) -> str | None:
        """Return a sentence that says which limit was reached, or None."""
        if self.max_cost is not None and self.cost >= self.max_cost:
            return f"the run has spent {self.cost:.4f} of --max-cost {self.max_cost:g}"
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"the run has used {self.tokens} of --max-tokens {self.max_tokens} tokens"
        return None


class Waits:
    """What the threads of a run wait for at present. Thread-safe."""

    def __init__(self) -> None:
        self._present: dict[object, str | Callable[[], str]] = {}

    @contextmanager
    def on(self, what: str | Callable[[], str]) -> Iterator[None]:
        """State what this thread waits for in the block: "for the answers of …", "": nothing."""
        key = object()
        self._present[key] = what
        try:
            yield
        finally:
            del self._present[key]

    def __str__(self) -> str:
        """What is waited for, in one line, with how many threads wait for it; may be empty."""
        present = list(self._present.values())
        counts = Counter(one if isinstance(one, str) else one() for one in present)
        del counts[""]
        parts = [
            f"{what} ({count:,} times)" if count > 1 else what for what, count in counts.items()
        ]
        return f"waiting {'; '.join(parts)}" if parts else ""
