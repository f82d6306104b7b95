"""Who gets which item: every item enough people, nobody too many, and all of them together.

Everything here is computed from what the caller knows of items and workers. The outcome hangs on
that and on a seed alone, not on the order in which either is given.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schemas.base import digest_of


class Worker(NamedTuple):
    """Somebody who takes items of a queue now, and how busy they are with it.

    `open` counts the tasks that wait for them, `today` those that they had today and that wait for
    them no longer.
    """

    pseudonym: str
    open: int
    today: int


class Item(NamedTuple):
    """An item of a queue that needs answers.

    `past` names everybody who ever had it in this queue, whatever became of that; `active` counts
    its open and answered tasks that count now.
    """

    entity_id: str
    past: frozenset[str]
    active: int


class Assignment(NamedTuple):
    """This person is to be asked about that entity; `gold`, to see what they say."""

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

    Nobody gets an item that they had before, nor more than `daily_cap` in a day (open, done today
    and new ones together). Items that some have begun come first, so that they leave the queue;
    each goes to the least busy. Where two are equally busy, a digest of seed and item decides, so
    that everybody comes to share items with everybody else, which is what agreement is measured on.
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
    """The items that cannot get their `overlap` of people any more, however long one waits.

    Too few of those who work in the queue have not had them yet; somebody has to settle them. That
    a worker has enough for today counts for nothing here.
    """
    names = {worker.pseudonym for worker in workers}
    return [item for item in items if item.active + len(names - item.past) < overlap]


class _Room:
    """How busy a worker is, and how many more items they can take today."""

    __slots__ = ("left", "load", "pseudonym")

    def __init__(self, worker: Worker, daily_cap: int | None) -> None:
        self.pseudonym = worker.pseudonym
        self.load = worker.open
        had = worker.open + worker.today
        self.left = float("inf") if daily_cap is None else max(0, daily_cap - had)

    def take(self) -> None:
        self.load += 1
        self.left -= 1


def _turn(item: Item, seed: str) -> tuple[int, str]:
    return (-item.active, digest_of("turn", seed, item.entity_id))


def _ties(item: Item, seed: str, workers: int) -> tuple[int, ...]:
    """A number for each worker, by which those who are equally busy are ordered for this item.

    One long digest an item, cut into pieces: a digest for every pair would take most of the time.
    """
    data = hashlib.shake_128(f"{seed}\n{item.entity_id}".encode()).digest(8 * workers)
    return struct.unpack(f">{workers}Q", data)
