"""Where a track passes from one person to another, by the embeddings of its frames."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.tracklets.measurements import DECIMALS

LEAST_SIDE = 2
"""Frames that must speak for a person: one alone that differs is an outlier, no person."""

Embeddings = NDArray[np.float32]
"""Embeddings of unit length, of shape (n, d)."""


class Stretch(NamedTuple):
    """Frames `begin` to `end` (exclusive) of a piece, and how far they are from its rest."""

    begin: int
    end: int
    distance: float


class Piece(NamedTuple):
    """Frames `begin` to `end` (exclusive) between switches.

    `cut_distance` is how far apart the two sides of the cut were that it begins with, None where it
    begins the track; `odd` is the stretch in it that differs most from its rest, but too little to
    be cut out; None where there is none.
    """

    begin: int
    end: int
    cut_distance: float | None
    odd: Stretch | None


def cut_at_switches(embeddings: Embeddings, limit: float) -> list[Piece]:
    """The pieces of a track between identity switches, in order; they cover all its frames.

    Any stretch of frames may be another person's: a head, a tail, or, as when a passer-by takes the
    track over for a while, a middle. Of the stretches that are farther than `limit` from the rest
    (see `_distances`), the one that explains most is cut out, and each piece is examined in the
    same way. Best explained is what takes most from the squared distances to the mean (Ward's
    criterion), which favours neither small nor large stretches. Times are not looked at, only their
    order, so that a gap is no reason to cut.

    Args:
        embeddings: (n, d) in the order of time.
        limit: cosine distance, 0 to 2.
    """
    return list(_pieces(embeddings, 0, len(embeddings), limit, None))


def _pieces(
    embeddings: Embeddings, begin: int, end: int, limit: float, cut_distance: float | None
) -> Iterator[Piece]:
    odd = most_different_stretch(embeddings[begin:end], limit)
    if odd is None or odd.distance <= limit:
        shifted = odd and odd._replace(begin=begin + odd.begin, end=begin + odd.end)
        yield Piece(begin, end, cut_distance, shifted)
        return
    cuts = sorted({begin, begin + odd.begin, begin + odd.end, end})
    for one, other in pairwise(cuts):
        yield from _pieces(
            embeddings, one, other, limit, cut_distance if one == begin else odd.distance
        )


def most_different_stretch(embeddings: Embeddings, limit: float) -> Stretch | None:
    """The stretch to cut out, or where none is farther than `limit` the farthest one.

    None for fewer frames than two sides need. Both stretch and rest have at least `LEAST_SIDE`
    frames, and so has each end of the rest that is not empty.
    """
    begins, ends = _candidates(len(embeddings))
    if not len(begins):
        return None
    places = np.arange(len(embeddings))
    inside = (places >= begins[:, None]) & (places < ends[:, None])
    own, rest = _means(embeddings, inside), _means(embeddings, ~inside)
    distances = _distances(embeddings, inside, own, rest)
    lengths = inside.sum(axis=1)
    gains = lengths * (len(embeddings) - lengths) * ((own - rest) ** 2).sum(axis=1)
    ranks = gains if (distances > limit).any() else distances
    allowed = (distances > limit) | (distances.max() <= limit)
    best = int(np.argmax(np.where(allowed, np.round(ranks, 6), -1)))  # the first of equals
    return Stretch(int(begins[best]), int(ends[best]), float(distances[best]))


def _candidates(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begins and ends of the stretches: tails and middles; a head is the rest of a tail."""
    borders = [*range(LEAST_SIDE, count - LEAST_SIDE + 1), count]
    pairs = [
        (begin, end)
        for begin in borders
        for end in borders
        if LEAST_SIDE <= end - begin <= count - LEAST_SIDE
    ]
    begins, ends = np.array(pairs, np.int64).reshape(-1, 2).T
    return begins, ends


def _means(embeddings: Embeddings, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The means of the chosen frames, (m, d), for `chosen` of shape (m, n)."""
    sums = chosen @ embeddings.astype(np.float64)
    means: NDArray[np.float64] = sums / chosen.sum(axis=1, keepdims=True)
    return means


def _distances(
    embeddings: Embeddings,
    inside: NDArray[np.bool_],
    own: NDArray[np.float64],
    rest: NDArray[np.float64],
) -> NDArray[np.float64]:
    """How far each stretch is from its rest: (m,) cosine distances, rounded.

    That is the distance of the two means; but no more than the lower quartile of the distances that
    the frames of one side have from the other side's mean. So a single frame that lies far off,
    with a neighbour that does not, is no person: the rule for outliers sees to it.
    """
    vectors, own, rest = embeddings.astype(np.float64), _unit(own), _unit(rest)
    between = 1 - (own * rest).sum(axis=1)
    from_rest = _lower_quartiles(1 - rest @ vectors.T, inside)
    from_own = _lower_quartiles(1 - own @ vectors.T, ~inside)
    nearest: NDArray[np.float64] = np.minimum(between, np.minimum(from_rest, from_own))
    return nearest.round(DECIMALS)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = vectors / np.maximum(lengths, 1e-9)
    return unit


def _lower_quartiles(
    distances: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """For each row, the value below which a quarter of the chosen values lies; (m, n) to (m,)."""
    rising = np.sort(np.where(chosen, distances, np.inf), axis=1)
    places = (chosen.sum(axis=1) - 1) // 4
    quartiles: NDArray[np.float64] = rising[np.arange(len(rising)), places]
    return quartiles
