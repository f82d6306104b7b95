"""dis(t) of captions equals plain loops and does not depend on order or block size."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.retrieval.discriminability import CaptionValidator, score_captions
from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.recos import CaptionVerdict, DiscriminabilitySettings
from tests.retrieval.discriminability.literal import dis_of, world

IMAGES = np.eye(6) + 0.1
TEXTS = np.eye(6)[:3] + 0.2
TARGETS = np.array([0, 1, 1])


def settings_of(
    k: int = 3, temperature: float | None = 0.1, eta: float = 0.8
) -> DiscriminabilitySettings:
    return DiscriminabilitySettings(k=k, eta=eta, temperature=temperature)


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 12),
    temperature=st.floats(0.004, 2),
    dtype=st.sampled_from([np.float64, np.float32, np.float16]),
)
@settings(max_examples=12)
def test_dis_equals_plain_loops(
    seed: int, k: int, temperature: float, dtype: type[np.floating]
) -> None:
    texts, images, targets = world(seed, 17, 13, 7)
    texts, images = texts.astype(dtype), images.astype(dtype)
    found = score_captions(texts, images, targets, settings_of(k, temperature))
    literal = dis_of(texts, images, targets, k, temperature)
    assert found.dis == pytest.approx(literal, abs=1e-9)
    lower, upper = 0.1 * math.log(k), 0.9 * math.log(k)
    assert found.interval == pytest.approx((lower, upper))
    wanted = [
        "over_detailed" if one < lower else "under_detailed" if one > upper else "pass"
        for one in literal
    ]
    assert [str(one) for one in found.verdicts] == wanted


@given(seed=st.integers(0, 10_000))
@settings(max_examples=12)
def test_dis_is_independent_of_order_and_other_captions(seed: int) -> None:
    texts, images, targets = world(seed, 40, 30, 12)
    random = np.random.default_rng(seed)
    some, order = random.permutation(40)[:17], random.permutation(30)
    whole = CaptionValidator(images, settings_of()).score(texts, targets, 0.1)
    moved = CaptionValidator(images[order], settings_of())
    place = np.argsort(order)
    again = moved.score(7.0 * texts[some], place[targets[some]], 0.1)
    assert again.dis == pytest.approx(whole.dis[some], abs=1e-12)
    same = CaptionValidator(images, settings_of()).score(texts[some], targets[some], 0.1)
    assert (same.dis == whole.dis[some]).all()


def test_only_the_target_image_is_left_out() -> None:
    images = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = score_captions([[1.0, 0.0]], images, [0], settings_of(2, 0.01))
    assert found.nearest.places.tolist() == [[1, 2]]
    assert found.dis == pytest.approx([0.0])


def test_images_equally_near_give_log_k() -> None:
    images = np.ones((5, 3))
    found = score_captions([[1.0, 0.0, 0.0]], images, [2], settings_of(4, 0.01))
    assert found.dis.tolist() == [math.log(4)]
    assert found.verdicts == [CaptionVerdict.UNDER_DETAILED]
    assert found.nearest.places.tolist() == [[0, 1, 3, 4]]


def test_the_temperature_is_calibrated_by_default() -> None:
    texts, images, targets = world(3, 200, 60, 20)
    asked = settings_of(8, None)
    scores = score_captions(texts, images, targets, asked)
    assert CaptionValidator(images, asked).calibrate(texts, targets) == scores.temperature
    assert CaptionValidator(images, settings_of(8, 0.2)).calibrate(texts, targets) == 0.2
    assert not scores.is_degenerate
    assert score_captions(texts, images, targets, settings_of(8, 1e3)).is_degenerate
    assert scores.share_passing > 0.5


WRONG = {
    "k as many as images": (IMAGES, TEXTS, TARGETS, 6, "k must be below 6"),
    "one dimension": (IMAGES, TEXTS[0], TARGETS, 3, "the texts must have two dimensions"),
    "another space": (IMAGES, TEXTS[:, :4], TARGETS, 3, "rows of one length; got 4 and 6"),
    "no target": (IMAGES, TEXTS, TARGETS[:2], 3, "for each of the 3 rows; got 2"),
    "a target outside": (IMAGES, TEXTS, np.array([0, 6, 1]), 3, "from 0 to 5, .* got 6 at 1"),
    "a target below zero": (IMAGES, TEXTS, np.array([0, 1, -1]), 3, "got -1 at 2"),
    "targets that are no integers": (IMAGES, TEXTS, TARGETS * 1.0, 3, "must hold integers"),
    "a zero text": (IMAGES, TEXTS * [[1.0], [0.0], [1.0]], TARGETS, 3, "the texts: .* row 1"),
    "NaN": (IMAGES * np.nan, TEXTS, TARGETS, 3, "the images: every row must be finite"),
}


def test_invalid_input_is_refused_with_a_message(subtests: pytest.Subtests) -> None:
    for case in WRONG:
        with subtests.test(case=case):
            images, texts, targets, k, part = WRONG[case]
            with pytest.raises((FormatError, UsageError), match=part):
                score_captions(texts, images, targets, settings_of(k))
