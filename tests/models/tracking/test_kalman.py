"""The filter compared with the recorded one, whose matrices are 8 × 8, and its properties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from loupe.models.tracking.kalman import Motions, corrected, gate_distances, predicted, started
from tests.models.tracking.scenes import units


def full(motions: Motions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means of shape (n, 8) and covariances of shape (n, 8, 8)."""
    value, velocity, variance, covariance, drift = np.moveaxis(motions, 1, 0)
    covariances = np.zeros((len(motions), 8, 8))
    each = np.arange(4)
    covariances[:, each, each] = variance
    covariances[:, each, each + 4] = covariances[:, each + 4, each] = covariance
    covariances[:, each + 4, each + 4] = drift
    return np.concatenate([value, velocity], axis=1), covariances


def test_the_filter_equals_the_recorded_one() -> None:
    recorded = units()
    measurements = recorded["kf_measurements"]
    motions = started(measurements[:1])
    for step, measurement in enumerate(measurements[1:]):
        ahead = predicted(motions)
        for found, name in zip(full(ahead), ("kf_mean_predicted", "kf_cov_predicted"), strict=True):
            np.testing.assert_allclose(found[0], recorded[name][step], rtol=1e-9, atol=1e-12)
        offered = measurement + recorded["kf_gate_offsets"]
        np.testing.assert_allclose(
            gate_distances(ahead, offered)[0], recorded["kf_gate_distance"][step], rtol=1e-9
        )
        motions = corrected(ahead, measurement[None])
        for found, name in zip(full(motions), ("kf_mean_after", "kf_cov_after"), strict=True):
            np.testing.assert_allclose(found[0], recorded[name][step + 1], rtol=1e-9, atol=1e-12)


@given(arrays(np.float64, st.tuples(st.integers(0, 5), st.just(4)), elements=st.floats(1, 900)))
def test_boxes_are_filtered_independently(boxes: NDArray[np.float64]) -> None:
    together = corrected(predicted(started(boxes)), boxes + 1)
    alone = [corrected(predicted(started(box[None])), box[None] + 1) for box in boxes]
    assert np.array_equal(together, np.concatenate([np.empty((0, 5, 4)), *alone]))
