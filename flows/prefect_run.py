"""How a run shows itself in Prefect: a task a chunk, progress and results as artifacts."""

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from prefect import task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.logging import get_run_logger

from flows.report import RunReport, StageReport

_SECONDS_BETWEEN_UPDATES = 2.0
T = TypeVar("T")
_Row = dict[str, str | int]


@task(cache_policy=NO_CACHE, persist_result=False)
def work_on_chunk(chunk: Callable[[], object]) -> None:
    """Works on one chunk and commits it."""
    chunk()


class TaskExecutor:
    """Chunks as Prefect tasks on the flow run's threads; see `flows.execution.ChunkExecutor`."""

    def __init__(self, name: str, workers: int) -> None:
        self._workers = workers
        self._task = work_on_chunk.with_options(name=name)
        self._running: list[PrefectFuture[None]] = []

    def submit(self, function: Callable[[], T]) -> None:
        """Starts a function; raises the error of an earlier one instead, where there was one."""
        while len(self._running) >= self._workers:
            self._running[0].wait()
            self._running.pop(0).result()
        self._running.append(self._task.submit(function))

    def close(self) -> None:
        """Waits for all functions and raises the first of their errors."""
        for future in self._running:
            with suppress(SystemExit):  # a run that is to stop: the others are waited for, too
                future.wait()
        running, self._running = self._running, []
        for future in running:
            future.result()


class PrefectProgress:
    """A progress artifact for each stage, its counts as a table at the end, and a log line."""

    def __init__(self) -> None:
        self._artifacts: dict[str, UUID] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._updated: dict[str, float] = {}
        self._lock = threading.Lock()

    def start(self, stage: str, total: int | None) -> None:
        """Makes the artifact."""
        artifact = create_progress_artifact(0.0, key=artifact_key(stage), description=stage)
        if isinstance(artifact, UUID):
            self._artifacts[stage] = artifact
        self._counts[stage] = (0, total or 0)
        self._updated[stage] = time.monotonic()

    def advance(self, stage: str, count: int) -> None:
        """Counts, and updates the artifact now and then."""
        with self._lock:
            done, total = self._counts[stage]
            self._counts[stage] = (done + count, total)
            now = time.monotonic()
            if not total or now - self._updated[stage] < _SECONDS_BETWEEN_UPDATES:
                return
            self._updated[stage] = now
        self._show(stage, min(100.0, 100.0 * (done + count) / total))

    def end(self, report: StageReport) -> None:
        """Publishes the counts."""
        self._show(report.stage, 100.0)
        rows: list[dict[str, str | int]] = [
            {"outcome": "done", "reason": "", "inputs": report.done}
        ]
        rows += _reasons("rejected", report.rejected) + _reasons("left for later", report.deferred)
        if report.already_done:
            rows.append({"outcome": "done before", "reason": "", "inputs": report.already_done})
        create_table_artifact(
            table=rows, key=f"{artifact_key(report.stage)}-counts", description=report.summary
        )
        get_run_logger().info("%s: %s", report.stage, report.summary)

    def say(self, sentence: str) -> None:
        """Logs the sentence."""
        get_run_logger().info(sentence)

    def _show(self, stage: str, percent: float) -> None:
        if artifact := self._artifacts.get(stage):
            update_progress_artifact(artifact, percent)


def artifact_key(stage: str) -> str:
    """`stage` as Prefect wants keys: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")


def publish_report(report: RunReport) -> None:
    """The run's result as an artifact."""
    create_markdown_artifact(report.markdown, key=artifact_key(report.artifact))
    get_run_logger().info(report.sentence)


def _reasons(outcome: str, counts: dict[str, int]) -> list[_Row]:
    return [
        {"outcome": outcome, "reason": reason, "inputs": count}
        for reason, count in sorted(counts.items())
    ]
