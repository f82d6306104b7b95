"""For each image of D one similar image, and none for two (ReCoS, section 3.3).

The paper takes "the most similar image", not used already, and leaves open in which order images
choose. Here the most similar pair of all is taken first, then the most similar of what is left, and
so on. So the result does not depend on the order in which images come, and no image and candidate
that have each other's preference are ever torn apart (the matching is stable). An optimal
assignment would make the sum of similarities larger, but by giving images less similar ones than
they could have: each pair is to be confusing, not their mean.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schemas.records import Rejection

STAGE = "match_similar_images"
VERSION = "1"

Alike = Mapping[str, frozenset[str]]
"""For each image that has any the images of the same content."""


class Candidate(NamedTuple):
    """An image of the same source, and the cosine of its embedding to the image's."""

    image: str
    similarity: float


class Match(NamedTuple):
    """What was found for an image; `rank` is its place among all its candidates, from 1."""

    candidate: Candidate
    rank: int


class Matches(NamedTuple):
    """A similar image or a rejection for each image, in order of the images."""

    found: dict[str, Match]
    rejections: dict[str, Rejection]


def match_similar_images(candidates: Mapping[str, Sequence[Candidate]], alike: Alike) -> Matches:
    """One image for each, by similarity over all; of equal pairs the first by their ids.

    No image is taken twice, none is one of those that look for one (D), and none has the content of
    one of D or of one that is taken. An image that finds none is rejected (`no_similar_image`).

    Args:
        candidates: for each image of D the images of its source, the most similar first; the
            lists may be cut off, and then an image may find none although there is one.
        alike: pairs of the same content, pairs that are in doubt best among them.
    """
    closed = set(candidates)
    for image in candidates:
        closed |= alike.get(image, frozenset())
    queue = [
        entry for image in candidates if (entry := _next(image, candidates[image], 0)) is not None
    ]
    heapq.heapify(queue)
    found: dict[str, Match] = {}
    while queue:
        entry = heapq.heappop(queue)
        candidate = candidates[entry.image][entry.place]
        if candidate.image in closed:
            following = _next(entry.image, candidates[entry.image], entry.place + 1)
            if following is not None:
                heapq.heappush(queue, following)
            continue
        found[entry.image] = Match(candidate, entry.place + 1)
        closed |= {candidate.image, *alike.get(candidate.image, ())}
    return Matches(
        {image: found[image] for image in candidates if image in found},
        {
            image: _none_left(image, len(others))
            for image, others in candidates.items()
            if image not in found
        },
    )


class _Entry(NamedTuple):
    """An image's best candidate that was not looked at yet; entries are in order of choice."""

    distance: float
    image: str
    candidate: str
    place: int


def _next(image: str, candidates: Sequence[Candidate], place: int) -> _Entry | None:
    if place >= len(candidates):
        return None
    return _Entry(-candidates[place].similarity, image, candidates[place].image, place)


def _none_left(image: str, candidates: int) -> Rejection:
    detail = f"image {image!r} has no similar image of its own: " + (
        f"all of {candidates:,} candidates of its source are taken, belong to the images that "
        "look for one, or have the content of such"
        if candidates
        else "its source has no other one that is free and that none of its captions fits"
    )
    return Rejection(
        stage=STAGE,
        reason="no_similar_image",
        detail=detail,
        context={"image": image, "candidates": candidates},
    )
