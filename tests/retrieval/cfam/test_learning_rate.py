import math

import pytest

from retrieval.cfam.network.training import rate_factor


def test_the_rate_warms_up_linearly_and_decays_by_half_a_cosine() -> None:
    factors = [rate_factor(step, steps=12, warmup_steps=4) for step in range(12)]
    literal = [0.25, 0.5, 0.75, 1.0] + [0.5 + 0.5 * math.cos(math.pi * t / 8) for t in range(8)]
    assert factors == pytest.approx(literal, abs=1e-12)
    assert factors[4] == 1.0
    assert factors[8] == pytest.approx(0.5)


def test_without_warmup_the_first_step_has_the_full_rate() -> None:
    assert rate_factor(0, steps=10, warmup_steps=0) == 1.0
    assert rate_factor(10, steps=10, warmup_steps=0) == pytest.approx(0.0, abs=1e-12)


def test_a_warmup_as_long_as_the_training_never_decays() -> None:
    assert [rate_factor(step, 3, 3) for step in range(3)] == pytest.approx([1 / 3, 2 / 3, 1])
