"""Draw samples, and assign items to annotators: enough people, balanced workloads, mixed pairs.

The result depends on the given items, workers and seed, not on their order.
"""

import hashlib
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from loupe.schemas.base import digest_of
from loupe.schemas.grouping import grouped


class Worker(NamedTuple):
    """An annotator of a queue and their workload.

    `open` counts their open tasks. They get at most `room` items now; None for no limit. Those who
    are `idle` get what nobody else has room for.
    """

    pseudonym: str
    open: int
    room: int | None = None
    idle: bool = False


class Item(NamedTuple):
    """An item of a queue that needs answers.

    `past` names everyone who ever had it in this queue; `active` counts its open and answered tasks
    that count now. Items with a higher `priority` come first.
    """

    entity_id: str
    past: frozenset[str]
    active: int
    priority: int = 0


class Assignment(NamedTuple):
    """An entity for an annotator; `gold` marks a gold item."""

    entity_id: str
    pseudonym: str
    gold: bool = False


def assign(
    items: Iterable[Item], workers: Sequence[Worker], overlap: int, seed: str
) -> list[Assignment]:
    """Return new assignments, so that as many items as possible reach their `overlap`.

    Annotators get no item twice, and at most their `room`. Items with a priority come first, then
    those that already have answers, so that they leave the queue. Each item goes to the least busy
    annotator who works now, or to an idle one. Among equally busy annotators, a digest of seed and
    item decides, so that all pairs of annotators share items, which are needed to measure
    agreement.
    """
    workers = sorted(workers)
    load = [worker.open for worker in workers]
    left = [math.inf if worker.room is None else worker.room for worker in workers]
    assignments = []
    for item in sorted(items, key=lambda item: _turn(item, seed)):
        if not any(left):
            break
        ties = _ties(item, seed, len(workers))
        free = [
            place
            for place, worker in enumerate(workers)
            if left[place] and worker.pseudonym not in item.past
        ]
        free.sort(key=lambda place: (workers[place].idle, load[place], ties[place]))
        for place in free[: max(0, overlap - item.active)]:
            load[place] += 1
            left[place] -= 1
            assignments.append(Assignment(item.entity_id, workers[place].pseudonym))
    return assignments


def _turn(item: Item, seed: str) -> tuple[int, int, str]:
    return (-item.priority, -item.active, digest_of("turn", seed, item.entity_id))


def _ties(item: Item, seed: str, workers: int) -> tuple[int, ...]:
    """Return a number for each worker, which orders equally busy ones for this item.

    One long digest per item is cut into pieces, as a digest for each pair would take most of the
    time.
    """
    data = hashlib.shake_128(f"{seed}\n{item.entity_id}".encode()).digest(8 * workers)
    return struct.unpack(f">{workers}Q", data)


def draw(
    stratum_of: Mapping[str, str],
    size: int,
    seed: str,
    weights: Mapping[str, float] | None = None,
) -> list[str]:
    """Draw a sample of `size` ids, in proportion to their strata, ordered by digest.

    With `weights`, strata are drawn from in proportion to their size times their weight. Within a
    stratum, a larger sample contains every smaller one with the same seed.
    """
    strata = grouped((stratum, entity_id) for entity_id, stratum in stratum_of.items())
    populations = {name: len(ids) for name, ids in strata.items()}
    wanted = allocate(populations, size)
    if weights is not None:
        wanted = allocate_weighted(populations, weights, size)
    places = {entity_id: digest_of("draw", seed, entity_id) for entity_id in stratum_of}
    drawn: list[str] = []
    for name, ids in strata.items():
        drawn += sorted(ids, key=places.__getitem__)[: wanted[name]]
    return sorted(drawn, key=places.__getitem__)


def allocate(populations: Mapping[str, int], size: int) -> dict[str, int]:
    """Return the sample size of each stratum, in proportion, by largest remainders.

    A sample larger than the population is the population. For equal remainders, the larger stratum
    comes first, then the first by name.
    """
    total = sum(populations.values())
    size = min(size, total)
    if not total:
        return dict.fromkeys(populations, 0)
    shares = {name: divmod(size * count, total) for name, count in populations.items()}
    given = {name: whole for name, (whole, _) in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (-shares[name][1], -populations[name], name))
    for name in by_remainder[: size - sum(given.values())]:
        given[name] += 1
    return given


LEAST_OF_STRATUM = 2
"""The least sample of a stratum whose variance is to be known."""


def allocate_weighted(
    populations: Mapping[str, int], weights: Mapping[str, float], size: int
) -> dict[str, int]:
    """Return the sample size of each stratum, in proportion to its population times its weight.

    Every stratum has at least two (or all of its items), as far as `size` permits, and none more
    than its population: what is left over goes to the others.
    """
    given: dict[str, int] = {}
    for name in sorted(populations, key=lambda one: (-weights[one], one)):
        least = min(LEAST_OF_STRATUM, populations[name], size - sum(given.values()))
        given[name] = max(0, least)
    while (left := min(size, sum(populations.values())) - sum(given.values())) > 0:
        open_ = [name for name in populations if given[name] < populations[name]]
        mass = {name: round(1e6 * populations[name] * max(weights[name], 1e-6)) for name in open_}
        for name, more in allocate(mass, left).items():
            given[name] = min(populations[name], given[name] + more)
    return given
