"""Review gates: declared queues, and decisions by their policies and by people."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from annotate.backend import Desks
from annotate.pull import pull
from annotate.push import push
from annotate.queues import Queue, apply_policy, count_proposed, reopen_for_people
from flows.engine.context import PipelineStep, RunContext, RunT
from flows.engine.desks import images_url
from flows.engine.software import code_revision
from schemas.errors import ConfigurationError

_REVIEW_POLL_SECONDS = 5.0


@dataclass(frozen=True)
class Gate(PipelineStep[RunT]):
    """A gate that decides queue `name` under the policy in the build's `key`.

    `apply` applies the decisions made so far, also while other items wait.
    """

    name: str
    key: str
    apply: Callable[[RunT], None] | None = None

    @property
    def gates(self) -> Mapping[str, str]:
        """The queue, with the key of its policy in a build."""
        return {self.name: self.key}

    def run(self, run: RunT) -> None:
        """Apply the policy and ask people to decide the rest."""
        queue = run.queues[self.name]
        run.report.waiting_in.pop(self.name, None)
        waiting, run.report.pages[self.name] = review(
            run.context, queue, run.open_desks, wait=run.wait
        )
        if waiting:
            run.report.waiting_in[self.name] = waiting
            run.say(f"queue {queue.name} waits for people")
        if self.apply is not None:
            self.apply(run)


def review(
    context: RunContext, queue: Queue, open_desks: Callable[[], Desks], *, wait: bool
) -> tuple[int, dict[str, str]]:
    """Apply the policy of the queue and ask people for the rest.

    Returns how many items wait, and the Label Studio project of each annotator with open tasks.
    Items that the gate decided alone under an earlier policy are reviewed if the policy now asks
    people.

    Raises:
        UsageError: the queue requires more people than there are.
        ServiceError: Label Studio does not answer.
    """
    reopen(context, queue)
    apply_policy(context.store, queue)
    waiting = count_proposed(context.store, queue)
    if not waiting:
        return 0, {}
    if queue.policy.policy == "auto":
        raise ConfigurationError(
            f"{waiting} items of queue {queue.name} are neither accepted nor rejected, "
            f"though its gate is 'auto'"
        )
    desks = open_desks()
    pull_answers = partial(pull, context.store, desks, queue, code_revision(), context.flow_run)
    push_tasks = partial(push, context.store, desks, queue, images_url(context.settings))
    context.as_task(f"pull {queue.name}", pull_answers)
    pushed = context.as_task(f"push {queue.name}", push_tasks)
    while (waiting := count_proposed(context.store, queue)) and wait:
        time.sleep(_REVIEW_POLL_SECONDS)
        pull_answers()
        pushed = push_tasks()
    return waiting, {who: f"{desks(who).url}/projects/{at}/data" for who, at in pushed.projects}


def reopen(context: RunContext, queue: Queue) -> None:
    """Reopen items that the gate decided alone if people are now asked, and say how many."""
    if reopened := reopen_for_people(context.store, queue):
        context.progress.say(
            f"{reopened:,} items of queue {queue.name} that no one had reviewed are open again: "
            f"its policy is {queue.policy} now"
        )
