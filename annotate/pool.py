"""Which tasks a push takes back from those who have not opened them, so that others get them.

Annotators get their tasks in batches, and a batch is theirs until somebody else needs it: a person
without any work, an item with a higher priority, or gold items that the queue has now. Label Studio
gives back only what nobody has opened or begun, so no answer is lost, and none is asked twice.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from loupe.annotate.assignment import Item
from loupe.annotate.queues import SHARED, Queue
from loupe.db.annotations import answer_counts
from loupe.db.reviews import StoredTask, asked_since, newest_tasks
from loupe.db.store import Store

IDLE_AFTER = timedelta(hours=1)
"""How long somebody may do nothing in a queue until others get their tasks."""
_AT_HAND = 2
"""The tasks that an open page may have loaded: the one on the screen, and the next."""


def idle_people(store: Store, queue: Queue, people: Iterable[str], now: datetime) -> frozenset[str]:
    """Return those of the people who have had tasks of the queue, but do not work on it now.

    They neither answered, asked for tasks, nor got new ones within the last hour.
    """
    since = now - IDLE_AFTER
    given = newest_tasks(store, queue.name)
    busy = answer_counts(store, queue.name, since).keys() | asked_since(store, since)
    new = {name for name in people if name not in given or given[name] >= since}
    return frozenset(people) - busy - new - {SHARED}


class Hand(NamedTuple):
    """An annotator with their open tasks, in the order in which they open.

    `coming` are the items that this push adds at the end. `takes` tells whether they may get more.
    """

    pseudonym: str
    open: tuple[StoredTask, ...]
    coming: tuple[str, ...] = ()
    idle: bool = False
    takes: bool = True

    @property
    def load(self) -> int:
        """The number of their open tasks after the push."""
        return len(self.open) + len(self.coming)

    @property
    def unopened(self) -> tuple[StoredTask, ...]:
        """The tasks that they have probably not opened; Label Studio knows for sure."""
        kept = 0 if self.idle else _AT_HAND
        return tuple(task for task in self.open[kept:] if task.state == "open")


def out_of_turn(hands: Iterable[Hand], priorities: Mapping[str, int]) -> list[StoredTask]:
    """Return the tasks that come before one with a higher priority, and all after them."""
    found: list[StoredTask] = []
    for hand in hands:
        best = max((priorities.get(one, 0) for one in hand.coming), default=0)
        first = None
        for place, task in reversed(list(enumerate(hand.unopened))):
            own = priorities.get(task.entity_id, 0)
            first = place if own < best else first
            best = max(best, own)
        found += [] if first is None else hand.unopened[first:]
    return found


def in_the_way(
    hands: Iterable[Hand],
    priorities: Mapping[str, int],
    short: Sequence[Item],
    overlap: int,
) -> list[StoredTask]:
    """Return the tasks of those who should get urgent items first but have no room for them.

    Args:
        hands: the annotators.
        priorities: the priorities of items; 0 if an item is not in it.
        short: the items that this push gives to too few people.
        overlap: how many people answer each item.
    """
    found: dict[str, Sequence[StoredTask]] = {}
    ready = sorted(hands, key=lambda hand: (hand.idle, hand.load))
    for item in short:
        missing = overlap - item.active
        for hand in ready:
            later = [
                task for task in hand.unopened if priorities.get(task.entity_id, 0) < item.priority
            ]
            if missing > 0 and later and hand.pseudonym not in item.past:
                found[hand.pseudonym] = later
                missing -= 1
    return [task for tasks in found.values() for task in tasks]


def for_those_without_work(
    hands: Sequence[Hand], past_of: Callable[[str], Collection[str]]
) -> list[StoredTask]:
    """Return tasks for annotators who have nothing left, from idle ones or from the busiest.

    Args:
        hands: the annotators.
        past_of: returns who had an item before, and so does not get it.
    """
    left = {hand.pseudonym: list(hand.unopened) for hand in hands}
    load = {hand.pseudonym: hand.load for hand in hands}
    taken: list[StoredTask] = []
    for poor in hands:
        if poor.idle or not poor.takes or poor.load > _AT_HAND:
            continue
        givers = sorted(hands, key=lambda hand: (not hand.idle, -load[hand.pseudonym]))
        for giver in givers:
            fitting = [
                task
                for task in left[giver.pseudonym]
                if not task.gold and poor.pseudonym not in past_of(task.entity_id)
            ]
            spare = (load[giver.pseudonym] - load[poor.pseudonym]) // 2
            count = len(fitting) if giver.idle else max(0, spare)
            moved = fitting[max(0, len(fitting) - count) :]
            if giver is not poor and moved:
                taken += moved
                left[giver.pseudonym] = [
                    task for task in left[giver.pseudonym] if task not in moved
                ]
                load[giver.pseudonym] -= len(moved)
                load[poor.pseudonym] += len(moved)
                break
    return taken


def conflicts_to_move(
    open_conflicts: Iterable[StoredTask],
    adjudicators: Sequence[str],
    past_of: Callable[[str], Collection[str]],
) -> list[StoredTask]:
    """Return conflicts of the installation's own account, and for adjudicators without any.

    Only those move that an adjudicator may settle, who did not answer the item.
    """
    held: dict[str, list[StoredTask]] = {name: [] for name in (SHARED, *adjudicators)}
    for task in open_conflicts:
        held.setdefault(task.assignee, []).append(task)

    def fits(task: StoredTask, name: str) -> bool:
        return name not in past_of(task.entity_id)

    moved = [
        task
        for task in held.pop(SHARED)
        if task.state == "open" and any(fits(task, name) for name in adjudicators)
    ]
    if moved:
        return moved
    for name in adjudicators:
        richest = max(held.values(), key=len)
        spare = [task for task in richest[_AT_HAND:] if task.state == "open" and fits(task, name)]
        if not held[name] and spare:
            return spare[-(len(richest) // 2) :]
    return []
