"""The rules of the noise filter, for single crops and for the images of one person."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from math import ceil, log
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.flows.ufine6926.crops import hash_distance, quality
from loupe.models.tracking.association import unpacked
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import CropMeasures, Finding, Observation, Track

Outcome = Literal["passed", "suspected", "dropped"]
Sign = Literal["≥", "≤", ">"]
"""Relation of a good value to its threshold."""

_BAND = 0.2
"""Width of the band in which a value is suspected, as a share of the threshold."""
_DECIMALS = 4
"""Decimals of values that are compared and reported.

They are few enough that findings are the same bytes with any linear algebra library.
"""


class Measurement(NamedTuple):
    """The measurement of a frame (or of the whole track, if `frame` is None) by one rule.

    Attributes:
        rule: the name of the rule.
        setting: the field of `FilterSettings` that holds the threshold.
        frame: the frame, or the first frame of a new part.
        value: the measured value.
        threshold: the value that it was compared with.
        outcome: the result of the comparison.
        beside: the frame that this one was compared with, if any.
    """

    rule: str
    setting: str
    frame: int | None
    value: float
    threshold: float
    outcome: Outcome
    beside: int | None = None

    @property
    def finding(self) -> Finding | None:
        """Return the measurement as a finding; None if it passed."""
        if self.outcome == "passed":
            return None
        return Finding.model_validate(self, from_attributes=True)


def rounded(value: float) -> float:
    """Round a value as it is compared and reported."""
    return round(float(value), _DECIMALS)


def outcome_of(value: float, threshold: float, sign: Sign, *, scale_end: float = 0.0) -> Outcome:
    """Compare a value: beyond the threshold it is dropped, within `_BAND` of it, it is suspected.

    The band lies on the passing side of the threshold. Its width is a share of the distance between
    the threshold and `scale_end`, the end of the scale on the failing side. If both are equal,
    there is no band.
    """
    excess = threshold - value if sign == "≥" else value - threshold
    if excess > 0:
        return "dropped"
    return "suspected" if excess > -_BAND * abs(threshold - scale_end) else "passed"


class Rule(NamedTuple):
    """One threshold of the filter.

    Attributes:
        name: its name in findings; rules with the same meaning share a name.
        part: a word that distinguishes rules of the same name.
        measure: the measured quantity, in words, with its unit.
        setting: the field of `FilterSettings` that holds the threshold.
        sign: relation of a good value to the threshold.
        field: for a rule on single crops, the field of its value: one of `CropMeasures`, or one
            that `judge_crops` adds.
        scale_end: end of the scale that the band of suspicion is measured on.
        is_exact: whether values are exact, so that nothing is suspected.
    """

    name: str
    measure: str
    setting: str
    sign: Sign
    part: str = ""
    field: str = ""
    scale_end: float = 0.0
    is_exact: bool = False

    @property
    def label(self) -> str:
        """Return the name of the rule, and which of its thresholds this is."""
        return f"{self.name}, {self.part}" if self.part else self.name

    @property
    def is_count(self) -> bool:
        """Whether values are whole numbers."""
        return FilterSettings.model_fields[self.setting].annotation is int

    def threshold(self, settings: FilterSettings) -> float:
        """Return the threshold that values are compared with."""
        return float(getattr(settings, self.setting))

    def judge(
        self, frame: int | None, value: float, settings: FilterSettings, beside: int | None = None
    ) -> Measurement:
        """Compare the value of a frame with the threshold."""
        value, threshold = rounded(value), self.threshold(settings)
        end = threshold if self.is_exact else self.scale_end
        outcome = outcome_of(value, threshold, self.sign, scale_end=end)
        return Measurement(self.name, self.setting, frame, value, threshold, outcome, beside)


_FILE = resources.files("loupe.flows.ufine6926").joinpath("noise_rules.toml")
RULES = tuple(Rule(**one) for one in tomllib.loads(_FILE.read_text("utf-8"))["rules"])
"""All rules, in the order in which they are applied and reported."""
IMAGE_RULES = tuple(rule for rule in RULES if rule.field)
"""The rules for single crops.

