"""Reports and progress of a run."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
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
from rich.table import Column

from loupe.db.entities import WorkResult
from loupe.flows.engine.stopping import Waits


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
    passed_over: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    already_done: int = 0
    seconds: float = 0.0
    stalled: bool = False
    may_stall: bool = True
    plan_id: int = 0
    asked_model: str = ""
    is_broken: bool = False
    _chunks: int = 0
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
                elif result.passed_over:
                    self.passed_over += 1
                else:
                    self.done += 1
            if results and all(isinstance(result, Deferred) for result in results):
                self.stalled = self.may_stall

    def begin(self) -> None:
        """Count a chunk that is about to be processed."""
        with self._lock:
            self._chunks += 1

    def waits_elsewhere(self) -> str:
        """Say that the inputs left are with another run; empty while some are processed here."""
        return "" if self._chunks else "for inputs that another run has"

    def end_wait(self, chunk: Future[None]) -> None:
        """End `wait_for_more`: a chunk has ended, and its claim with it.

        After one that failed the stage takes no further chunk.
        """
        if chunk.exception() is not None:
            self.stalled = True
        with self._lock:
            self._chunks -= 1
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
        return self.done + self.passed_over + self.rejected.total()

    @property
    def is_idle(self) -> bool:
        """Tell whether there was nothing to make, reject or leave."""
        return not (self.done or self.rejected or self.deferred or self.is_broken)

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
        parts = ["nothing to do" if self.is_idle else f"{self.done:,} done"]
        if self.passed_over:
            parts.append(f"{self.passed_over:,} are no inputs of it")
        if self.already_done and not self.is_idle:
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


_SECONDS_BETWEEN_LINES = 8.0  # before the command line says that it is at work
_LONGEST_SILENCE_SECONDS = 60.0  # while nothing changes
_SECONDS_BETWEEN_LOOKS = 1.0


class Progress:
    """Shows the progress of a stage. Thread-safe. This base class shows nothing."""

    @cached_property
    def waits(self) -> Waits:
        """What the run waits for."""
        return Waits()

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
        except BaseException:
            report.is_broken = True
            raise
        finally:
            report.seconds = time.monotonic() - started
            self.end(report)

    @cached_property
    def _said(self) -> set[str]:
        return set()

    def say(self, sentence: str) -> None:
        """Show a message between stages."""

    def say_once(self, sentence: str) -> None:
        """Show a message, unless it was shown in this run already."""
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(sentence)


@dataclass
class _Shown:
    """The state of a stage that is running, and when a line about it was shown."""

    total: int | None
    started: float
    last: float
    done: int = 0
    line: str = ""
    silence: float = _SECONDS_BETWEEN_LINES


class LineProgress(Progress):
    """Shows the summary of each stage and, after eight seconds of silence, how far it is.

    A line says what the stage waits for. While nothing changes, lines become rarer.
    """

    def __init__(
        self, show: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._clock = clock
        self._stages: dict[str, _Shown] = {}
        self._counting = threading.Lock()
        self._ended: threading.Event | None = None  # ends the thread that looks

    def start(self, stage: str, total: int | None) -> None:
        """Begin to count."""
        with self._counting:
            now = self._clock()
            self._stages[stage] = _Shown(total, now, now)
            if self._ended is None:
                self._ended = threading.Event()
                threading.Thread(target=self._look_until, args=[self._ended], daemon=True).start()

    def advance(self, stage: str, count: int) -> None:
        """Count inputs."""
        with self._counting:
            self._stages[stage].done += count
        self.look()

    def end(self, report: StageReport) -> None:
        """Show the summary."""
        with self._counting:
            self._stages.pop(report.stage, None)
            if not self._stages and self._ended is not None:
                self._ended.set()
                self._ended = None
        self._show(f"{report.stage:<32} {report.summary}")

    def say(self, sentence: str) -> None:
        """Show the message."""
        self._show(sentence)

    def _look_until(self, ended: threading.Event) -> None:
        while not ended.wait(_SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        """Show a line for each stage that has been silent for long enough."""
        with self._counting:
            now = self._clock()
            for stage, one in self._stages.items():
                if now - one.last < _SECONDS_BETWEEN_LINES:
                    continue
                line = self._line(stage, one, now)
                silence = _SECONDS_BETWEEN_LINES
                if line == one.line:
                    silence = min(2 * one.silence, _LONGEST_SILENCE_SECONDS)
                if now - one.last < silence:
                    continue
                one.line, one.last, one.silence = line, now, silence
                self._show(line)

    def _line(self, stage: str, one: _Shown, now: float) -> str:
        """Return how far a stage is, at what rate, how long it will take, and for what it waits."""
        parts = [f"{stage}: {one.done:,}" + (f" of {one.total:,}" if one.total else "")]
        if one.done:
            rate = one.done / max(now - one.started, 1e-9)
            left = duration((one.total - one.done) / rate) if one.total else ""
            parts.append(f"{per_second(rate)}{f', {left} left' if left else ''}")
        return "; ".join([*parts, *filter(None, [str(self.waits)])])


def per_second(rate: float) -> str:
    """Return a rate in words: per second, or per minute if it is slow."""
    return f"{rate:,.1f} per second" if rate >= 1 else f"{60 * rate:,.1f} per minute"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit, for people: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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
            TextColumn(
                "{task.fields[waits]}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            ),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def start(self, stage: str, total: int | None) -> None:
        """Show an empty bar."""
        self._bars.start()
        self._tasks[stage] = self._bars.add_task(stage, total=total, waits="")
        super().start(stage, total)

    def advance(self, stage: str, count: int) -> None:
        """Advance the bar."""
        self._bars.advance(self._tasks[stage], count)

    def look(self) -> None:
        """Show beside the bars what is waited for."""
        for task in list(self._tasks.values()):
            self._bars.update(task, waits=str(self.waits))

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
