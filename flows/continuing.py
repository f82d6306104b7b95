"""Builds go on by themselves: the queue watcher resumes paused runs whose answers are all in."""

from collections.abc import Iterable, Iterator

from loupe.annotate.queues import Queue, count_proposed
from loupe.db.store import Store
from loupe.models.profiles.settings import Settings
from loupe.services.prefect_server import SERVER, PausedRun, paused_runs, paused_tag, resume_run
from loupe.services.process import running


class Continuation:
    """Resumes each paused run once, when nothing of its dataset waits for people any more.

    A run that pauses again although nothing waits is not resumed before there are new answers:
    something else is missing, and its state says what.
    """

    def __init__(self) -> None:
        self._resumed: set[str] = set()

    def note_answers(self, dataset: str) -> None:
        """Let runs of a dataset be resumed again, as there are new answers."""
        self._resumed.discard(dataset)

    def resume(self, settings: Settings, store: Store, queues: Iterable[Queue]) -> Iterator[str]:
        """Resume what can go on, and yield a sentence for each run.

        Raises:
            ServiceError: the Prefect server does not answer.
        """
        server = running(settings.home, SERVER)
        if server is None or server.url is None:
            return
        waiting: dict[str, int] = {}
        for queue in queues:
            asked = 0 if queue.policy.policy == "auto" else count_proposed(store, queue)
            waiting[queue.dataset] = waiting.get(queue.dataset, 0) + asked
        for run in paused_runs(settings.home, server.url):
            dataset = _dataset_of(run, waiting)
            if dataset is None or waiting[dataset] or dataset in self._resumed:
                continue
            self._resumed.add(dataset)
            reason = f"resumed: every item of {dataset} is decided"
            resume_run(settings.home, server.url, run, reason)
            yield f"{run.name}: {reason}"


def _dataset_of(run: PausedRun, datasets: Iterable[str]) -> str | None:
    """Return the dataset, of these, whose items a run waits for."""
    return next((one for one in datasets if paused_tag(one) in run.tags), None)
