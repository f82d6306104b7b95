"""A second look at accepted items: drawing the sample, and who still has to look.

A sample is drawn in proportion from the strata of what is accepted (`allocate`), and looked at by
people who had no part in accepting it, on the same page as before. What they find decides nothing:
it tells how much of what was accepted is wrong (`schemas.second_look`).
"""

from collections.abc import Sequence

from annotate.assignment import Item
from annotate.queues import Queue
from annotate.stratified import draw
from db.second_looks import AcceptedItem, DrawnLook, accepted_items, store_draw, wanted_looks
from db.store import Store
from schemas.errors import UsageError

STRATA = ("split", "source", "verdict")
"""What a sample can be stratified by."""


def draw_second_look(
    store: Store, queue: Queue, size: int, seed: int, by: Sequence[str] = STRATA
) -> DrawnLook:
    """A stratified sample of the accepted items of a queue; the next push asks people about it.

    Raises:
        UsageError: there is nothing to stratify by of that name, or nothing is accepted.
    """
    if unknown := [name for name in by if name not in STRATA]:
        raise UsageError(
            f"a sample can be stratified by {', '.join(STRATA)}; got {', '.join(unknown)}"
        )
    stratum_of = {
        item.entity_id: _stratum(item, by)
        for item in accepted_items(store, queue.dataset, queue.kind)
    }
    if not stratum_of:
        raise UsageError(
            f"nothing of queue {queue.name!r} is accepted yet; there is nothing to draw"
        )
    drawn = draw(stratum_of, size, f"second look {queue.name} {seed}")
    return store_draw(store, queue.name, seed, size, tuple(by), stratum_of, drawn)


def wanted(store: Store, queue: Queue) -> list[Item]:
    """The drawn items that nobody looks at yet, for `assign` with an overlap of one."""
    return [Item(look.entity_id, look.past, 0) for look in wanted_looks(store, queue.name)]


def _stratum(item: AcceptedItem, by: Sequence[str]) -> str:
    values = item._asdict()
    return " · ".join(values[name] for name in by) or "all"
