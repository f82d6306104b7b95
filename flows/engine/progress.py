"""Progress: a bar on a terminal, plain lines elsewhere."""

import threading
import time

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

from flows.engine.report import StageReport

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows the progress of a stage. Thread-safe. This base class shows nothing."""

    def start(self, stage: str, total: int | None) -> None:
        """Start a stage with `total` inputs (None: not known)."""

    def advance(self, stage: str, count: int) -> None:
        """Count `count` more inputs as done."""

    def end(self, report: StageReport) -> None:
        """End the stage."""

    def say(self, sentence: str) -> None:
        """Show a message between stages."""


class ConsoleProgress(Progress):
    """Progress bars if the console is a terminal, otherwise an occasional line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description:<32}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._counts: dict[str, tuple[int, int | None, float]] = {}
        self._counting = threading.Lock()

    def start(self, stage: str, total: int | None) -> None:
        """Show an empty bar."""
        self._counts[stage] = (0, total, time.monotonic())
        self._bars.start()
        self._tasks[stage] = self._bars.add_task(stage, total=total)

    def advance(self, stage: str, count: int) -> None:
        """Advance the bar, or print a line if enough time has passed since the last one."""
        with self._counting:
            self._advance(stage, count)

    def _advance(self, stage: str, count: int) -> None:
        done, total, last = self._counts[stage]
        done += count
        now = time.monotonic()
        if self._console.is_terminal:
            self._bars.advance(self._tasks[stage], count)
        elif now - last >= _SECONDS_BETWEEN_LINES:
            self._console.print(
                f"{stage}: {done:,} of {total:,}" if total else f"{stage}: {done:,}"
            )
            last = now
        self._counts[stage] = (done, total, last)

    def end(self, report: StageReport) -> None:
        """Remove the bar and print the summary."""
        self._bars.remove_task(self._tasks.pop(report.stage))
        self._bars.stop()
        self._console.print(f"[bold]{report.stage:<32}[/bold] {report.summary}", highlight=False)

    def say(self, sentence: str) -> None:
        """Print the message."""
        self._console.print(sentence, markup=False, soft_wrap=True)
