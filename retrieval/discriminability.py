"""Discriminability of captions: dis(t) (ReCoS, section 3.2)."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.embeddings import (
    FloatRows,
    Ids,
    Similarities,
    check_same_space,
    checked_ids,
    checked_shape,
    exact_units,
    unit_rows,
)
from loupe.retrieval.score_matrix import text_cosines
from loupe.retrieval.similarity.products import Neighbours, nearest_units
from loupe.schemas.errors import DegenerateCriterionError, FormatError, UsageError
from loupe.schemas.recos import CaptionVerdict, DiscriminabilitySettings

# dis(t): how evenly a caption fits the images that it could be confused with.


def discriminability(similarities: Similarities, temperature: float) -> Similarities:
    """dis(t) = entropy(softmax(similarities / temperature)), of shape (n,) (ReCoS, section 3.2).

    With the natural logarithm: 0 if one image is by far the nearest, log k if all are equally near.
    It increases with the temperature.

    Args:
        similarities: with the k nearest other images, of shape (n, k), in any order.
        temperature: what they are divided by, above zero.
    """
    below = similarities - similarities.max(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.maximum(below / temperature, -_VANISHED)
        weights = np.exp(scaled)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * scaled).sum(axis=1) / total
    clipped: Similarities = np.clip(entropy, 0.0, np.log(similarities.shape[1]))
    return clipped


_VANISHED = 745.2
"""The exponential of less than minus this is zero in float64."""


# Cosines in float64.
#
# Other similarities are those of float32 rows, which are precise enough to rank. Here they are
# divided by a temperature of, say, a hundredth, so that their last digits are visible in dis(t).

_FLOATS_AT_ONCE = 1 << 21  # 16 MiB of images as float64

Rows = NDArray[np.generic]


def _exact_cosines(texts: Rows, images: Rows, images_at: Ids) -> Similarities:
    """The cosine of each text with the images given for it, of shape (n, k).

    Args:
        texts: floats of shape (n, d), of any length and precision; none is zero.
        images: floats of shape (m, d), alike; only the rows that are named are read.
        images_at: indices of images, of shape (n, k).
    """
    from loupe.retrieval.kernels import fill_similarities

    count, k = images_at.shape
    cosines = np.empty((count, k))
    step = max(1, _FLOATS_AT_ONCE // max(1, k * texts.shape[1]))
    for start in range(0, count, step):
        chosen, where = np.unique(images_at[start : start + step], return_inverse=True)
        left = exact_units(texts[start : start + step], start, "the texts")
        right = exact_units(images[chosen], 0, "the images")
        left_at = np.repeat(np.arange(len(left)), k)
        fill_similarities(
            left, right, left_at, where.ravel(), cosines[start : start + step].reshape(-1)
        )
    return cosines


# The temperature at which dis(t) spreads over its range, calibrated on reference captions.
#
# Cosines of a dual encoder lie within about 0.3 of each other. At temperature 1, as in the paper,
# their softmax is almost uniform, and every dis(t) lies within a few thousandths of log k. The
# spread of similarities depends on the model, so the temperature has to as well.
#
# The calibrated temperature puts the *median* of dis(t) over the reference captions at the middle
# of the range, log(k) / 2, which is the middle of the accepted interval for every η. Half of the
# captions then lie on each side, so a caption can fail both ways, and η alone determines how many
# pass. dis(t) of each caption increases with the temperature, and so does the median, so there is
# exactly one such temperature. The median is robust to a few captions that fit one image only, or
# all alike. The value is rounded to three digits, so that it can be written down and does not
# change with the last bits of an embedding.

_LOWEST, _HIGHEST = 1e-7, 1e4
_STEPS = 60
_DIGITS = 3


def calibrated_temperature(similarities: Similarities) -> float:
    """The temperature at which half of the reference captions are above log(k) / 2.

    Args:
        similarities: of each reference caption with the k images nearest to it, of shape (n, k).

    Raises:
        UsageError: there is no such temperature: the images are equally near to most captions.
    """
    if len(similarities) == 0:
        raise UsageError("a temperature is calibrated on at least one caption; got none")
    middle = math.log(similarities.shape[1]) / 2
    low, high = math.log(_LOWEST), math.log(_HIGHEST)
    if not _median(similarities, low) < middle < _median(similarities, high):
        raise UsageError(
            "the temperature cannot be calibrated: for half of the captions, the nearest "
            f"{similarities.shape[1]:,} images are equally near; wanted images that differ, or a "
            "temperature"
        )
    for _ in range(_STEPS):
        between = (low + high) / 2
        if _median(similarities, between) < middle:
            low = between
        else:
            high = between
    return float(f"{math.exp(high):.{_DIGITS}g}")


def _median(similarities: Similarities, log_temperature: float) -> float:
    return float(np.median(discriminability(similarities, math.exp(log_temperature))))


# When a caption passes, and when the criterion itself is not informative (ReCoS, section 3.2).

_FEWEST_JUDGED = 20
"""Minimum number of captions to judge the criterion; fewer may all pass by chance."""
LEAST_PASSING, MOST_PASSING = 0.01, 0.99
"""If a smaller or larger share of captions passes, the criterion does not distinguish them."""

_BINS = 12
_WIDEST = 40


class AcceptedInterval(NamedTuple):
    """The interval of dis(t) that passes, both ends included: (1 ∓ η) / 2 · log k."""

    lower: float
    upper: float

    @classmethod
    def of(cls, k: int, eta: float) -> "AcceptedInterval":
        """The interval for `k` images.

        A larger `eta` widens it; the paper's prose states the opposite by mistake.
        """
        return cls((1 - eta) / 2 * math.log(k), (1 + eta) / 2 * math.log(k))

    def verdict(self, dis: float) -> CaptionVerdict:
        """The verdict for dis(t): low is over-detailed, high is under-detailed."""
        if dis < self.lower:
            return CaptionVerdict.OVER_DETAILED
        return CaptionVerdict.UNDER_DETAILED if dis > self.upper else CaptionVerdict.PASS


def share_passing(verdicts: Collection[CaptionVerdict]) -> float:
    """The share of captions that pass, in [0, 1]; 0 if there are none."""
    return sum(one is CaptionVerdict.PASS for one in verdicts) / max(1, len(verdicts))


def is_degenerate(verdicts: Collection[CaptionVerdict]) -> bool:
    """Whether under 1 % or over 99 % of at least 20 captions pass.

    Use it for captions as they were first written: after regeneration all are supposed to pass.
    """
    judged = len(verdicts) >= _FEWEST_JUDGED
    return judged and not LEAST_PASSING <= share_passing(verdicts) <= MOST_PASSING


def check_not_degenerate(
    dis: Sequence[float], settings: DiscriminabilitySettings, temperature: float
) -> None:
    """Raises if the criterion does not separate captions, before any is rewritten.

    Args:
        dis: dis(t) of the captions as they were first written.
        settings: the settings of the criterion.
        temperature: the divisor of the similarities.

    Raises:
        DegenerateCriterionError: see `is_degenerate`; its message has the histogram.
    """
    interval = AcceptedInterval.of(settings.k, settings.eta)
    verdicts = [interval.verdict(one) for one in dis]
    if is_degenerate(verdicts):
        raise DegenerateCriterionError(degeneracy_text(dis, settings, temperature))


def degeneracy_text(
    dis: Sequence[float], settings: DiscriminabilitySettings, temperature: float
) -> str:
    """The problem with the criterion and its remedy, then the histogram of `dis`."""
    interval = AcceptedInterval.of(settings.k, settings.eta)
    verdicts = [interval.verdict(one) for one in dis]
    passing = sum(one is CaptionVerdict.PASS for one in verdicts)
    most = max(
        (CaptionVerdict.OVER_DETAILED, CaptionVerdict.UNDER_DETAILED, CaptionVerdict.PASS),
        key=verdicts.count,
    )
    return (
        f"the criterion does not tell captions apart: {passing:,} of {len(dis):,} pass (wanted "
        f"{LEAST_PASSING:.0%} to {MOST_PASSING:.0%}) with k {settings.k}, eta {settings.eta:g} and "
        f"temperature {temperature:g}; {_advice(most, dis, settings)}\n"
        f"{dis_histogram(dis, settings.k, interval)}"
    )


_PROFILE = "in a profile [captioning.discriminability]"
_LEAST_ETA = 0.01
_ADVICE = {
    CaptionVerdict.UNDER_DETAILED: (
        f"similarities lie too close together for this temperature ({_PROFILE}): take a lower one, "
        f"or none, so that it is calibrated"
    ),
    CaptionVerdict.OVER_DETAILED: (
        f"similarities lie too far apart for this temperature ({_PROFILE}): take a higher one, or "
        f"none, so that it is calibrated"
    ),
}


def _advice(most: CaptionVerdict, dis: Sequence[float], settings: DiscriminabilitySettings) -> str:
    """The setting to change; if all pass, the eta with which half would."""
    if most is not CaptionVerdict.PASS:
        return _ADVICE[most]
    middle = math.log(settings.k) / 2
    needed = float(np.median([abs(one - middle) / middle for one in dis]))
    if needed < _LEAST_ETA:
        return (
            f"all are near the middle, so that a smaller eta alone does not help: take a larger k "
            f"({_PROFILE}), which needs as many images, or an embedder that tells more apart"
        )
    return f"take a smaller eta ({_PROFILE}): with {needed:.2g} half of them would pass"


def dis_histogram(dis: Sequence[float], k: int, interval: AcceptedInterval) -> str:
    """A histogram as text: a line for each twelfth of the range from 0 to log k.

    The range of values comes first, because a bar does not show how narrow it is. Bars of values
    that pass are full, others are light; a bar across an end of the interval has both.
    """
    width = math.log(k) / _BINS
    counts: list[dict[bool, int]] = [{True: 0, False: 0} for _ in range(_BINS)]
    for one in dis:
        passes = interval.verdict(one) is CaptionVerdict.PASS
        counts[min(_BINS - 1, int(one / width))][passes] += 1
    highest = max(1, *(sum(count.values()) for count in counts))
    lines = [
        f"  {place * width:6.3f} – {(place + 1) * width:6.3f} {sum(count.values()):>7,} "
        f"{'█' * _bar(count[True], highest)}{'░' * _bar(count[False], highest)}".rstrip()
        for place, count in enumerate(counts)
    ]
    head = (
        f"dis(t) from {min(dis, default=0):.6g} to {max(dis, default=0):.6g}; passes from "
        f"{interval.lower:.6g} to {interval.upper:.6g}, log k is {math.log(k):.6g}"
    )
    return "\n".join([head, *lines])


def _bar(count: int, highest: int) -> int:
    return math.ceil(_WIDEST * count / highest)


# Captions compared with the images that they could be confused with: dis(t), and the verdict.

Names = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CaptionScores:
    """The discriminability of captions.

    Attributes:
        dis: of each caption, of shape (n,), from 0 to log k.
        nearest: the images that it was compared with.
        interval: what passes.
        temperature: what similarities were divided by.
    """

    dis: Similarities
    nearest: Neighbours
    interval: AcceptedInterval
    temperature: float

    @property
    def verdicts(self) -> list[CaptionVerdict]:
        """The verdict on each caption."""
        return [self.interval.verdict(one) for one in self.dis.tolist()]

    @property
    def share_passing(self) -> float:
        """The share, in [0, 1], of captions that pass."""
        return share_passing(self.verdicts)

    @property
    def is_degenerate(self) -> bool:
        """Whether the criterion is degenerate (see `is_degenerate`)."""
        return is_degenerate(self.verdicts)


class CaptionValidator:
    """Scores captions against one set D of candidate images.

    The images are read once. Only the given captions are embedded and compared, for example those
    regenerated in a round; a caption's dis(t) does not depend on other captions.
    """

    def __init__(
        self,
        images: ArrayLike,
        settings: DiscriminabilitySettings,
        *,
        name: str = "the image embeddings",
        several: bool = False,
    ) -> None:
        """Takes D: floats of shape (m, d), called `name` in messages.

        With `several`, an image has several vectors of the texts' length, end to end, of which the
        most similar to a text counts.

        Raises:
            FormatError: the images are no embeddings.
            UsageError: there are not more than k of them.
        """
        self._exact = checked_shape(images, name)
        self._images = unit_rows(self._exact, name)
        self._name = name
        self._settings = settings
        self._several = several
        self._interval = AcceptedInterval.of(settings.k, settings.eta)
        if settings.k > len(self._images) - 1:
            raise UsageError(
                f"k must be below {len(self._images):,}, the number of images in {name}, because a "
                f"caption's own image is left out; got {settings.k:,}"
            )

    def nearest(
        self, texts: ArrayLike, targets: ArrayLike, names: Names = ("the texts", "their targets")
    ) -> Neighbours:
        """S(t) of each text, with its cosines in float64.

        Args:
            texts: floats of shape (n, d), of any length.
            targets: for each text the index of its image, of shape (n,).
            names: what to call both in messages.

        Raises:
            FormatError: an array cannot be used.
        """
        rows = unit_rows(texts, names[0])
        own = self._checked(targets, rows, names[1])
        if self._several:
            return self._nearest_of_several(rows, own)
        check_same_space(rows, self._images, (names[0], self._name))
        found = nearest_units(
            rows,
            self._images,
            self._settings.k,
            apart=(own, np.arange(len(self._images))),
        )
        cosines = _exact_cosines(np.asarray(texts), self._exact, found.places)
        return found._replace(similarities=cosines)

    def _nearest_of_several(self, texts: FloatRows, own: Ids) -> Neighbours:
        k = self._settings.k
        found = Neighbours(np.empty((len(texts), k), np.int64), np.empty((len(texts), k)))
        for at, image in enumerate(own):
            cosines = text_cosines(texts[at : at + 1], self._images)[0]
            cosines[image] = -np.inf
            found.places[at] = np.argsort(-cosines, kind="stable")[:k]
            found.similarities[at] = cosines[found.places[at]]
        return found

    def calibrate(
        self, texts: ArrayLike, targets: ArrayLike, names: Names = ("the texts", "their targets")
    ) -> float:
        """The temperature of the settings, or the one calibrated on these reference captions.

        Raises:
            FormatError: an array cannot be used.
            UsageError: there is no temperature at which dis(t) would differ.
        """
        if self._settings.temperature is not None:
            return self._settings.temperature
        return calibrated_temperature(self.nearest(texts, targets, names).similarities)

    def score(
        self,
        texts: ArrayLike,
        targets: ArrayLike,
        temperature: float | None = None,
        names: Names = ("the texts", "their targets"),
    ) -> CaptionScores:
        """dis(t) of each text at a temperature, above zero.

        Without one, it is that of the settings, or else calibrated on these texts.

        Raises:
            FormatError: an array cannot be used.
            UsageError: there is no temperature at which dis(t) would differ.
        """
        nearest = self.nearest(texts, targets, names)
        found = temperature or self._settings.temperature
        if found is None:
            found = calibrated_temperature(nearest.similarities)
        dis = discriminability(nearest.similarities, found)
        return CaptionScores(dis, nearest, self._interval, found)

    def _checked(self, targets: ArrayLike, texts: FloatRows, name: str) -> Ids:
        ids = checked_ids(targets, len(texts), name)
        outside = np.flatnonzero((ids < 0) | (ids >= len(self._images)))
        if len(outside):
            raise FormatError(
                f"{name} must hold indices from 0 to {len(self._images) - 1:,}, rows of "
                f"{self._name}; got {ids[outside[0]]} at {outside[0]:,} (from 0)"
            )
        return ids


def score_captions(
    texts: ArrayLike,
    images: ArrayLike,
    targets: ArrayLike,
    settings: DiscriminabilitySettings,
    names: tuple[str, str, str] = ("the texts", "the images", "the targets"),
) -> CaptionScores:
    """dis(t) of each text, at the temperature of the settings or, without one, calibrated.

    Args:
        texts: floats of shape (n, d).
        images: D, floats of shape (m, d).
        targets: for each text the index of its image, of shape (n,).
        settings: when a text passes.
        names: what to call the arrays in messages.

    Raises:
        FormatError: an array cannot be used.
        UsageError: k is too large for the images, or no temperature can be calibrated.
    """
    validator = CaptionValidator(images, settings, name=names[1])
    return validator.score(texts, targets, names=(names[0], names[2]))


def load_kernels() -> None:
    """Loads the compiled loops, compiling them if necessary, so that timings exclude it."""
    rows = np.eye(3, dtype=np.float32)
    settings = DiscriminabilitySettings(k=2, temperature=1)
    score_captions(rows, rows, np.arange(3), settings)
