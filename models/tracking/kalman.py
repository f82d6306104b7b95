"""The constant-velocity Kalman filter of DeepSORT and FairMOT, for many boxes at once.

A box is measured as x, y (its centre), a (width / height) and h (height). The filter's matrices are
all diagonal in these four, so each keeps a filter of its own over value and velocity, and nothing
larger than 2 × 2 is ever multiplied or inverted. The published filter over 8 values is the same.

A motion is an array of shape (5, 4), the columns x, y, a and h; its rows are value, velocity,
variance of the value, covariance of value and velocity, and variance of the velocity. A step is one
frame.
"""

import numpy as np
from numpy.typing import NDArray

Motions = NDArray[np.float64]
"""An array of shape (n, 5, 4), one motion for each of n boxes."""

ROWS = 5

_BY_HEIGHT = np.array([1.0, 1.0, 0.0, 1.0])  # deviations of x, y and h are shares of the height,
_FIXED = 1.0 - _BY_HEIGHT  # that of a is a number


def started(boxes_xyah: NDArray[np.float64]) -> Motions:
    """Motions that begin at rest at `boxes_xyah`, of shape (n, 4)."""
    heights = boxes_xyah[:, 3]
    motions = np.zeros((len(boxes_xyah), ROWS, 4))
    motions[:, 0] = boxes_xyah
    motions[:, 2] = _variances(heights, 1 / 10, 1e-2)
    motions[:, 4] = _variances(heights, 1 / 16, 1e-5)
    return motions


def predicted(motions: Motions) -> Motions:
    """The motions one step on."""
    value, velocity, variance, covariance, drift = np.moveaxis(motions, 1, 0)
    ahead = np.empty_like(motions)
    ahead[:, 0] = value + velocity
    ahead[:, 1] = velocity
    ahead[:, 2] = variance + 2 * covariance + drift + _variances(value[:, 3], 1 / 20, 1e-2)
    ahead[:, 3] = covariance + drift
    ahead[:, 4] = drift + _variances(value[:, 3], 1 / 160, 1e-5)
    return ahead


def corrected(motions: Motions, boxes_xyah: NDArray[np.float64]) -> Motions:
    """The motions after each was measured at its row of `boxes_xyah`, of shape (n, 4)."""
    innovation = boxes_xyah - motions[:, 0]
    covariances = motions[:, 2:4]
    gains = covariances / measured_variances(motions)[:, None]
    after = motions.copy()
    after[:, 0:2] += gains * innovation[:, None]
    after[:, 2:4] -= gains * motions[:, 2, None]
    after[:, 4] -= gains[:, 1] * motions[:, 3]
    return after


def gate_distances(motions: Motions, boxes_xyah: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared Mahalanobis distances of measurements from motions, of shape (n, m)."""
    offsets = boxes_xyah[None] - motions[:, None, 0]
    offsets *= offsets
    distances: NDArray[np.float64] = np.einsum(
        "nmk,nk->nm", offsets, 1 / measured_variances(motions)
    )
    return distances


def measured_variances(motions: Motions) -> NDArray[np.float64]:
    """How far a measurement is expected to vary about each value, of shape (n, 4)."""
    variances = _variances(motions[:, 0, 3], 1 / 20, 1e-1)
    variances += motions[:, 2]
    return variances


def _variances(
    heights: NDArray[np.float64], share: float, aspect_deviation: float
) -> NDArray[np.float64]:
    """The squares of `share` of the heights for x, y and h, and of `aspect_deviation` for a."""
    variances: NDArray[np.float64] = np.square(share * heights)[:, None] * _BY_HEIGHT
    variances += aspect_deviation**2 * _FIXED
    return variances
