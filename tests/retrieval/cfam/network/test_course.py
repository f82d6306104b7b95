import math
from pathlib import Path

import pytest

from loupe.retrieval.cfam.network.pairs import Shard
from loupe.retrieval.cfam.network.training import course_of, rate_factor
from loupe.retrieval.cfam.training_data import TrainingPair
from loupe.schemas.cfam import CfamSchedule, CfamTraining
from loupe.schemas.errors import UsageError

PAIRS = [TrainingPair(Path(f"{number}.jpg"), "a man", number, number) for number in range(50)]


def settings(**schedule: int) -> CfamTraining:
    return CfamTraining(schedule=CfamSchedule(**schedule))


def test_steps_count_accumulated_batches() -> None:
    course = course_of(PAIRS, settings(epochs=4, warmup_epochs=1, batch_pairs=8, accumulate=2))
    assert (course.steps_per_epoch, course.steps, course.pairs_per_step) == (3, 12, 16)
    assert [course.epoch_of(step) for step in range(12)] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert [step for step in range(12) if course.ends_epoch(step)] == [2, 5, 8, 11]
    assert [course.rate_factor(step) for step in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])


def test_resuming_after_a_step_yields_the_remaining_batches() -> None:
    course = course_of(PAIRS, settings(epochs=2, batch_pairs=8, accumulate=2))
    whole = list(course.batches_from(0, Shard()))
    assert len(whole) == course.steps * 2
    for step in range(course.steps + 1):
        assert list(course.batches_from(step, Shard())) == whole[2 * step :]


def test_each_step_and_process_has_its_own_seed() -> None:
    course = course_of(PAIRS, settings(epochs=2, batch_pairs=8))
    seeds = {course.seed_of(step, process) for step in range(12) for process in range(4)}
    assert len(seeds) == 48


def test_too_few_pairs_for_one_step_are_refused() -> None:
    with pytest.raises(UsageError, match="6 batches, fewer than one step accumulates"):
        course_of(PAIRS, settings(batch_pairs=8, accumulate=7))


def test_the_rate_warms_up_linearly_and_decays_by_half_a_cosine() -> None:
    factors = [rate_factor(step, steps=12, warmup_steps=4) for step in range(12)]
    literal = [0.25, 0.5, 0.75, 1.0] + [0.5 + 0.5 * math.cos(math.pi * t / 8) for t in range(8)]
    assert factors == pytest.approx(literal, abs=1e-12)
    assert factors[4] == 1.0
    assert factors[8] == pytest.approx(0.5)


def test_without_warmup_the_first_step_has_the_full_rate() -> None:
    assert rate_factor(0, steps=10, warmup_steps=0) == 1.0
    assert rate_factor(10, steps=10, warmup_steps=0) == pytest.approx(0.0, abs=1e-12)
