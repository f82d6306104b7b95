"""Images that resemble those of v1, each once, and none that v1 has (ReCoS, section 3.4)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from schemas.near_duplicates import AlikePair
from schemas.similar_images import ExpansionReport, ExpansionSettings
from stages.near_duplicates.clusters import NearDuplicates

STAGE = "expand_images"
VERSION = "1"

Deduplicate = Callable[[Sequence[str], frozenset[str]], NearDuplicates]
"""Leaves one image of each content: of ids, in order, of which some are protected."""


class Expansion(NamedTuple):
    """What v2 has more than v1.

    Attributes:
        images: the ids of the new images, the most often found first, then by their ids.
        doubtful: pairs of images, new or of v1, that people have to decide.
        report: how many there were at each step.
    """

    images: tuple[str, ...]
    doubtful: Sequence[AlikePair]
    report: ExpansionReport


def expand_images(
    neighbours: Mapping[str, Sequence[str]],
    settings: ExpansionSettings,
    deduplicate: Deduplicate,
    embedder: str,
) -> Expansion:
    """The neighbours of all images of v1, merged and without duplicates, also of v1.

    The result does not depend on the order of the images.

    Args:
        neighbours: for each image of v1 the images of its source but itself, the most similar
            first; no more than `settings.neighbours` of them count.
        settings: how many are wanted.
        deduplicate: usually `stages.near_duplicates.clusters.find_near_duplicates` over stored
            fingerprints.
        embedder: what the neighbours were found by, as `name@revision`.
    """
    v1 = frozenset(neighbours)
    taken = [others[: settings.neighbours] for others in neighbours.values()]
    counts: dict[str, int] = {}
    for others in taken:
        for image in others:
            counts[image] = counts.get(image, 0) + 1
    outside = sorted(counts.keys() - v1, key=lambda image: (-counts[image], image))
    left = deduplicate([*sorted(v1), *outside], v1)
    new = tuple(sorted(set(left.kept) - v1, key=lambda image: (-counts[image], image)))
    dropped = [pair for cluster in left.clusters for pair in cluster.dropped]
    exact = sum(pair.exact for pair in dropped)
    report = ExpansionReport(
        images=len(v1),
        wanted=settings.neighbours,
        found=sum(map(len, taken)),
        distinct=len(counts),
        outside=len(outside),
        exact=exact,
        near=len(dropped) - exact,
        new=len(new),
        doubtful=len(left.doubtful),
        short=sum(len(others) < settings.neighbours for others in taken),
        embedder=embedder,
    )
    return Expansion(new, left.doubtful, report)
