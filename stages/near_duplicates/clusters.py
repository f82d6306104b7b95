"""Which of the images that are alike is kept: always one that every dropped one is like."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from schemas.near_duplicates import (
    AlikePair,
    DuplicateCluster,
    NearDuplicateReport,
    NearDuplicateSettings,
    Sameness,
)
from stages.near_duplicates.pairs import Embeddings, Fingerprints, alike_pairs

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
    pairs: tuple[AlikePair, ...]
    doubtful: tuple[AlikePair, ...]
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
    same = [pair for pair in pairs if pair.sameness is Sameness.SAME]
    order = sorted(images, key=lambda one: (one not in safe, -images[one].pixels))
    goes = _what_goes(order, same, images, safe)
    stars: dict[str, list[AlikePair]] = defaultdict(list)
    for name in images:
        if name in goes:
            stars[goes[name].kept].append(goes[name].why)
    kept = tuple(name for name in images if name not in goes)
    clusters = tuple(
        DuplicateCluster(kept=name, dropped=tuple(stars[name])) for name in kept if name in stars
    )
    doubtful = tuple(
        pair
        for pair in pairs
        if pair.sameness is Sameness.DOUBTFUL and not {pair.first, pair.second} & goes.keys()
    )
    report = _report(images, clusters, doubtful, settings, embedder)
    return NearDuplicates(kept, clusters, tuple(same), doubtful, report)


class _Going(NamedTuple):
    """The image that stands for one that goes, and what they have in common."""

    kept: str
    why: AlikePair


def _what_goes(
    order: Sequence[str],
    same: Iterable[AlikePair],
    images: Fingerprints,
    protected: frozenset[str],
) -> dict[str, _Going]:
    """What is not kept, going through `order`.

    The first with some bytes speaks for all that have them: pairs are known of it only.
    """
    firsts: dict[str, str] = {}
    for name, image in images.items():
        firsts.setdefault(image.sha256, name)
    alike: dict[str, dict[str, AlikePair]] = defaultdict(dict)
    for pair in same:
        alike[pair.first][pair.second] = alike[pair.second][pair.first] = pair
    places = {name: place for place, name in enumerate(images)}
    kept: dict[str, str] = {}
    goes: dict[str, _Going] = {}
    for name in order:
        first = firsts[images[name].sha256]
        stands = next((one for one in (first, *alike[first]) if one in kept), None)
        if stands is None or name in protected:
            kept.setdefault(first, name)
            continue
        ends = sorted((name, kept[stands]), key=places.__getitem__)
        why = {"first": ends[0], "second": ends[1]}
        exact = AlikePair(**why, sameness=Sameness.SAME, exact=True)
        pair = exact if stands == first else alike[first][stands].model_copy(update=why)
        goes[name] = _Going(kept[stands], pair)
    return goes


def _report(
    images: Fingerprints,
    clusters: Sequence[DuplicateCluster],
    doubtful: Sequence[AlikePair],
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
