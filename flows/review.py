"""Has a queue decided: by its policy, and by people as far as they have come."""

import time
from collections.abc import Callable

from annotate.candidates import apply_policy, proposed, reopen_for_people
from annotate.projects import Desks
from annotate.pull import pull
from annotate.push import push
from annotate.queues import Queue
from flows.context import RunContext
from flows.desk import images_url
from schemas.errors import ConfigurationError

_POLL_SECONDS = 5.0


def review(
    context: RunContext, queue: Queue, open_desks: Callable[[], Desks], *, wait: bool
) -> int:
    """Applies the queue's policy and asks people for the rest; gives how many items still wait.

    What the gate decided alone under an earlier policy goes to people, where they are asked now.

    Raises:
        UsageError: the queue wants more people than there are.
        ServiceError: the review desk is gone.
    """
    reopen(context, queue)
    apply_policy(context.store, queue)
    waiting = _proposed(context, queue)
    if not waiting:
        return 0
    if queue.policy.policy == "auto":
        raise ConfigurationError(
            f"{waiting} items of queue {queue.name} are neither accepted nor rejected, "
            f"though its gate is 'auto'"
        )
    desks = open_desks()
    while True:
        pull(context.store, desks, queue, context.code_revision, context.flow_run)
        push(context.store, desks, queue, images_url(context.settings))
        waiting = _proposed(context, queue)
        if not waiting or not wait:
            return waiting
        time.sleep(_POLL_SECONDS)


def reopen(context: RunContext, queue: Queue) -> None:
    """Opens again what the gate decided alone, where people are asked for now; tells how much."""
    if reopened := reopen_for_people(context.store, queue):
        context.progress.say(
            f"{reopened:,} items of queue {queue.name} that nobody had looked at are open again: "
            f"its policy is {queue.policy} now"
        )


def _proposed(context: RunContext, queue: Queue) -> int:
    return sum(1 for _ in proposed(context.store, queue))
