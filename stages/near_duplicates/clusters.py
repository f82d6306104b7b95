"""Which of the images that are alike is kept: always one that every dropped one is like."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from schemas.near_duplicates import (
    AlikePair,
    DuplicateCluster,
    NearDuplicateReport,
    NearDuplicateSettings,
    Sameness,
)
from stages.near_duplicates.collection import Embeddings, Fingerprints, Places
from stages.near_duplicates.pair_table import AlikePairs
from stages.near_duplicates.pairs import alike_pairs

STAGE = "find_near_duplicates"
VERSION = "1"


class NearDuplicates(NamedTuple):
    """What is kept of a collection, and why the rest is not.

    Attributes:
        kept: the ids of the images that stay, in the order of the images.
        clusters: what goes, with the image that stands for it, in the order of these.
        pairs: all pairs of the same content; more than `clusters` say, as images of a cluster may
            be alike among themselves.
        doubtful: pairs of kept images that people have to decide.
        report: the numbers.
    """

    kept: tuple[str, ...]
    clusters: tuple[DuplicateCluster, ...]
    pairs: AlikePairs
    doubtful: AlikePairs
    report: NearDuplicateReport


def find_near_duplicates(
    images: Fingerprints,
    settings: NearDuplicateSettings,
    *,
    embeddings: Embeddings | None = None,
    embedder: str | None = None,
    protected: Collection[str] = (),
) -> NearDuplicates:
    """Leaves of all that has the same content one image.

    Images come before others where they are protected, then where they have more pixels, then where
    they are earlier. In this order each is kept, unless it has the same content as one that is kept
    already: then it goes, with it. So no two images that are kept have the same
    content (but protected ones, which always are kept), and none goes because of a chain of others.

    Args:
        images: fingerprints by id; their order says what is earlier.
        settings: when two images have the same content.
        embeddings: one row for each image, of shape (n, d), where there are some.
        embedder: what made them, as `name@revision`.
        protected: ids that stay whatever they are like (the images of an earlier version, say).
    """
    safe = frozenset(protected)
    pairs = alike_pairs(images, settings, embeddings)
    same = pairs.of(Sameness.SAME)
    goes = _what_goes(images, same, safe)
    stars: dict[str, list[AlikePair]] = defaultdict(list)
    for place, going in goes.items():
        stars[pairs.names[going.kept]].append(_why(place, going, same))
    kept = tuple(name for place, name in enumerate(images) if place not in goes)
    clusters = tuple(
        DuplicateCluster(kept=name, dropped=tuple(stars[name])) for name in kept if name in stars
    )
    doubtful = _between_kept(pairs.of(Sameness.DOUBTFUL), np.array(list(goes), np.int64))
    report = _report(images, clusters, doubtful, settings, embedder)
    return NearDuplicates(kept, clusters, same, doubtful, report)


class _Going(NamedTuple):
    """The place of the image that stands for one that goes, and the pair that says why.

    `pair` is of the images that are first of the bytes of both; -1 where that is the same one.
    """

    kept: int
    pair: int


def _what_goes(
    images: Fingerprints, same: AlikePairs, protected: frozenset[str]
) -> dict[int, _Going]:
    """What is not kept, by place, in order.

    The first with some bytes speaks for all that have them: near pairs are known of it only. Of the
    kept ones that an image is like the earliest stands for it.
    """
    rows, count = same.rows, len(images)
    firsts = np.arange(count)
    firsts[rows["second"][rows["exact"]]] = rows["first"][rows["exact"]]
    near = np.flatnonzero(~rows["exact"])
    others = _Neighbours(rows["first"][near], rows["second"][near], near, count)
    nobody = count
    stands = np.full(count, nobody)  # for each image the earliest kept one that it is like
    why = np.full(count, -1)
    kept: dict[int, int] = {}
    goes: dict[int, _Going] = {}
    for place in _order(images, protected):
        first = int(firsts[place])
        own = first if first in kept else int(stands[first])
        if own == nobody or same.names[place] in protected:
            if first not in kept:
                kept[first] = place
                beside, pair = others.of(first)
                earlier = first < stands[beside]
                stands[beside[earlier]], why[beside[earlier]] = first, pair[earlier]
            continue
        goes[place] = _Going(kept[own], -1 if own == first else int(why[first]))
    return dict(sorted(goes.items()))


def _order(images: Fingerprints, protected: frozenset[str]) -> list[int]:
    """Places of images, in the order in which they are kept if they can be."""
    keys = [(name not in protected, -image.pixels) for name, image in images.items()]
    return sorted(range(len(keys)), key=keys.__getitem__)


class _Neighbours:
    """For each image those that it makes a pair with."""

    def __init__(self, first: Places, second: Places, pairs: Places, count: int) -> None:
        own = np.concatenate((first, second))
        order = np.argsort(own, kind="stable")
        self._others = np.concatenate((second, first))[order]
        self._pairs = np.concatenate((pairs, pairs))[order]
        self._starts = np.searchsorted(own[order], np.arange(count + 1))

    def of(self, place: int) -> tuple[Places, Places]:
        """The places of its neighbours, and the pairs."""
        start, stop = self._starts[place], self._starts[place + 1]
        return self._others[start:stop], self._pairs[start:stop]


def _why(place: int, going: _Going, same: AlikePairs) -> AlikePair:
    """What an image that goes has in common with the one that stands for it."""
    first, second = (same.names[end] for end in sorted((place, going.kept)))
    if going.pair < 0:
        return AlikePair(first=first, second=second, sameness=Sameness.SAME, exact=True)
    return same[going.pair].model_copy(update={"first": first, "second": second})


def _between_kept(pairs: AlikePairs, goes: Places) -> AlikePairs:
    rows = pairs.rows
    gone = np.isin(rows["first"], goes) | np.isin(rows["second"], goes)
    return AlikePairs(pairs.names, rows[~gone])


def _report(
    images: Fingerprints,
    clusters: Sequence[DuplicateCluster],
    doubtful: AlikePairs,
    settings: NearDuplicateSettings,
    embedder: str | None,
) -> NearDuplicateReport:
    dropped = [pair for cluster in clusters for pair in cluster.dropped]
    exact = sum(pair.exact for pair in dropped)
    mirrored = sum(pair.mirrored for pair in dropped)
    return NearDuplicateReport(
        images=len(images),
        kept=len(images) - len(dropped),
        exact=exact,
        near=len(dropped) - exact - mirrored,
        mirrored=mirrored,
        doubtful=len(doubtful),
        clusters=len(clusters),
        settings=settings,
        embedder=embedder,
    )
