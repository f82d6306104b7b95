"""Reports and progress of a run."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from db.entities import WorkResult


class Deferred(NamedTuple):
    """An input that cannot be processed yet; it stays pending for the next run.

    `detail` adds to the reason, for example with the message of a server.
    """

    input: int
    reason: str
    detail: str = ""


StageResult = WorkResult | Deferred


@dataclass
class StageReport:
    """The results of one run of a stage. Thread-safe.

    `stalled` is True if a whole chunk was deferred (for example because a model server is down),
    and the stage stops instead of trying every remaining input. If the inputs are independent of
    each other (`may_stall` is False), it does not stop. `plan_id` is the number of the plan of a
    stage in the store; `asked_model` is the chat model that it asks, if any.
    """

    stage: str
    done: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    already_done: int = 0
    seconds: float = 0.0
    stalled: bool = False
    may_stall: bool = True
    plan_id: int = 0
    asked_model: str = ""
    _deferred: dict[int, Deferred] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _more: threading.Event = field(default_factory=threading.Event, repr=False)

    def add(self, results: Sequence[StageResult]) -> None:
        """Count the results of one chunk; for an input that was retried, only the last result."""
        with self._lock:
            for result in results:
                if isinstance(result, Deferred):
                    self._deferred[result.input] = result
                    continue
                self._deferred.pop(result.input, None)
                if result.rejection is not None:
                    self.rejected[result.rejection.reason] += 1
                else:
                    self.done += 1
            if results and all(isinstance(result, Deferred) for result in results):
                self.stalled = self.may_stall

    def end_wait(self, _chunk: object = None) -> None:
        """End `wait_for_more`: a chunk has ended, and its claim with it."""
        self._more.set()

    def wait_for_more(self, seconds: float) -> None:
        """Wait at most `seconds` for the end of a chunk; one since the last call counts."""
        if self._more.wait(seconds):
            self._more.clear()

    @property
    def left(self) -> dict[int, Deferred]:
        """The inputs that are left for later."""
        with self._lock:
            return dict(self._deferred)

    @property
    def deferred(self) -> Counter[str]:
        """Count of inputs left for later, by reason."""
        return Counter(one.reason for one in self.left.values())

    @property
    def why_left(self) -> str:
        """The reasons of inputs left for later, each with its number and its last detail."""
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(self.deferred.items()))
        last = {one.reason: one.detail for one in self.left.values() if one.detail}
        return f"({reasons})" + "".join(f"; {reason}: {last[reason]}" for reason in sorted(last))

    @property
    def finished(self) -> int:
        """Number of inputs that got their work row in this run."""
        return self.done + self.rejected.total()

    def as_json(self) -> dict[str, Any]:
        """Return the counts for `--json`."""
        return {
            "stage": self.stage,
            "done": self.done,
            "done_before": self.already_done,
            "rejected": dict(self.rejected),
            "deferred": dict(self.deferred),
            "seconds": round(self.seconds, 3),
        }

    @property
    def summary(self) -> str:
        """A one-line summary for people."""
        parts = [f"{self.done:,} done"]
        if self.already_done:
            parts.append(f"{self.already_done:,} finished earlier")
        for counts, word in ((self.rejected, "rejected"), (self.deferred, "left for later")):
            if counts:
                reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()))
                parts.append(f"{counts.total():,} {word} ({reasons})")
        return f"{', '.join(parts)}  in {self.seconds:.1f} s"


class RunReport(Protocol):
    """The result of a flow, as shown in Prefect."""

    @property
    def artifact(self) -> str:
        """The key of the artifact, the same for every run of one kind."""

    @property
    def sentence(self) -> str:
        """The result in one sentence."""

    @property
    def markdown(self) -> str:
        """The whole report in Markdown."""


def known_sum(value: float | None, unknown: int) -> str:
    """Format a sum over calls that omits `unknown` calls without a known value."""
    if value is None:
        return "unknown" if unknown else "–"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"
    return f"at least {shown}" if unknown else shown


_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows the progress of a stage. Thread-safe. This base class shows nothing."""

    def start(self, stage: str, total: int | None) -> None:
        """Start a stage with `total` inputs (None: not known)."""

    def advance(self, stage: str, count: int) -> None:
        """Count `count` more inputs as done."""

    def end(self, report: StageReport) -> None:
        """End the stage."""

    @contextmanager
    def shown(self, report: StageReport, total: int | None) -> Iterator[None]:
        """Show the progress of a stage in this context, also ended by an error; time the report."""
        started = time.monotonic()
        self.start(report.stage, total)
        try:
            yield
        finally:
            report.seconds = time.monotonic() - started
            self.end(report)

    def say(self, sentence: str) -> None:
        """Show a message between stages."""


class LineProgress(Progress):
    """Shows a line of progress from time to time, and the summary of each stage."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._counts: dict[str, tuple[int, int | None, float]] = {}
        self._counting = threading.Lock()

    def start(self, stage: str, total: int | None) -> None:
        """Begin to count."""
        self._counts[stage] = (0, total, time.monotonic())

    def advance(self, stage: str, count: int) -> None:
        """Show a line if enough time has passed since the last one."""
        with self._counting:
            done, total, last = self._counts[stage]
            done, now = done + count, time.monotonic()
            if now - last >= _SECONDS_BETWEEN_LINES:
                self._show(f"{stage}: {done:,}" + (f" of {total:,}" if total else ""))
                last = now
            self._counts[stage] = (done, total, last)

    def end(self, report: StageReport) -> None:
        """Show the summary."""
        self._show(f"{report.stage:<32} {report.summary}")

    def say(self, sentence: str) -> None:
        """Show the message."""
        self._show(sentence)


class BarProgress(LineProgress):
    """Shows a bar for each stage that is running, and the summary of each that has ended."""

    def __init__(self, console: Console) -> None:
        super().__init__(_printing(console))
        self._bars = Bars(
            TextColumn("{task.description:<32}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def start(self, stage: str, total: int | None) -> None:
        """Show an empty bar."""
        self._bars.start()
        self._tasks[stage] = self._bars.add_task(stage, total=total)

    def advance(self, stage: str, count: int) -> None:
        """Advance the bar."""
        self._bars.advance(self._tasks[stage], count)

    def end(self, report: StageReport) -> None:
        """Remove the bar and show the summary."""
        self._bars.remove_task(self._tasks.pop(report.stage))
        self._bars.stop()
        super().end(report)


def console_progress(console: Console) -> Progress:
    """Return progress bars if the console is a terminal, otherwise lines."""
    return BarProgress(console) if console.is_terminal else LineProgress(_printing(console))


def _printing(console: Console) -> Callable[[str], None]:
    return partial(console.print, markup=False, highlight=False, soft_wrap=True)
