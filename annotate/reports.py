"""What a push, a pull and a reconcile say that they did."""

from annotate.received import Notice
from schemas.base import Record


class PushReport(Record):
    """What a push did.

    Attributes:
        queue: the queue.
        pushed: tasks that are new on the desk.
        known: tasks that were there before and still wait.
        gold: those among `pushed` whose answer is known.
        conflicts: those among `pushed` that an adjudicator has to settle.
        duplicates: tasks that were there twice and are there once now.
        closed: tasks that were taken off the desk, because no answer is needed any more.
        short: items that wait for more people, or for tomorrow where there is a daily cap.
        projects: the numbers of the projects with open tasks, by assignee.
    """

    queue: str
    pushed: int = 0
    known: int = 0
    gold: int = 0
    conflicts: int = 0
    duplicates: int = 0
    closed: int = 0
    short: int = 0
    projects: tuple[tuple[str, int], ...] = ()


class PullReport(Record):
    """What a pull found, in annotations, and what came of it, in items.

    Attributes:
        queue: the queue.
        accepted: new answers that accept.
        edited: new answers that change what was shown.
        rejected: new answers that reject.
        known: answers that were received before.
        skipped: tasks that somebody did not want; others are asked.
        decided: items that are decided now, by the new answers or because fewer are wanted.
        conflicts: items on which the new answers do not agree; an adjudicator is asked.
        returned: answers that no longer count, because their author's gold answers were too bad.
        unclear: answers that are none (their tasks stay open), and those that are quarantined, as
            it is not the task's assignee who speaks; told of until mended or discarded.
        remarks: answers that were understood otherwise than their form says.
        deleted: answers that are gone from the desk; what they decided stands, as only a decision
            undoes a decision.
        too_late: answers about something that was withdrawn meanwhile.
        foreign: tasks that are none of ours.
        unreached: whose answers could not be read now, and why.
    """

    queue: str
    accepted: int = 0
    edited: int = 0
    rejected: int = 0
    known: int = 0
    skipped: int = 0
    decided: int = 0
    conflicts: int = 0
    returned: int = 0
    unclear: tuple[Notice, ...] = ()
    remarks: tuple[Notice, ...] = ()
    deleted: tuple[Notice, ...] = ()
    too_late: tuple[Notice, ...] = ()
    foreign: tuple[int, ...] = ()
    unreached: tuple[str, ...] = ()


class ReconcileReport(Record):
    """How store and desk compare.

    Attributes:
        queue: the queue.
        on_desk: our tasks on the desk.
        adopted: tasks that were on the desk without our knowing where.
        missing: entities whose open tasks are not on the desk: the next push sends them.
        duplicates: tasks that were there twice; the copy that nobody had touched was removed.
        foreign: tasks that are none of ours.
        recovered: answers that no pull had seen.
        deleted: answers that are gone from the desk; what they decided stands.
        decided: items that were decided now.
        unreached: whose tasks could not be looked at now, and why; nothing of theirs is `missing`.
    """

    queue: str
    on_desk: int = 0
    adopted: int = 0
    missing: tuple[str, ...] = ()
    duplicates: int = 0
    foreign: tuple[int, ...] = ()
    recovered: int = 0
    deleted: tuple[Notice, ...] = ()
    decided: int = 0
    unreached: tuple[str, ...] = ()
