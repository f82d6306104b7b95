"""Builds go on: the queue watcher resumes paused runs, and starts other builds again."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from loupe.annotate.queues import Queue, count_proposed
from loupe.db.store import Store
from loupe.flows.engine.waiting import WaitingBuild, file_name, waiting_builds
from loupe.models.profiles.settings import PREFIX, Settings
from loupe.schemas.errors import ServiceError
from loupe.schemas.wording import many
from loupe.services.installation import BUILD
from loupe.services.prefect_server import (
    SERVER,
    PausedRun,
    paused_runs,
    paused_tag,
    restate_pause,
    resume_run,
)
from loupe.services.process import RunningService, ServiceSpec, running, start

_RESTATE_SECONDS = 60.0
"""The pause between two states of a paused run, each of which Prefect keeps."""


class Continuation:
    """Continues each build once, when nothing of its dataset waits for people any more.

    A paused run in Prefect is resumed, and `loupe run` is started again. A build that ends and
    waits again although nothing waits is not continued before there are new answers or items:
    something else is missing, and its state or its log says what. Until then, the state of a paused
    run says what is waited for now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._continued: set[str] = set()
        self._stated: dict[str, tuple[str, float]] = {}

    def note_answers(self, dataset: str) -> None:
        """Let builds of a dataset be continued again, as there are new answers."""
        self._continued.discard(dataset)

    def resume(self, settings: Settings, store: Store, queues: Iterable[Queue]) -> Iterator[str]:
        """Continue what can go on, and yield a sentence for each build.

        Raises:
            ServiceError: the Prefect server does not answer.
        """
        waiting = _waiting(store, queues)
        self._continued -= {dataset for dataset, left in waiting.items() if left}
        for build in ready_builds(settings, waiting):
            if build.command and build.dataset not in self._continued:
                self._continued.add(build.dataset)
                yield _started(settings, build)
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


def _started(settings: Settings, build: WaitingBuild) -> str:
    """Start a build again where it was started, and return a sentence about it."""
    ready = f"{build.dataset} is ready to continue"
    if not settings.continue_builds or not build.is_command:
        return f"{ready}: {build.how}"
    if lacking := [name for name in build.keys if name not in os.environ]:
        return (
            f"{ready}, but the queue watcher has no {', '.join(lacking)}: run {build.how}, or set "
            f"it for loupe up (and name it in LOUPE_WORKER_VARIABLES)"
        )
    name = f"{BUILD}{file_name(build.dataset)}"
    if (service := running(settings.home, name)) is not None:
        return f"{build.dataset} runs already (pid {service.pid}): {service.log}"
    try:
        service = _start_again(settings.home, name, build)
    except ServiceError as error:
        return f"{ready}, but cannot be started: {error}; run {build.how}"
    return f"{build.dataset} goes on: started {build.how}; its output is in {service.log}"


def _start_again(home: Path, name: str, build: WaitingBuild) -> RunningService:
    spec = ServiceSpec(
        name=name,
        command=build.command,
        working_directory=Path(build.folder),
        environment={**_own_variables(), **build.environment},
        keeps_umask=True,  # it also writes files that users requested
    )
    return start(home, spec, lambda: True)


def _own_variables() -> dict[str, str]:
    """Return the variables of this process without the addresses that only the watcher uses."""
    return {name: value for name, value in os.environ.items() if name != f"{PREFIX}NOTIFY_URLS"}


def ready_to_continue(settings: Settings, store: Store, queues: Iterable[Queue]) -> list[str]:
    """Return a sentence for each build that waited for people and can go on.

    A build whose record is damaged may be one.
    """
    ready = [
        f"{build.dataset}, as every item is decided: {_next_of(settings, build)}"
        for build in ready_builds(settings, _waiting(store, queues))
    ]
    unknown = [
        f"perhaps a build that does not go on by itself, as {path} is damaged: run it again, then "
        "remove that file"
        for path in waiting_builds(settings.home).damaged
    ]
    return ready + unknown


def _next_of(settings: Settings, build: WaitingBuild) -> str:
    name = f"{BUILD}{file_name(build.dataset)}"
    if (service := running(settings.home, name)) is not None:
        return f"it runs (pid {service.pid}), see {service.log}"
    return build.how


def ready_builds(
    settings: Settings, waiting: Mapping[str, Mapping[str, int]]
) -> list[WaitingBuild]:
    """Return the builds that waited for people, and of which nothing is undecided now."""
    builds = waiting_builds(settings.home).builds
    return [build for build in builds if waiting.get(build.dataset) == {}]


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
