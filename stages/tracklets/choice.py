"""Which images of a tracklet are kept, where there are more than are wanted."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log

import numpy as np
from numpy.typing import NDArray

from models.tracking.association import unpacked
from schemas.video import Observation
from stages.tracklets.measures import hash_distance
from stages.tracklets.quality import quality

VARIETY = 1.0
"""How much being unlike what is chosen already counts, beside quality, from 0."""
SUSPICION = 0.5
"""What quality is multiplied by for every rule that suspects the image."""
_FAR_BITS = 32  # hashes of unrelated pictures differ in half of their 64 bits
_FAR_COSINE = 0.4
_FAR_ASPECT = log(2)


def in_order_of_choice(
    observations: Sequence[Observation], suspicions: Mapping[int, int]
) -> list[Observation]:
    """The observations, the one to keep first at the front.

    The best one comes first, then always the one with the greatest sum of quality (as a share of
    the best's) and dissimilarity to the nearest of those before it: so a choice of any number is
    good as well as varied. Of equals the earlier comes first.

    Args:
        observations: the images, in the order of time.
        suspicions: how many rules suspect an image, by frame.
    """
    qualities = np.array(
        [
            quality(one.measures, one.score) * SUSPICION ** suspicions.get(one.frame, 0)
            for one in observations
        ]
    )
    worth = qualities / max(qualities.max(), 1e-9)
    unlike = dissimilarities(observations)
    nearest = np.ones(len(observations))
    left = np.ones(len(observations), bool)
    order: list[int] = []
    while left.any():
        gains = np.round(worth + VARIETY * nearest, 6)
        chosen = int(np.argmax(np.where(left, gains, -1)))
        order.append(chosen)
        left[chosen] = False
        nearest = np.minimum(nearest, unlike[chosen])
    return [observations[place] for place in order]


def dissimilarities(observations: Sequence[Observation]) -> NDArray[np.float64]:
    """How unlike each two images are, (n, n), 0 to 1: the mean over time, picture, pose and looks.

    Each part is 1 from where it says all it can: time at the length of the tracklet, pHash at 32
    bits, the boxes' aspect at a factor of 2 (a stride, a turn), embeddings at a cosine distance of
    0.4 (left out where there are none).
    """
    count = len(observations)
    found = np.zeros((count, count))
    span = observations[-1].time_seconds - observations[0].time_seconds
    vectors = [unpacked(one.embedding) for one in observations]
    for one, other in combinations(range(count), 2):
        parts = _parts(observations[one], observations[other], span)
        if vectors[one].size and vectors[other].size:
            parts.append((1 - float(vectors[one] @ vectors[other])) / _FAR_COSINE)
        found[one, other] = found[other, one] = sum(min(1.0, part) for part in parts) / len(parts)
    return found


def _parts(one: Observation, other: Observation, span_seconds: float) -> list[float]:
    bits = hash_distance(one.measures.perceptual_hash, other.measures.perceptual_hash)
    return [
        abs(one.time_seconds - other.time_seconds) / span_seconds if span_seconds else 0.0,
        bits / _FAR_BITS,
        abs(log(_aspect(one) / _aspect(other))) / _FAR_ASPECT,
    ]


def _aspect(observation: Observation) -> float:
    measures = observation.measures
    return max(measures.width_px, 1) / max(measures.height_px, 1)
