"""What becomes of a stage's inputs, counted."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from db.work import WorkResult


class Deferred(NamedTuple):
    """An input that could not be worked on for now; it stays pending for the next run."""

    input: int
    reason: str


StageResult = WorkResult | Deferred


@dataclass
class StageReport:
    """What a run of a stage did; safe to add to from several threads.

    `stalled` says that a whole chunk had to be deferred (a model server is gone, say): the stage
    stops there instead of trying every further input.
    """

    stage: str
    done: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    deferred: Counter[str] = field(default_factory=Counter)
    already_done: int = 0
    seconds: float = 0.0
    stalled: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, results: Sequence[StageResult]) -> None:
        """Counts the results of one chunk."""
        with self._lock:
            for result in results:
                if isinstance(result, Deferred):
                    self.deferred[result.reason] += 1
                elif result.rejection is not None:
                    self.rejected[result.rejection.reason] += 1
                else:
                    self.done += 1
            if results and all(isinstance(result, Deferred) for result in results):
                self.stalled = True

    @property
    def finished(self) -> int:
        """How many inputs have got their work row in this run."""
        return self.done + self.rejected.total()

    @property
    def summary(self) -> str:
        """One line for people."""
        parts = [f"{self.done:,} done"]
        if self.already_done:
            parts.append(f"{self.already_done:,} done before")
        for counts, word in ((self.rejected, "rejected"), (self.deferred, "left for later")):
            if counts:
                reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()))
                parts.append(f"{counts.total():,} {word} ({reasons})")
        return f"{', '.join(parts)}  in {self.seconds:.1f} s"
