"""The rules of the noise filter, of one crop and of the images of one person."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import ceil, log
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.ufine6926.crops import hash_distance, quality
from models.tracking.association import unpacked
from schemas.tracking import FilterSettings
from schemas.video import CropMeasures, Finding, Observation, Track

Outcome = Literal["passed", "suspected", "dropped"]
Direction = Literal["at least", "at most", "more than"]
"""What a good value is to its threshold."""

BAND = 0.2
"""How near to its threshold a value must be to be suspected, as a share of the threshold."""
DECIMALS = 4
"""Of values that are compared and reported: few enough that findings are the same bytes whatever
linear algebra they were computed with."""


class Measurement(NamedTuple):
    """What one rule measured of a frame (or of the whole track, where `frame` is None).

    Attributes:
        rule: the name of the rule.
        setting: the field of `FilterSettings` that holds the threshold.
        frame: the frame, or the one that a new part would begin with.
        value: what was measured.
        threshold: what it was compared with.
        outcome: what came of it.
        beside: the frame that this one was compared with, where there is one.
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
        """The measurement as it is reported; None where it passed."""
        if self.outcome == "passed":
            return None
        return Finding(
            frame=self.frame,
            rule=self.rule,
            value=self.value,
            threshold=self.threshold,
            outcome=self.outcome,
        )


def rounded(value: float) -> float:
    """A value as it is compared and reported."""
    return round(float(value), DECIMALS)


def outcome_of(
    value: float,
    threshold: float,
    direction: Literal["at least", "at most"],
    *,
    scale_end: float = 0.0,
) -> Outcome:
    """What comes of a value: beyond the threshold it drops, within `BAND` of it it is suspected.

    The band lies on the side of the threshold that passes, and is a share of the threshold's
    distance from `scale_end`: the end of the scale that the threshold keeps away from. Where that
    is the threshold itself, there is no band.
    """
    band = BAND * abs(threshold - scale_end)
    if direction == "at least":
        return _graded(threshold - value, band)
    return _graded(value - threshold, band)


def _graded(excess: float, band: float) -> Outcome:
    if excess > 0:
        return "dropped"
    return "suspected" if excess > -band else "passed"


# Where a track passes from one person to another, by the embeddings of its frames.

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


# Which images of a tracklet are kept, where there are more than are wanted.

VARIETY = 1.0
"""How much the difference from images chosen already counts in addition to quality, from 0."""
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


# The rules that look at one crop alone. Every rule judges every crop, even one that another rule
# drops, so that a report states all that is wrong with it.


class Seen(NamedTuple):
    """An observation, and what the rules know of the track around it."""

    observation: Observation
    usual_sharpness: float

    @property
    def measures(self) -> CropMeasures:
        """The measures of the crop."""
        return self.observation.measures


class ImageRule(NamedTuple):
    """One threshold of the filter.

    Attributes:
        name: what findings call it; rules that mean the same to people share a name.
        part: what tells rules of one name apart, in a word.
        measure: what is measured, in words, with its unit.
        setting: the field of `FilterSettings` that holds the threshold.
        direction: whether the value must be at least or at most the threshold.
        value: the value; None where it was not measured, and the rule says nothing.
        scale_end: where the scale ends that the band of suspicion is measured on.
        is_exact: whether what is measured is known so well that nothing need be suspected.
    """

    name: str
    part: str
    measure: str
    setting: str
    direction: Literal["at least", "at most"]
    value: Callable[[Seen], float | None]
    scale_end: float = 0.0
    is_exact: bool = False

    def judge(self, seen: Seen, settings: FilterSettings) -> Measurement | None:
        """What the rule says of a crop; None where it has nothing to measure."""
        found = self.value(seen)
        if found is None:
            return None
        value, threshold = rounded(found), float(getattr(settings, self.setting))
        end = threshold if self.is_exact else self.scale_end
        outcome = outcome_of(value, threshold, self.direction, scale_end=end)
        frame = seen.observation.frame
        return Measurement(self.name, self.setting, frame, value, threshold, outcome)


def _image_rules_aspect(seen: Seen) -> float:
    return seen.measures.width_px / max(seen.measures.height_px, 1e-6)


def _relative_sharpness(seen: Seen) -> float:
    return seen.measures.sharpness / seen.usual_sharpness if seen.usual_sharpness else 1.0


