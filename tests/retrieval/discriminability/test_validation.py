"""dis(t) of captions equals plain loops and does not depend on order or block size."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.discriminability import CaptionValidator, TextTiling, nearest_others, score_captions
from retrieval.embeddings import unit_rows
from schemas.errors import FormatError, UsageError
from schemas.recos import CaptionVerdict, DiscriminabilitySettings
from tests.retrieval.discriminability.literal import dis_of, world
from tests.retrieval.literal import similarity, tied_rows

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
@settings(max_examples=40, deadline=None)
def test_dis_equals_plain_loops(
    seed: int, k: int, temperature: float, dtype: type[np.floating]
) -> None:
    texts, images, targets = world(seed, 17, 13, 7)
    texts, images = texts.astype(dtype), images.astype(dtype)
    found = score_captions(texts, images, targets, settings_of(k, temperature)).scores
    literal = dis_of(texts, images, targets, k, temperature)
    assert found.dis == pytest.approx(literal, abs=1e-9)
    lower, upper = 0.1 * math.log(k), 0.9 * math.log(k)
    assert found.interval == pytest.approx((lower, upper))
    wanted = [
        "over_detailed" if one < lower else "under_detailed" if one > upper else "pass"
        for one in literal
    ]
    assert [str(one) for one in found.verdicts] == wanted


@given(seed=st.integers(0, 10_000), k=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_nearest_images_are_exact_and_ties_go_to_the_first(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    texts, images = tied_rows(random, 12, 9, kinds=4), tied_rows(random, 30, 9, kinds=5)
    targets = random.integers(30, size=12)
    found = nearest_others(texts, images, targets, k, TextTiling(texts=5, images=7, workers=2))
    for row, text in enumerate(texts):
        alike = [similarity(text, image) for image in images]
        others = [at for at in range(30) if at != targets[row]]
        # equal rows have equal similarities; literal sums of other rows differ in their last bits
        kept = found.images[row].tolist()
        assert len(set(kept)) == k
        assert targets[row] not in kept
        wanted = sorted((alike[at] for at in others), reverse=True)[:k]
        assert [alike[at] for at in kept] == pytest.approx(wanted, abs=1e-15)
        for at, image in enumerate(kept):
            rest = [other for other in others if (images[other] == images[image]).all()]
            taken = [other for other in rest if other in kept[: at + 1]]
            assert taken == rest[: len(taken)]


@given(
    seed=st.integers(0, 10_000),
    texts=st.integers(1, 90),
    images=st.integers(1, 60),
    workers=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_the_block_size_does_not_matter(seed: int, texts: int, images: int, workers: int) -> None:
    rows, candidates, targets = world(seed, 80, 50, 33)
    unit_texts, unit_images = unit_rows(rows, "texts"), unit_rows(candidates, "images")
    whole = nearest_others(unit_texts, unit_images, targets, 9)
    cut = TextTiling(texts, images, workers)
    tiled = nearest_others(unit_texts, unit_images, targets, 9, cut)
    assert (tiled.images == whole.images).all()
    assert (tiled.similarities == whole.similarities).all()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
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


@given(seed=st.integers(0, 10_000), narrow=st.floats(0.01, 0.98), more=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_captions_that_pass_also_pass_with_a_larger_eta(
    seed: int, narrow: float, more: float
) -> None:
    texts, images, targets = world(seed, 30, 20, 8)
    wide = min(0.99, narrow + more)
    of = [
        score_captions(texts, images, targets, settings_of(5, 0.08, eta)).scores.verdicts
        for eta in (narrow, wide)
    ]
    passing = [{at for at, one in enumerate(found) if one is CaptionVerdict.PASS} for found in of]
    assert passing[0] <= passing[1]


def test_only_the_target_image_is_left_out() -> None:
    images = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = score_captions([[1.0, 0.0]], images, [0], settings_of(2, 0.01)).scores
    assert found.nearest.images.tolist() == [[1, 2]]
    assert found.dis == pytest.approx([0.0])


def test_images_equally_near_give_log_k() -> None:
    images = np.ones((5, 3))
    found = score_captions([[1.0, 0.0, 0.0]], images, [2], settings_of(4, 0.01)).scores
    assert found.dis.tolist() == [math.log(4)]
    assert found.verdicts == [CaptionVerdict.UNDER_DETAILED]
    assert found.nearest.images.tolist() == [[0, 1, 3, 4]]


def test_the_temperature_is_calibrated_by_default() -> None:
    texts, images, targets = world(3, 200, 60, 20)
    asked = settings_of(8, None)
    scores = score_captions(texts, images, targets, asked).scores
    assert CaptionValidator(images, asked).calibrate(texts, targets) == scores.temperature
    assert CaptionValidator(images, settings_of(8, 0.2)).calibrate(texts, targets) == 0.2
    assert not scores.is_degenerate
    assert score_captions(texts, images, targets, settings_of(8, 1e3)).scores.is_degenerate
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


def test_more_neighbours_than_other_images_are_refused() -> None:
    rows = unit_rows(IMAGES, "images")
    with pytest.raises(UsageError, match=r"at most 5, .* got 6"):
        nearest_others(rows, rows, np.arange(6), 6)
    assert nearest_others(rows[:0], rows, np.arange(0), 5).images.shape == (0, 5)
