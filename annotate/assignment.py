"""Assigns items to annotators: enough people per item, balanced workloads, mixed pairs.

The result depends on the given items, workers and seed, not on their order.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schemas.base import digest_of


class Worker(NamedTuple):
    """An annotator of a queue and their workload.

    `open` counts their open tasks, `today` the tasks that they finished today. They get at most
    `room` items now; None for no limit.
    """

    pseudonym: str
    open: int
    today: int
    room: int | None = None


class Item(NamedTuple):
    """An item of a queue that needs answers.

    `past` names all who ever had it in this queue; `active` counts its open and answered tasks that
    count now. Items with a higher `priority` come first.
    """

    entity_id: str
    past: frozenset[str]
    active: int
    priority: int = 0


class Assignment(NamedTuple):
    """An entity for an annotator; `gold` marks a test of the annotator."""

    entity_id: str
    pseudonym: str
    gold: bool = False


def assign(
    items: Iterable[Item],
    workers: Sequence[Worker],
    overlap: int,
    daily_cap: int | None,
    seed: str,
) -> list[Assignment]:
    """New assignments, so that as many items as possible get their `overlap` of active people.

    Annotators get no item twice, at most their `room`, and at most `daily_cap` a day (open,
    finished today and new ones together). Items with a priority come first, then those that already
    have answers, so that they leave the queue. Each item goes to the least busy; between equally
    busy people a digest of seed and item decides, so that all pairs of annotators share items,
    which agreement is measured on.
    """
    rooms = [_Room(worker, daily_cap) for worker in sorted(workers)]
    assignments = []
    for item in sorted(items, key=lambda item: _turn(item, seed)):
        if not any(room.left for room in rooms):
            break
        free = [
            (room, tie)
            for room, tie in zip(rooms, _ties(item, seed, len(rooms)), strict=True)
            if room.left and room.pseudonym not in item.past
        ]
        free.sort(key=lambda pair: (pair[0].load, pair[1]))
        for room, _ in free[: max(0, overlap - item.active)]:
            room.take()
            assignments.append(Assignment(item.entity_id, room.pseudonym))
    return assignments


def exhausted(items: Iterable[Item], workers: Sequence[Worker], overlap: int) -> list[Item]:
    """The items that can never get their `overlap` of people; an adjudicator has to settle them.

    Too few of the queue's annotators have not had them yet. Daily caps do not matter here.
    """
    names = {worker.pseudonym for worker in workers}
    return [item for item in items if item.active + len(names - item.past) < overlap]


class _Room:
    """A worker's workload, and how many more items they can take today."""

    __slots__ = ("left", "load", "pseudonym")

    def __init__(self, worker: Worker, daily_cap: int | None) -> None:
        self.pseudonym = worker.pseudonym
        self.load = worker.open
        had = worker.open + worker.today
        self.left = float("inf") if daily_cap is None else max(0, daily_cap - had)
        if worker.room is not None:
            self.left = min(self.left, worker.room)

    def take(self) -> None:
        self.load += 1
        self.left -= 1


def _turn(item: Item, seed: str) -> tuple[int, int, str]:
    return (-item.priority, -item.active, digest_of("turn", seed, item.entity_id))


def _ties(item: Item, seed: str, workers: int) -> tuple[int, ...]:
    """A number for each worker, by which those who are equally busy are ordered for this item.

    One long digest an item, cut into pieces: a digest for every pair would take most of the time.
    """
    data = hashlib.shake_128(f"{seed}\n{item.entity_id}".encode()).digest(8 * workers)
    return struct.unpack(f">{workers}Q", data)
