"""Builds go on: the queue watcher resumes paused runs, and says which other builds are ready."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from loupe.annotate.queues import Queue, count_proposed
from loupe.db.store import Store
from loupe.flows.engine.waiting import WaitingBuild, waiting_builds
from loupe.models.profiles.settings import Settings
from loupe.schemas.wording import many
from loupe.services.prefect_server import (
    SERVER,
    PausedRun,
    paused_runs,
    paused_tag,
    restate_pause,
    resume_run,
)
from loupe.services.process import running

_RESTATE_SECONDS = 60.0
"""The pause between two states of a paused run, each of which Prefect keeps."""


class Continuation:
    """Resumes each paused run once, when nothing of its dataset waits for people any more.

    A run that pauses again although nothing waits is not resumed before there are new answers:
    something else is missing, and its state says what. Of a build without Prefect, it is said once
    that it is ready. Until then, the state of a paused run says what is waited for now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._continued: set[str] = set()
        self._stated: dict[str, tuple[str, float]] = {}

    def note_answers(self, dataset: str) -> None:
        """Let runs of a dataset be resumed again, as there are new answers."""
        self._continued.discard(dataset)

    def resume(self, settings: Settings, store: Store, queues: Iterable[Queue]) -> Iterator[str]:
        """Resume what can go on, and yield a sentence for each build.

        Raises:
            ServiceError: the Prefect server does not answer.
        """
        waiting = _waiting(store, queues)
        for build in ready_builds(settings, waiting):
            if build.command and build.dataset not in self._continued:
                self._continued.add(build.dataset)
                yield f"{build.dataset} is ready to continue: {build.how}"
        server = running(settings.home, SERVER)
        if server is None or server.url is None:
            return
        for run in paused_runs(settings.home, server.url):
            dataset = _dataset_of(run, waiting)
            if dataset is None:
                continue
            if left := waiting[dataset]:
                self._restate(settings, server.url, run, _said(dataset, left))
            elif dataset not in self._continued:
                self._continued.add(dataset)
                reason = f"resumed: every item of {dataset} is decided"
                resume_run(settings.home, server.url, run, reason)
                yield f"{run.name}: {reason}"

    def _restate(self, settings: Settings, url: str, run: PausedRun, said: str) -> None:
        """Let the state of a paused run say what it waits for now."""
        before, at = self._stated.get(run.id, ("", -_RESTATE_SECONDS))
        now = self._clock()
        if said != before and now - at >= _RESTATE_SECONDS:
            self._stated[run.id] = said, now
            restate_pause(settings.home, url, run, said)


def ready_to_continue(settings: Settings, store: Store, queues: Iterable[Queue]) -> list[str]:
    """Return a sentence for each build that waited for people and can go on."""
    return [
        f"{build.dataset}, as every item is decided: {build.how}"
        for build in ready_builds(settings, _waiting(store, queues))
    ]


def ready_builds(
    settings: Settings, waiting: Mapping[str, Mapping[str, int]]
) -> list[WaitingBuild]:
    """Return the builds that waited for people, and of which nothing is undecided now."""
    return [build for build in waiting_builds(settings.home) if waiting.get(build.dataset) == {}]


def _waiting(store: Store, queues: Iterable[Queue]) -> dict[str, dict[str, int]]:
    """Return how many items people must decide, by dataset and queue, without queues of none."""
    waiting: dict[str, dict[str, int]] = {}
    for queue in queues:
        of_dataset = waiting.setdefault(queue.dataset, {})
        asked = 0 if queue.policy.policy == "auto" else count_proposed(store, queue)
        if asked:
            of_dataset[queue.name] = asked
    return waiting


def _said(dataset: str, left: Mapping[str, int]) -> str:
    gates = ", ".join(f"{count:,} in {queue}" for queue, count in left.items())
    total = many(sum(left.values()), "item")
    return (
        f"{total} of {dataset} wait for people ({gates}); the queue watcher of loupe up then "
        "resumes this run"
    )


def _dataset_of(run: PausedRun, datasets: Iterable[str]) -> str | None:
    """Return the dataset, of these, whose items a run waits for."""
    return next((one for one in datasets if paused_tag(one) in run.tags), None)
