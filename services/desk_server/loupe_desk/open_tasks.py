"""Which tasks are on a screen."""

import threading
import time
from collections.abc import Callable, Iterable

OPEN_SECONDS = 3600.0
"""How long a task on a screen stays with its person if nothing is done."""
AHEAD_SECONDS = 150.0
"""The same of the task after it, which a page loads again every minute."""
_KEPT_SECONDS = 86_400.0


class OpenTasks:
    """Remembers, for an hour, which tasks are on a screen, and for minutes which come next there.

    It is kept in the memory of this process, which is the only one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[int, float] = {}
        self._shown: set[int] = set()
        self._taken: set[int] = set()

    def open(self, task: int) -> None:
        """Note that somebody has the task on the screen, or works on it."""
        with self._lock:
            self._shown.add(task)
            self._until[task] = self._clock() + OPEN_SECONDS
            self._forget()

    def still_open(self, task: int) -> None:
        """Note that the task is on a screen; its hour began when it was first noted."""
        with self._lock:
            if task not in self._shown:
                self._shown.add(task)
                self._until[task] = self._clock() + OPEN_SECONDS

    def load_ahead(self, task: int) -> None:
        """Note that a page has loaded the task, to show it next."""
        with self._lock:
            if task not in self._shown:
                self._until[task] = self._clock() + AHEAD_SECONDS

    def begin(self, task: int) -> bool:
        """Note that an answer or a draft comes; False if the task is just being taken back."""
        with self._lock:
            if task in self._taken:
                return False
            self._shown.add(task)
            self._until[task] = self._clock() + OPEN_SECONDS
            return True

    def take(self, tasks: Iterable[int], is_begun: Callable[[set[int]], set[int]]) -> list[int]:
        """Return those of the tasks that nobody has opened or begun; they accept nothing more."""
        with self._lock:
            now = self._clock()
            free = {task for task in tasks if self._until.get(task, 0.0) <= now}
            taken = free - is_begun(free)
            self._taken |= taken
        return sorted(taken)

    def release(self, tasks: Iterable[int]) -> None:
        """Let tasks accept answers again if they still exist."""
        with self._lock:
            self._taken -= set(tasks)

    def _forget(self) -> None:
        old = self._clock() - _KEPT_SECONDS
        for task in [task for task, until in self._until.items() if until < old]:
            del self._until[task]
            self._shown.discard(task)