IMAGE_RULES = (
    ImageRule(
        "too_small",
        "height",
        "height of the box in the frame, px",
        "least_height_px",
        "at least",
        lambda seen: seen.measures.height_px,
        is_exact=True,
    ),
    ImageRule(
        "too_small",
        "width",
        "width of the box in the frame, px",
        "least_width_px",
        "at least",
        lambda seen: seen.measures.width_px,
        is_exact=True,
    ),
    ImageRule(
        "bad_aspect",
        "narrow",
        "width / height",
        "narrowest_aspect",
        "at least",
        _image_rules_aspect,
    ),
    ImageRule(
        "bad_aspect", "wide", "width / height", "widest_aspect", "at most", _image_rules_aspect
    ),
    ImageRule(
        "truncated",
        "cut off",
        "share of the box outside the frame",
        "most_cut_off",
        "at most",
        lambda seen: seen.measures.cut_off,
    ),
    ImageRule(
        "truncated",
        "border",
        "distance of the box from the frame's border, px",
        "least_border_px",
        "at least",
        lambda seen: seen.measures.border_px,
        is_exact=True,
    ),
    ImageRule(
        "blurred",
        "alone",
        "variance of the Laplacian at 128 px of height",
        "least_sharpness",
        "at least",
        lambda seen: seen.measures.sharpness,
    ),
    ImageRule(
        "blurred",
        "in its track",
        "sharpness as a share of the track's median",
        "least_relative_sharpness",
        "at least",
        _relative_sharpness,
    ),
    ImageRule(
        "too_dark", "", "mean luma", "darkest", "at least", lambda seen: seen.measures.brightness
    ),
    ImageRule(
        "too_bright",
        "",
        "mean luma",
        "brightest",
        "at most",
        lambda seen: seen.measures.brightness,
        scale_end=255.0,
    ),
    ImageRule(
        "flat",
        "",
        "standard deviation of luma",
        "least_contrast",
        "at least",
        lambda seen: seen.measures.contrast,
    ),
    ImageRule(
        "unsure",
        "",
        "the detector's score",
        "least_score",
        "at least",
        lambda seen: seen.observation.score,
    ),
    ImageRule(
        "occluded",
        "",
        "share of the box that another person's box covers",
        "most_overlap",
        "at most",
        lambda seen: seen.measures.overlap,
    ),
    ImageRule(
        "crowded",
        "",
        "other people at least half in the box",
        "most_other_people",
        "at most",
        lambda seen: seen.measures.other_people,
        is_exact=True,
    ),
    ImageRule(
        "few_keypoints",
        "",
        "visible keypoints of the body",
        "least_keypoints",
        "at least",
        lambda seen: seen.measures.keypoints,
    ),
    ImageRule(
        "hidden",
        "person",
        "how sure the pose model is that this is a person",
        "least_person",
        "at least",
        lambda seen: seen.measures.person,
    ),
    ImageRule(
        "hidden",
        "share",
        "share of the crop that is the person",
        "least_person_share",
        "at least",
        lambda seen: seen.measures.person_share,
    ),
)
"""In the order in which they are reported."""
BODY_RULES = ("least_keypoints", "least_person", "least_person_share")
"""The settings of the rules that need a pose model."""


def judge_crops(track: Track, settings: FilterSettings) -> Iterator[Measurement]:
    """What every rule says of every crop of a track, frame by frame.

    What a pose model saw is looked at only where the settings name one.
    """
    rules = [rule for rule in IMAGE_RULES if settings.pose_model or rule.setting not in BODY_RULES]
    usual = median(observation.measures.sharpness for observation in track.observations)
    for observation in track.observations:
        seen = Seen(observation, usual)
        for rule in rules:
            if (found := rule.judge(seen, settings)) is not None:
                yield found


# The rules that look at the images of one person together. Each takes the images that no earlier
# rule has dropped, in the order of time, and judges each of them.


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


# All rules of the noise filter as one table: what docs, explanations and contact sheets show.

_SIGNS: dict[Direction, str] = {"at least": "≥", "at most": "≤", "more than": ">"}


class RuleText(NamedTuple):
    """A threshold in words.

    Attributes:
        name: the rule; it occurs once for each of its thresholds.
        part: what distinguishes those, in a word; empty where there is one.
        measure: what is measured.
        setting: the field of `FilterSettings` that holds the threshold.
        direction: what a good value is to the threshold.
    """

    name: str
    part: str
    measure: str
    setting: str
    direction: Direction

    @property
    def sign(self) -> str:
        """What a good value is to its threshold, as a sign."""
        return _SIGNS[self.direction]

    @property
    def label(self) -> str:
        """The rule, and which of its thresholds this is."""
        return f"{self.name}, {self.part}" if self.part else self.name

    @property
    def is_count(self) -> bool:
        """Whether values are whole numbers."""
        return FilterSettings.model_fields[self.setting].annotation is int

    def threshold(self, settings: FilterSettings) -> float:
        """What values are compared with."""
        return float(getattr(settings, self.setting))


RULES = (
    *(
        RuleText(rule.name, rule.part, rule.measure, rule.setting, rule.direction)
        for rule in IMAGE_RULES
    ),
    *(
        RuleText(rule.name, "", rule.measure, rule.setting, rule.direction)
        for rule in TRACKLET_RULES
    ),
)
"""In the order in which they are asked."""
RULE_NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))


def rules_table(settings: FilterSettings) -> str:
    """The rules as a Markdown table, with their thresholds in `settings`."""
    rows = [
        f"| `{rule.name}` | {rule.measure} | `{rule.setting}` "
        f"| {rule.sign} {rule.threshold(settings):g} |"
        for rule in RULES
    ]
    return "\n".join(("| rule | measured | setting | good |", "|---|---|---|---|", *rows))
