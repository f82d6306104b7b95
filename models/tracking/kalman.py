"""The constant-velocity Kalman filter of DeepSORT and FairMOT, for many boxes at once.

A box is measured as x, y (its centre), a (width / height) and h (height). The filter's matrices are
all diagonal in these four. Each therefore has a filter of its own over value and velocity, and no
matrix larger than 2 × 2 is inverted. The published filter over all 8 values is equivalent.

A motion is an array of shape (5, 4), the columns x, y, a and h; its rows are value, velocity,
variance of the value, covariance of value and velocity, and variance of the velocity. A step is one
frame.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Motions = NDArray[np.float64]
"""An array of shape (n, 5, 4), one motion for each of n boxes."""

ROWS = 5
_VALUE, _VELOCITY, _VARIANCE, _COVARIANCE, _DRIFT = range(ROWS)

_STEP = np.array(
    [
        [1, 1, 0, 0, 0],  # the value moves by the velocity
        [0, 1, 0, 0, 0],
        [0, 0, 1, 2, 1],  # F P Fᵀ for F = [[1, 1], [0, 1]]
        [0, 0, 0, 1, 1],
        [0, 0, 0, 0, 1],
    ],
    np.float64,
)


class _Noise(NamedTuple):
    """Variances that are a share of the squared height for x, y and h, and constant for a."""

    by_height: NDArray[np.float64]
    fixed: NDArray[np.float64]

    def at(self, heights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variances for each of the heights."""
        squares = np.square(heights).reshape(-1, *[1] * self.fixed.ndim)
        noise: NDArray[np.float64] = squares * self.by_height
        noise += self.fixed
        return noise


def _value_noise(height_share: float, aspect: float) -> _Noise:
    """Return the noise of values, with a standard deviation relative to the height, and of a."""
    return _Noise(
        by_height=np.square(height_share * np.array([1.0, 1.0, 0.0, 1.0])),
        fixed=np.square(aspect * np.array([0.0, 0.0, 1.0, 0.0])),
    )


def _motion_noise(value: _Noise, velocity: _Noise) -> _Noise:
    """Return the noise of values and velocities, by its row in a motion."""
    noise = _Noise(np.zeros((ROWS, 4)), np.zeros((ROWS, 4)))
    for whole, of_value, of_velocity in zip(noise, value, velocity, strict=True):
        whole[_VARIANCE] = of_value
        whole[_DRIFT] = of_velocity
    return noise


_START = _motion_noise(_value_noise(1 / 10, 1e-2), _value_noise(1 / 16, 1e-5))
_PROCESS = _motion_noise(_value_noise(1 / 20, 1e-2), _value_noise(1 / 160, 1e-5))
_MEASUREMENT = _value_noise(1 / 20, 1e-1)


def started(boxes_xyah: NDArray[np.float64]) -> Motions:
    """Start motions at rest at `boxes_xyah`, of shape (n, 4)."""
    motions = _START.at(boxes_xyah[:, 3])
    motions[:, _VALUE] = boxes_xyah
    return motions


def predicted(motions: Motions) -> Motions:
    """Predict the motions one step ahead."""
    ahead = _PROCESS.at(motions[:, _VALUE, 3])
    ahead += _STEP @ motions
    return ahead


def corrected(motions: Motions, boxes_xyah: NDArray[np.float64]) -> Motions:
    """Correct the motions by measurements, the rows of `boxes_xyah`, of shape (n, 4)."""
    innovations = boxes_xyah - motions[:, _VALUE]
    covariances = motions[:, _VARIANCE : _COVARIANCE + 1]
    gains = covariances / _measured_variances(motions)[:, None]
    after = motions.copy()
    after[:, : _VELOCITY + 1] += gains * innovations[:, None]
    after[:, _VARIANCE : _COVARIANCE + 1] -= gains * motions[:, _VARIANCE, None]
    after[:, _DRIFT] -= gains[:, 1] * motions[:, _COVARIANCE]
    return after


def gate_distances(motions: Motions, boxes_xyah: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squared Mahalanobis distances of measurements from motions, of shape (n, m)."""
    offsets = boxes_xyah - motions[:, None, _VALUE]
    offsets *= offsets
    weights = 1 / _measured_variances(motions)
    distances: NDArray[np.float64] = np.einsum("nmk,nk->nm", offsets, weights)
    return distances


def _measured_variances(motions: Motions) -> NDArray[np.float64]:
    """Return the expected variance of a measurement of each value, of shape (n, 4)."""
    variances = _MEASUREMENT.at(motions[:, _VALUE, 3])
    variances += motions[:, _VARIANCE]
    return variances
