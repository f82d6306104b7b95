"""The queues that are watched: open ones, with the policies that they were opened with."""

from collections.abc import Sequence

from loupe.annotate.queues import Queue, chosen_queues, load_queues, parse_policy
from loupe.annotate.statistics.agreement import Facts
from loupe.checks.rewrites import facts_reader
from loupe.db.configurations import asked_checks
from loupe.db.reviews import BY_LEAD, GateCount, count_tasks, gate_counts
from loupe.db.store import Store
from loupe.models.profiles.settings import Settings


def watched(settings: Settings, store: Store, name: str | None = None) -> list[Queue]:
    """Return the open queues with the policies that they were opened with.

    A queue without tasks may belong to a running build whose gate has not decided yet.
    """
    declared = load_queues(settings.queues_file)
    if name is not None:
        return chosen_queues(store, declared, name)
    opened = {queue for queue, _ in count_tasks(store)} | set(declared.queues)
    counts = gate_counts(store)
    found = []
    for queue in chosen_queues(store, declared, None):
        if queue.name in opened:
            policy = parse_policy(used_policy(counts, queue))
            found.append(queue.model_copy(update={"policy": policy}))
    return found


def used_policy(counts: Sequence[GateCount], queue: Queue) -> str:
    """Return the policy that decided last in a queue, or the declared one without a decision.

    If people decided last, it is the sample drawn before, or `required`.
    """
    own = (one for one in counts if one.queue == queue.name and one.policy != BY_LEAD)
    newest = sorted((one.last, one.policy) for one in own)
    policies = [policy for _, policy in newest[-2:]]
    if policies[-1:] == [""] and policies[0].startswith("sample"):
        policies.pop()
    return (policies[-1] or "required") if policies else str(queue.policy)


def facts_of(store: Store, queue: Queue) -> Facts | None:
    """Return what reads the facts of a queue's texts; None if its dataset does not ask for it."""
    asked = asked_checks(store, queue.dataset)
    is_asked = asked is None or queue.facts in asked.checks
    return facts_reader(queue.facts) if queue.facts and is_asked else None
