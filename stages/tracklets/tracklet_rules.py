"""The rules of the noise filter that look at the images of one person together.

Each takes images that no rule before it has dropped, in the order of time, and says something of
each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from models.tracking.association import unpacked
from schemas.tracking import FilterSettings
from schemas.video import Observation
from stages.tracklets.choice import in_order_of_choice
from stages.tracklets.identity_switches import Embeddings
from stages.tracklets.measurements import (
    BAND,
    Direction,
    Measurement,
    Outcome,
    outcome_of,
    rounded,
)
from stages.tracklets.measures import hash_distance


class TrackletRule(NamedTuple):
    """A rule as it is described; what it does is a function of its own."""

    name: str
    measure: str
    setting: str
    direction: Direction


SWITCH = TrackletRule(
    "identity_switch",
    "cosine distance between a stretch of frames and the rest",
    "switch_distance",
    "at most",
)
OUTLIER = TrackletRule(
    "outlier", "cosine distance from the tracklet's medoid", "outlier_distance", "at most"
)
NEAR_DUPLICATE = TrackletRule(
    "near_duplicate",
    "bits from the nearest sharper image that stays (64: none)",
    "duplicate_bits",
    "more than",
)
TOO_FEW = TrackletRule("too_few_images", "usable images", "least_images", "at least")
SURPLUS = TrackletRule("surplus", "place in the order of choice", "most_images", "at most")
TRACKLET_RULES = (SWITCH, OUTLIER, NEAR_DUPLICATE, TOO_FEW, SURPLUS)
"""In the order in which they are asked."""

_ALL_BITS = 64


def embeddings_of(observations: Sequence[Observation]) -> Embeddings | None:
    """The embeddings, (n, d); None where the detector knows nothing of appearance."""
    if not observations or not all(one.embedding for one in observations):
        return None
    return np.stack([unpacked(one.embedding) for one in observations])


def judge_outliers(
    observations: Sequence[Observation], settings: FilterSettings
) -> Iterator[Measurement]:
    """How far each image is from the medoid: the one that is nearest to all others."""
    vectors = embeddings_of(observations)
    if vectors is None:
        return
    similarities = vectors @ vectors.T
    medoid = int(np.argmax(np.round(similarities.sum(axis=1), 4)))  # the first of equals
    limit = settings.outlier_distance
    for one, similarity in zip(observations, similarities[medoid], strict=True):
        value = max(0.0, rounded(1 - similarity))
        outcome = outcome_of(value, limit, "at most")
        beside = None if one is observations[medoid] else observations[medoid].frame
        yield _measured(OUTLIER, one.frame, value, limit, outcome, beside)


def judge_duplicates(
    observations: Sequence[Observation], settings: FilterSettings
) -> Iterator[Measurement]:
    """Which images are near-duplicates of a sharper one that stays.

    From the sharpest image down (the earlier of equals first), an image stays if it differs from
    all that stay in more than `duplicate_bits` bits: of a run of near-duplicates the sharpest
    stays, no two that stay are near-duplicates, and none goes without one that stands for it.
    Because bits are whole, the band of suspicion is one of at least one bit.
    """
    limit = settings.duplicate_bits
    band = ceil(BAND * limit) if limit else 0
    kept: list[Observation] = []
    measured: dict[int, Measurement] = {}
    for one in sorted(observations, key=lambda one: (-one.measures.sharpness, one.frame)):
        bits, beside = min(
            ((_bits(one, other), other.frame) for other in kept), default=(_ALL_BITS, None)
        )
        if beside is None or bits > limit:
            kept.append(one)
        outcome: Outcome = "passed"
        if beside is not None and bits <= limit + band:
            outcome = "dropped" if bits <= limit else "suspected"
        measured[one.frame] = _measured(NEAR_DUPLICATE, one.frame, bits, limit, outcome, beside)
    yield from (measured[one.frame] for one in observations)


def judge_number(
    observations: Sequence[Observation], settings: FilterSettings
) -> Iterator[Measurement]:
    """Whether there are enough images; where not, all of them are dropped."""
    count, limit = len(observations), settings.least_images
    outcome: Outcome = "dropped" if count < limit else "passed"
    for one in observations:
        yield _measured(TOO_FEW, one.frame, count, limit, outcome)


def judge_surplus(
    observations: Sequence[Observation], suspicions: Mapping[int, int], settings: FilterSettings
) -> Iterator[Measurement]:
    """Which images are kept, where there are more than `most_images`.

    Args:
        observations: the images.
        suspicions: how many rules suspect an image, by frame.
        settings: the thresholds.
    """
    if not observations:
        return
    limit = settings.most_images
    order = in_order_of_choice(observations, suspicions)
    places = {one.frame: place for place, one in enumerate(order, start=1)}
    for one in observations:
        outcome: Outcome = "dropped" if places[one.frame] > limit else "passed"
        yield _measured(SURPLUS, one.frame, places[one.frame], limit, outcome)


def _bits(one: Observation, other: Observation) -> int:
    return hash_distance(one.measures.perceptual_hash, other.measures.perceptual_hash)


def _measured(
    rule: TrackletRule,
    frame: int,
    value: float,
    limit: float,
    outcome: Outcome,
    beside: int | None = None,
) -> Measurement:
    return Measurement(rule.name, rule.setting, frame, float(value), float(limit), outcome, beside)
