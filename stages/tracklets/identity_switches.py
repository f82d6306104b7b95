"""Where a track passes from one person to another, by the embeddings of its frames."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.tracklets.measurements import rounded

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

    The stretch of frames that differs most from all others is looked for: a head, a tail, or, as
    when a passer-by takes the track over for a while, a middle. Where the means of stretch and rest
    are farther apart than `limit` (cosine distance), the track is cut at the ends of the stretch,
    and each piece is examined in the same way. Times are not looked at, only their order, so that a
    gap is no reason to cut; and means of at least `LEAST_SIDE` frames make a single bad frame none.

    Args:
        embeddings: (n, d) in the order of time.
        limit: cosine distance, 0 to 2.
    """
    return list(_pieces(embeddings, 0, len(embeddings), limit, None))


def _pieces(
    embeddings: Embeddings, begin: int, end: int, limit: float, cut_distance: float | None
) -> Iterator[Piece]:
    odd = most_different_stretch(embeddings[begin:end])
    if odd is None or odd.distance <= limit:
        shifted = odd and odd._replace(begin=begin + odd.begin, end=begin + odd.end)
        yield Piece(begin, end, cut_distance, shifted)
        return
    cuts = sorted({begin, begin + odd.begin, begin + odd.end, end})
    for one, other in pairwise(cuts):
        yield from _pieces(
            embeddings, one, other, limit, cut_distance if one == begin else odd.distance
        )


def most_different_stretch(embeddings: Embeddings) -> Stretch | None:
    """The stretch that splits embeddings best into itself and the rest; None for fewer than four.

    Best is what takes most from the squared distances to the mean (Ward's criterion: the product of
    the two counts, over their sum, times the squared distance of the two means). It favours neither
    small nor large stretches. Both sides have at least `LEAST_SIDE` frames, and so has each end of
    the rest that is not empty.
    """
    count = len(embeddings)
    begins, ends = _candidates(count)
    if not len(begins):
        return None
    sums = np.vstack([np.zeros_like(embeddings[:1]), embeddings]).cumsum(axis=0, dtype=np.float64)
    inside = sums[ends] - sums[begins]
    outside = sums[-1] - inside
    lengths = (ends - begins)[:, None]
    gaps = inside / lengths - outside / (count - lengths)
    gains = (lengths * (count - lengths) / count)[:, 0] * (gaps**2).sum(axis=1)
    best = int(np.argmax(np.round(gains, 6)))  # the first of equals, on every machine
    return Stretch(int(begins[best]), int(ends[best]), _distance(inside[best], outside[best]))


def _candidates(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begins and ends of all stretches but those that begin with the first frame and are a rest."""
    borders = [0, *range(LEAST_SIDE, count - LEAST_SIDE + 1), count]
    pairs = [
        (begin, end)
        for begin in borders[1:]
        for end in borders
        if LEAST_SIDE <= end - begin <= count - LEAST_SIDE
    ]
    begins, ends = np.array(pairs, np.int64).reshape(-1, 2).T
    return begins, ends


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The cosine distance of two vectors, rounded; 2 where one of them has no direction."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return rounded(1 - float(one @ other) / lengths) if lengths > 1e-9 else 2.0