Every rule judges every crop, even one that another rule drops, so that a report lists everything
that is wrong with it.
"""
BODY_RULES = ("least_keypoints", "least_person", "least_person_share")
"""The settings of the rules that need a pose model."""
SWITCH, OUTLIER, NEAR_DUPLICATE, TOO_FEW, SURPLUS = RULES[len(IMAGE_RULES) :]
RULE_NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))


def judge_crops(track: Track, settings: FilterSettings) -> Iterator[Measurement]:
    """Apply every rule for single crops to every crop of a track, frame by frame.

    Results of a pose model are used only if the settings name one.
    """
    usual = median([one.measures.sharpness for one in track.observations] or [0.0])
    for one in track.observations:
        yield from judge_crop(one.frame, one.measures, one.score, usual, settings)


def judge_crop(
    frame: int,
    measures: CropMeasures,
    score: float,
    usual_sharpness: float,
    settings: FilterSettings,
) -> Iterator[Measurement]:
    """Apply every rule for single crops to one; `usual_sharpness` is the median of its track."""
    values: dict[str, Any] = {
        **dict(measures),
        "score": score,
        "aspect": measures.width_px / max(measures.height_px, 1e-6),
        "relative_sharpness": measures.sharpness / usual_sharpness if usual_sharpness else 1.0,
    }
    for rule in IMAGE_RULES:
        if rule.setting in BODY_RULES and settings.pose_model is None:
            continue
        if (value := values[rule.field]) is not None:
            yield rule.judge(frame, value, settings)


# Finds where a track passes from one person to another, by the embeddings of its frames.

_LEAST_SIDE = 2
"""Minimum number of frames of a person: a single frame that differs is an outlier."""

Embeddings = NDArray[np.float32]
"""Embeddings of unit length, of shape (n, d)."""


class Stretch(NamedTuple):
    """Frames `begin` to `end` (exclusive) of a piece, and their distance from the rest of it."""

    begin: int
    end: int
    distance: float


def embeddings_of(observations: Sequence[Observation]) -> Embeddings | None:
    """Return the embeddings, (n, d); None if the detector provides none."""
    if not observations or not all(one.embedding for one in observations):
        return None
    return np.stack([unpacked(one.embedding) for one in observations])


def judge_switches(
    observations: Sequence[Observation], settings: FilterSettings
) -> tuple[list[Sequence[Observation]], list[Measurement]]:
    """Split the observations at identity switches; also return suspected switches.

    Any stretch of frames may show another person: a head, a tail, or a middle, if a passer-by takes
    over the track for a while. Of the stretches that are farther than `switch_distance` from the
    rest (see `_distances`), the one that explains most is cut out, and each piece is examined in
    the same way. The best explanation is the largest decrease in the squared distances to the mean
    (Ward's criterion), which favours neither small nor large stretches. Only the order of frames
    counts, not their times, so that a gap is not a reason to cut. A cut is reported as suspected:
    it drops no frame. In a piece that is not cut, the ends of the farthest stretch are measured.
    """
    vectors = embeddings_of(observations)
    if vectors is None:
        return [observations] if observations else [], []
    pieces: list[Sequence[Observation]] = []
    measured: list[Measurement] = []

    def measure(place: int, distance: float) -> None:
        frame, before = observations[place].frame, observations[place - 1].frame
        found = SWITCH.judge(frame, distance, settings, before)
        is_cut = found.outcome == "dropped"
        measured.append(found._replace(outcome="suspected") if is_cut else found)

    def examine(begin: int, end: int) -> None:
        odd = _most_different_stretch(vectors[begin:end], settings.switch_distance)
        if odd is None:
            pieces.append(observations[begin:end])
            return
        borders = [begin + place for place in (odd.begin, odd.end) if begin + place < end]
        if odd.distance <= settings.switch_distance:
            pieces.append(observations[begin:end])
            for place in borders:
                measure(place, odd.distance)
            return
        for one, other in pairwise((begin, *borders, end)):
            if one > begin:
                measure(one, odd.distance)
            examine(one, other)

    examine(0, len(observations))
    return pieces, measured


def _most_different_stretch(embeddings: Embeddings, limit: float) -> Stretch | None:
    """Return the stretch to cut out; if none is farther than `limit`, the farthest one.

    None if there are too few frames for two sides. The stretch, the rest, and each end of the rest
    that is not empty have at least `_LEAST_SIDE` frames.
    """
    count = len(embeddings)
    # Tails and middles: a head is the rest of a tail.
    borders = [*range(_LEAST_SIDE, count - _LEAST_SIDE + 1), count]
    stretches = [
        (begin, end)
        for begin in borders
        for end in borders
        if _LEAST_SIDE <= end - begin <= count - _LEAST_SIDE
    ]
    if not stretches:
        return None
    begins, ends = np.array(stretches).T
    inside = (np.arange(count) >= begins[:, None]) & (np.arange(count) < ends[:, None])
    vectors = embeddings.astype(np.float64)
    own, rest = (
        chosen @ vectors / chosen.sum(axis=1, keepdims=True) for chosen in (inside, ~inside)
    )
    distances = _distances(vectors, inside, own, rest)
    lengths = inside.sum(axis=1)
    gains = lengths * (count - lengths) * ((own - rest) ** 2).sum(axis=1)
    ranks = gains if (distances > limit).any() else distances
    allowed = (distances > limit) | (distances.max() <= limit)
    best = int(np.argmax(np.where(allowed, np.round(ranks, 6), -1)))  # the first of equals
    return Stretch(int(begins[best]), int(ends[best]), float(distances[best]))


def _distances(
    vectors: NDArray[np.float64],
    inside: NDArray[np.bool_],
    own: NDArray[np.float64],
    rest: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return how far each stretch is from its rest: (m,) cosine distances, rounded.

    That is the distance of the two means, but not more than the lower quartile of the distances of
    the frames of one side from the mean of the other. A single distant frame, together with a
    neighbour that is not distant, is therefore not another person; the rule for outliers handles
    it.
    """
    own, rest = (
        means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
        for means in (own, rest)
    )
    between = 1 - (own * rest).sum(axis=1)
    from_rest = _lower_quartiles(1 - rest @ vectors.T, inside)
    from_own = _lower_quartiles(1 - own @ vectors.T, ~inside)
    nearest: NDArray[np.float64] = np.minimum(between, np.minimum(from_rest, from_own))
    return nearest.round(_DECIMALS)


def _lower_quartiles(
    distances: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the lower quartile of the selected values of each row; (m, n) to (m,)."""
    rising = np.sort(np.where(chosen, distances, np.inf), axis=1)
    places = (chosen.sum(axis=1) - 1) // 4
    quartiles: NDArray[np.float64] = rising[np.arange(len(rising)), places]
    return quartiles


# Chooses the images of a tracklet to keep if there are more than wanted.

_VARIETY = 1.0
"""Weight, from 0, of the difference from images chosen already, relative to quality."""
_SUSPICION = 0.5
"""Factor that quality is multiplied by for every rule that suspects the image."""
_FAR_BITS = 32  # hashes of unrelated images differ in half of their 64 bits
_FAR_COSINE = 0.4
_FAR_ASPECT = log(2)


def _in_order_of_choice(
    observations: Sequence[Observation], suspicions: Mapping[int | None, int]
) -> list[Observation]:
    """Return the observations in the order of preference, the best to keep first.

    The best one comes first, then always the one with the greatest sum of quality (as a share of
    the best's) and dissimilarity to the nearest one before it. Any number of the first ones is
    therefore both good and varied. In case of a tie the earlier comes first.

    Args:
        observations: the images, in the order of time.
        suspicions: how many rules suspect an image, by frame.
    """
    qualities = np.array(
        [
            quality(one.measures, one.score) * _SUSPICION ** suspicions.get(one.frame, 0)
            for one in observations
        ]
    )
    worth = qualities / max(qualities.max(), 1e-9)
    unlike = _dissimilarities(observations)
    nearest = np.ones(len(observations))
    left = np.ones(len(observations), bool)
    order: list[int] = []
    while left.any():
        gains = np.round(worth + _VARIETY * nearest, 6)
        chosen = int(np.argmax(np.where(left, gains, -1)))
        order.append(chosen)
        left[chosen] = False
        nearest = np.minimum(nearest, unlike[chosen])
    return [observations[place] for place in order]


def _dissimilarities(observations: Sequence[Observation]) -> NDArray[np.float64]:
    """Return pairwise dissimilarities, (n, n), 0 to 1: the mean over time, image, pose and looks.

    Each part saturates at 1: time at the length of the tracklet, pHash at 32 bits, the aspect ratio
    of the boxes at a factor of 2 (a stride, a turn), embeddings at a cosine distance of 0.4 (left
    out if there are none).
    """
    times = np.array([one.time_seconds for one in observations])
    measures = [one.measures for one in observations]
    bits = [
        [hash_distance(a.perceptual_hash, b.perceptual_hash) for b in measures] for a in measures
    ]
    aspects = np.log([max(one.width_px, 1) / max(one.height_px, 1) for one in measures])
    parts = [
        np.abs(times[:, None] - times) / max(times[-1] - times[0], 1e-9),
        np.array(bits) / _FAR_BITS,
        np.abs(aspects[:, None] - aspects) / _FAR_ASPECT,
    ]
    if (vectors := embeddings_of(observations)) is not None:
        parts.append((1 - vectors @ vectors.T) / _FAR_COSINE)
    unlike: NDArray[np.float64] = np.minimum(parts, 1).mean(axis=0)
    return unlike


# The rules for the images of one person together. Each takes the images that no earlier rule
# dropped, in the order of time, and judges each of them.

_ALL_BITS = 64


def judge_outliers(
    observations: Sequence[Observation], settings: FilterSettings
) -> Iterator[Measurement]:
    """Measure how far each image is from the medoid, the image nearest to all others."""
    vectors = embeddings_of(observations)
    if vectors is None:
        return
    similarities = vectors @ vectors.T
    medoid = int(np.argmax(np.round(similarities.sum(axis=1), 4)))  # the first of equals
    for place, one in enumerate(observations):
        beside = None if place == medoid else observations[medoid].frame
        distance = max(0.0, 1 - similarities[medoid, place])
        yield OUTLIER.judge(one.frame, distance, settings, beside)


def judge_duplicates(
    observations: Sequence[Observation], settings: FilterSettings
) -> Iterator[Measurement]:
    """Find images that are near-duplicates of a sharper image that is kept.

    From the sharpest image down (the earlier one first in case of a tie), an image is kept if it
    differs from all kept ones in more than `duplicate_bits` bits. Of a run of near-duplicates the
    sharpest is kept, no two kept images are near-duplicates, and each dropped image has a kept
    near-duplicate. Because bits are whole numbers, the band of suspicion is at least one bit wide.
    """
    limit = settings.duplicate_bits
    kept: list[Observation] = []
    measured: dict[int, Measurement] = {}
    for one in sorted(observations, key=lambda one: (-one.measures.sharpness, one.frame)):
        own = one.measures.perceptual_hash
        bits, beside = min(
            ((hash_distance(own, other.measures.perceptual_hash), other.frame) for other in kept),
            default=(_ALL_BITS, None),
        )
        outcome: Outcome = "passed"
        if beside is not None and bits <= limit + ceil(_BAND * limit):
            outcome = "dropped" if bits <= limit else "suspected"
        if outcome != "dropped":
            kept.append(one)
        measured[one.frame] = Measurement(
            NEAR_DUPLICATE.name, NEAR_DUPLICATE.setting, one.frame, float(bits), float(limit),
            outcome, beside,
        )  # fmt: skip
    yield from (measured[one.frame] for one in observations)


def judge_number(
    observations: Sequence[Observation], settings: FilterSettings
) -> Iterator[Measurement]:
    """Check that there are enough images; otherwise all of them are dropped."""
    for one in observations:
        yield TOO_FEW.judge(one.frame, len(observations), settings)


def judge_surplus(
    observations: Sequence[Observation],
    suspicions: Mapping[int | None, int],
    settings: FilterSettings,
) -> Iterator[Measurement]:
    """Choose the images to keep if there are more than `most_images`.

    Args:
        observations: the images.
        suspicions: how many rules suspect an image, by frame.
        settings: the thresholds.
    """
    order = _in_order_of_choice(observations, suspicions) if observations else []
    places = {one.frame: place for place, one in enumerate(order, start=1)}
    for one in observations:
        yield SURPLUS.judge(one.frame, places[one.frame], settings)
