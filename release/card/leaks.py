"""`leaks.json`: the certificate that no person, video or image is in two splits of a release."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from loupe.release.format.publishable import published_name
from loupe.retrieval.similarity.distances import (
    ComparedImage,
    NearMeasure,
    near_measures,
    nearest_pairs,
)
from loupe.schemas.base import Split
from loupe.schemas.similarity import (
    Comparison,
    Contamination,
    LeakCertificate,
    LeakLimits,
    Measure,
    NearPair,
)
from loupe.schemas.wording import many

DEFAULT_LIMITS = LeakLimits()
_SHOWN = 5
"""The number of nearest pairs that are listed for each comparison, leaks or not."""

_Images = Sequence[ComparedImage]


def certificate_text(
    certificate: LeakCertificate | None, contamination: Sequence[Contamination] = ()
) -> bytes:
    """The bytes of `leaks.json`: the comparison of the splits, if any, and of other datasets."""
    values: dict[str, Any] = {"schema_version": 1}
    if certificate is not None:
        values = certificate.model_dump(mode="json")
    if contamination:
        values["contamination"] = [one.model_dump(mode="json") for one in contamination]
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def leak_sentence(comparison: Comparison) -> str:
    """Describe the leaks of a comparison in words."""
    near = f"up to {comparison.threshold:g} apart"
    what = {
        "identity": "of one identity",
        "video": "from one video",
        "file": "with the same file",
        "perceptual_hash": f"with perceptual hashes {near}",
        "embedding": f"with embeddings {near}",
    }[comparison.measure]
    pairs = many(comparison.leaks, "pair")
    between = f"{' and '.join(comparison.splits)} have {pairs} of images {what}"
    pair = comparison.nearest
    return between if pair is None else f"{between}, such as {pair.first} and {pair.second}"


def find_leaks(
    splits: Mapping[Split, _Images], limits: LeakLimits = DEFAULT_LIMITS
) -> LeakCertificate:
    """Compare every split with every other one, image by image, by every measure.

    The comparison is exact: all pairs are compared, in blocks of bounded memory.
    """
    comparisons = tuple(
        comparison
        for one, other in combinations(splits, 2)
        for comparison in _compared((one, other), splits[one], splits[other], limits)
    )
    return LeakCertificate(limits=limits, comparisons=comparisons)


def _compared(
    splits: tuple[Split, Split], first: _Images, second: _Images, limits: LeakLimits
) -> Iterator[Comparison]:
    yield _shared(splits, "identity", "the dataset", first, second, lambda one: one.identity)
    if any(one.video_sha256 for one in (*first, *second)):
        yield _shared(splits, "video", "SHA-256", first, second, lambda one: one.video_sha256)
    yield _shared(splits, "file", "SHA-256", first, second, lambda one: one.sha256)
    for measure in near_measures([*first, *second], limits):
        yield _near(splits, measure, first, second)


def _shared(
    splits: tuple[Split, Split],
    measure: Measure,
    computed_by: str,
    first: _Images,
    second: _Images,
    key: Callable[[ComparedImage], str | None],
) -> Comparison:
    """Pairs with equal values."""
    ours: defaultdict[str, list[str]] = defaultdict(list)
    theirs: Counter[str] = Counter()
    equal: list[NearPair] = []
    for image in first:
        if (value := key(image)) is not None:
            ours[value].append(image.name)
    for image in second:
        if (value := key(image)) is not None:
            theirs[value] += 1
            names = ours.get(value, [])[: _SHOWN - len(equal)]
            equal += [NearPair(first=name, second=image.name, distance=0) for name in names]
    counts = sum(map(len, ours.values())), theirs.total()
    return Comparison(
        splits=splits,
        measure=measure,
        computed_by=computed_by,
        threshold=0,
        images=counts,
        pairs=counts[0] * counts[1],
        leaks=sum(len(names) * theirs[value] for value, names in ours.items()),
        nearest=next(iter(equal), None),
        further=tuple(equal[1:]),
    )


def _near(
    splits: tuple[Split, Split], measure: NearMeasure, first: _Images, second: _Images
) -> Comparison:
    """Pairs that are near."""
    ours = [image for image in first if measure.applies_to(image)]
    theirs = [image for image in second if measure.applies_to(image)]
    within, named = 0, list[NearPair]()
    if ours and theirs:
        values = measure.values(ours), measure.values(theirs)
        within, nearest = nearest_pairs(*values, measure, _SHOWN)
        named = [
            NearPair(first=ours[one].name, second=theirs[other].name, distance=distance)
            for distance, one, other in nearest
        ]
    return Comparison(
        splits=splits,
        measure=measure.name,
        computed_by=published_name(measure.computed_by),
        threshold=measure.limit,
        images=(len(ours), len(theirs)),
        pairs=len(ours) * len(theirs),
        leaks=within,
        nearest=next(iter(named), None),
        further=tuple(named[1:]),
    )
