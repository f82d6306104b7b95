"""Captions held against the images that they could be mistaken for: dis(t), and the verdict."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from retrieval.discriminability.calibration import calibrated_temperature
from retrieval.discriminability.cosines import exact_cosines
from retrieval.discriminability.entropy import discriminability
from retrieval.discriminability.nearest_others import NearestOthers, TextTiling, nearest_others
from retrieval.embeddings import (
    FloatRows,
    Ids,
    check_same_space,
    checked_ids,
    checked_shape,
    unit_rows,
)
from retrieval.similarity import Similarities
from schemas.discriminability import AcceptedInterval, is_degenerate, share_passing
from schemas.errors import FormatError, UsageError
from schemas.recos import CaptionVerdict, DiscriminabilitySettings

Names = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CaptionScores:
    """How well captions tell their images from the others.

    Attributes:
        dis: of each caption, of shape (n,), from 0 to log k.
        nearest: the images that it was held against.
        interval: what passes.
        temperature: what similarities were divided by.
    """

    dis: Similarities
    nearest: NearestOthers
    interval: AcceptedInterval
    temperature: float

    @property
    def verdicts(self) -> list[CaptionVerdict]:
        """What dis(t) says of each caption."""
        return [self.interval.verdict(one) for one in self.dis.tolist()]

    @property
    def share_passing(self) -> float:
        """The share, in [0, 1], of captions that pass."""
        return share_passing(self.verdicts)

    @property
    def is_degenerate(self) -> bool:
        """Whether the criterion says nothing (see `schemas.discriminability`)."""
        return is_degenerate(self.verdicts)


class CaptionValidator:
    """Holds captions, as many and as often as wanted, against one set D of candidate images.

    The images are read once. Only the captions that are given are embedded and compared, so after a
    round of regeneration that is what changed; a caption's dis(t) depends on no other caption.
    """

    def __init__(
        self,
        images: ArrayLike,
        settings: DiscriminabilitySettings,
        *,
        name: str = "the image embeddings",
        tiling: TextTiling | None = None,
    ) -> None:
        """Takes D: floats of shape (m, d), called `name` in messages.

        Raises:
            FormatError: the images are no embeddings.
            UsageError: there are not more than k of them.
        """
        self._exact = checked_shape(images, name)
        self._images = unit_rows(self._exact, name)
        self._name = name
        self._settings = settings
        self._interval = AcceptedInterval.of(settings.k, settings.eta)
        self._tiling = tiling
        if settings.k > len(self._images) - 1:
            raise UsageError(
                f"k must be below {len(self._images):,}, the number of images in {name}, because a "
                f"caption's own image is left out; got {settings.k:,}"
            )

    @property
    def interval(self) -> AcceptedInterval:
        """The dis(t) that pass."""
        return self._interval

    def nearest(
        self, texts: ArrayLike, targets: ArrayLike, names: Names = ("the texts", "their targets")
    ) -> NearestOthers:
        """S(t) of each text, with its cosines in float64.

        Args:
            texts: floats of shape (n, d), of any length.
            targets: for each text the index of its image, of shape (n,).
            names: what to call both in messages.

        Raises:
            FormatError: an array cannot be used.
        """
        rows = unit_rows(texts, names[0])
        check_same_space(rows, self._images, (names[0], self._name))
        own = self._checked(targets, rows, names[1])
        found = nearest_others(rows, self._images, own, self._settings.k, self._tiling)
        cosines = exact_cosines(np.asarray(texts), self._exact, found.images)
        return found._replace(similarities=cosines)

    def calibrate(
        self, texts: ArrayLike, targets: ArrayLike, names: Names = ("the texts", "their targets")
    ) -> float:
        """The temperature of the settings, or the one that these reference captions ask for.

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
        temperature: float,
        names: Names = ("the texts", "their targets"),
    ) -> CaptionScores:
        """dis(t) of each text at a temperature, above zero.

        Raises:
            FormatError: an array cannot be used.
        """
        return self._scored(self.nearest(texts, targets, names), temperature)

    def score_calibrated(
        self, texts: ArrayLike, targets: ArrayLike, names: Names = ("the texts", "their targets")
    ) -> CaptionScores:
        """dis(t) of each text at the temperature of the settings, or that these texts ask for.

        Raises:
            FormatError: an array cannot be used.
            UsageError: there is no temperature at which dis(t) would differ.
        """
        nearest = self.nearest(texts, targets, names)
        given = self._settings.temperature
        found = calibrated_temperature(nearest.similarities) if given is None else given
        return self._scored(nearest, found)

    def _scored(self, nearest: NearestOthers, temperature: float) -> CaptionScores:
        dis = discriminability(nearest.similarities, temperature)
        return CaptionScores(dis, nearest, self._interval, temperature)

    def _checked(self, targets: ArrayLike, texts: FloatRows, name: str) -> Ids:
        ids = checked_ids(targets, len(texts), name)
        outside = np.flatnonzero((ids < 0) | (ids >= len(self._images)))
        if len(outside):
            raise FormatError(
                f"{name} must hold indices from 0 to {len(self._images) - 1:,}, rows of "
                f"{self._name}; got {ids[outside[0]]} at {outside[0]:,} (from 0)"
            )
        return ids


@dataclass(frozen=True, slots=True)
class TimedScores:
    """Scores, and the seconds of computing them."""

    scores: CaptionScores
    seconds: float


def score_captions(
    texts: ArrayLike,
    images: ArrayLike,
    targets: ArrayLike,
    settings: DiscriminabilitySettings,
    names: tuple[str, str, str] = ("the texts", "the images", "the targets"),
) -> TimedScores:
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
    started = perf_counter()
    validator = CaptionValidator(images, settings, name=names[1])
    scores = validator.score_calibrated(texts, targets, (names[0], names[2]))
    return TimedScores(scores, perf_counter() - started)
