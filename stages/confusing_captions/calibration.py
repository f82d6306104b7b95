"""How much nearer a caption must be to its own image before another one surely does not fit it.

Cosines of captions and images that belong together differ: images are near to all captions or far
from all, and captions likewise. So of each cosine the image's usual similarity to captions that are
not its own is taken off, and in the calibration the caption's to images that are not its own, too.
What is left says how well the two fit, and over D it is known how that spreads where they do fit.
If t fitted x′ as it fits x, the difference of both would be that of two draws from this spread. The
margin is what only `missed_share` of such differences exceed. Captions differ in how well they fit
more than images do to one caption, so the margin is rather too wide than too narrow: it sends more
to people than it must, and overlooks less than it may.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.confusion import ConfusionCalibration, ConfusionSettings

Vectors = NDArray[Any]
"""Embeddings of unit length, of shape (n, d)."""
Owners = NDArray[np.int64]
"""For each caption the row of its image, of shape (m,)."""

_MOST_CAPTIONS = 2000
_DECIMALS = 6


class Background:
    """How near images are to captions that are not theirs."""

    def __init__(self, captions: Vectors, owners: Owners) -> None:
        self._captions = np.asarray(captions, np.float64)
        self._owners = owners
        self._sum = self._captions.sum(axis=0)

    def of(self, images: Vectors, left_out: NDArray[np.int64]) -> NDArray[np.float64]:
        """The mean cosine of each of `images` (k, d) to all captions of D but those of an image.

        Args:
            images: embeddings of any images.
            left_out: for each the row of D whose captions do not count, of shape (k,).
        """
        rows = np.asarray(images, np.float64)
        found = np.zeros(len(rows))
        for at, image in enumerate(left_out):
            own = self._captions[self._owners == image]
            others = len(self._captions) - len(own)
            if others:
                found[at] = float(rows[at] @ (self._sum - own.sum(axis=0))) / others
        return found


def calibrate(
    images: Vectors,
    captions: Vectors,
    owners: Owners,
    settings: ConfusionSettings,
    embedder: str,
    *,
    groups: NDArray[np.int64] | None = None,
) -> ConfusionCalibration:
    """The margin for an embedder, from the images of D and their captions.

    Args:
        images: of shape (n, d).
        captions: of shape (m, d).
        owners: for each caption the row of its image.
        settings: a given margin, or what to calibrate it for.
        embedder: what made the vectors, as `name@revision`.
        groups: a number for each image (its task): only captions of one group are compared, as
            those of different tasks fit their images differently well.
    """
    described = np.unique(owners)
    calibrated = settings.margin is None and len(described) >= settings.least_images
    if settings.margin is not None:
        margin = settings.margin
    elif calibrated:
        margin = _margin(images, captions, owners, settings.missed_share, groups)
    else:
        margin = settings.usual_margin
    return ConfusionCalibration(
        margin=round(margin, _DECIMALS),
        calibrated=calibrated,
        images=len(described),
        captions=len(owners),
        missed_share=settings.missed_share,
        embedder=embedder,
    )


def _margin(
    images: Vectors,
    captions: Vectors,
    owners: Owners,
    missed_share: float,
    groups: NDArray[np.int64] | None,
) -> float:
    fits = _fits(images, captions, owners)
    chosen = np.unique(np.linspace(0, len(fits) - 1, _MOST_CAPTIONS).astype(np.int64))
    of_group = np.zeros(len(images), np.int64) if groups is None else groups
    differences = []
    for group in np.unique(of_group):
        here = chosen[of_group[owners[chosen]] == group]
        apart = owners[here, None] != owners[None, here]
        differences.append((fits[here, None] - fits[None, here])[apart])
    everything = np.concatenate(differences)
    if not everything.size:
        return _margin(images, captions, owners, missed_share, None)
    return max(0.0, float(np.quantile(everything, 1 - missed_share)))


def _fits(images: Vectors, captions: Vectors, owners: Owners) -> NDArray[np.float64]:
    """How much nearer each caption is to its image than usual for both, of shape (m,)."""
    rows = np.asarray(images, np.float64)
    usual = Background(captions, owners).of(rows, np.arange(len(rows)))
    above = np.asarray(captions, np.float64) @ rows.T - usual
    own = above[np.arange(len(owners)), owners]
    others: NDArray[np.float64] = (above.sum(axis=1) - own) / max(1, len(rows) - 1)
    return own - others
