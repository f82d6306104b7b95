"""dis(t) of similarities and the calibration of its temperature."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from loupe.retrieval.discriminability import calibrated_temperature, discriminability
from loupe.schemas.errors import UsageError
from tests.retrieval.discriminability.literal import dis

similarities = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(2, 9)), elements=st.floats(-1, 1)
)


@given(similarities, st.floats(1e-300, 1e300))
def test_dis_lies_between_zero_and_log_k(rows: np.ndarray, temperature: float) -> None:
    found = discriminability(rows, temperature)
    assert found.min() >= 0
    assert found.max() <= np.log(rows.shape[1])


@given(similarities, st.floats(0.001, 10))
def test_dis_is_the_entropy_of_the_softmax(rows: np.ndarray, temperature: float) -> None:
    literal = [dis(row, temperature) for row in rows.tolist()]
    assert discriminability(rows, temperature) == pytest.approx(literal, abs=1e-12)


def test_calibration_puts_the_median_at_half_of_log_k() -> None:
    scale, k = 0.02, 50
    random = np.random.default_rng(k)
    rows = 0.3 + scale * random.standard_normal((301, k)) * random.uniform(0.2, 3, (301, 1))
    temperature = calibrated_temperature(rows)
    median = np.median(discriminability(rows, temperature))
    assert median == pytest.approx(math.log(k) / 2, rel=0.01)
    assert temperature == float(f"{temperature:.3g}")
    assert calibrated_temperature(rows[::-1] + 0.1) == temperature


def test_uniform_and_one_hot_captions_hardly_change_the_temperature() -> None:
    random = np.random.default_rng(1)
    rows = 0.1 * random.standard_normal((200, 10))
    one_image = np.eye(1, 10).repeat(10, axis=0)
    strange = np.concatenate([rows, np.zeros((10, 10)), 0.99 * one_image])
    assert calibrated_temperature(strange) == pytest.approx(calibrated_temperature(rows), rel=0.05)


def test_calibration_without_a_solution_is_refused() -> None:
    with pytest.raises(UsageError, match="equally near"):
        calibrated_temperature(np.ones((30, 4)))
    with pytest.raises(UsageError, match="at least one caption"):
        calibrated_temperature(np.ones((0, 4)))
