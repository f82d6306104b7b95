"""Which anchors of a benchmark of contrastive images come to a group, and where others are lost."""

from collections.abc import Mapping

from db.entities import LIVE, find
from db.store import Store
from flows.anchors import anchors_of
from schemas.contrast_records import ContrastGroup
from schemas.proposals import CaptionGroup, Strategy


def lost_anchors(store: Store, dataset: str) -> tuple[int, dict[str, int]]:
    """How many live anchors there are, and how many of them have not come past each step."""
    anchors = {one.id for one in anchors_of(store, dataset) if one.state in LIVE}
    steps: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "without a strategy": (Strategy.kind, ("accepted",)),
        "without a contrastive image": (ContrastGroup.kind, LIVE),
        "without captions": (CaptionGroup.kind, ("accepted",)),
    }
    left, lost = set(anchors), {}
    for step, (kind, states) in steps.items():
        past = {one.group for one in find(store, dataset, kind, states=states)}
        lost[step] = len(left - past)
        left &= past
    return len(anchors), lost


def told_of_anchors(store: Store, dataset: str) -> str:
    """The same in a sentence."""
    count, lost = lost_anchors(store, dataset)
    whole = count - sum(lost.values())
    told = f"{whole:,} of {count:,} anchors came to a group with captions"
    at = ", ".join(f"{number:,} {step}" for step, number in lost.items() if number)
    return f"{told}; left out: {at}" if at else told
