"""The review queues of this installation: as declared, and those that are in use."""

from annotate.policies import Policy
from annotate.queues import Declarations, Queue, load_queues
from db.reviews import count_states, count_tasks
from db.store import Store
from profiles.settings import Settings
from schemas.errors import UsageError


def declared_queues(settings: Settings) -> Declarations:
    """The shipped declarations as the installation's own file changes them.

    Raises:
        ConfigurationError: the file is wrong.
    """
    return load_queues(settings.queues_file)


def queues_in_use(
    store: Store, declared: Declarations, policy: Policy | None = None
) -> list[Queue]:
    """The queues that have tasks, have something that was checked for them, or are declared."""
    names = {queue for queue, _ in count_tasks(store)} | set(declared.queues)
    names |= {
        f"{dataset}-{name}"
        for name, step in declared.steps.items()
        if step.checked
        for dataset in count_states(store, step.kind)
    }
    return [declared.queue_named(name, policy) for name in sorted(names)]


def chosen_queues(
    store: Store, declared: Declarations, name: str | None, policy: Policy | None = None
) -> list[Queue]:
    """The queue of that name, or all that are in use.

    Raises:
        UsageError: there is no such queue, or its dataset has nothing for it.
    """
    if name is None:
        return queues_in_use(store, declared, policy)
    queue = declared.queue_named(name, policy)
    if queue.dataset not in count_states(store, queue.kind):
        known = ", ".join(one.name for one in queues_in_use(store, declared)) or "none"
        raise UsageError(
            f"queue {name!r} needs a dataset {queue.dataset!r} with entities of kind "
            f"{queue.kind!r}, and there is none; queues in use: {known}"
        )
    return [queue]
