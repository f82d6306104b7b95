"""Checks of confusing captions: two ways on synthetic vectors, their wording, known truths."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loupe.flows.recos.confusion_checks import (
    Background,
    ConfusedPair,
    PairVectors,
    calibrate,
    check_confusions,
    truth_differs,
    word_change,
)
from loupe.schemas.recos import (
    ConfusionCalibration,
    ConfusionFinding,
    ConfusionSettings,
    ConfusionVerdict,
    RenderedTruth,
)
from loupe.schemas.taxonomy import RetrievalTask

DIMENSION, IMAGES, CAPTIONS = 64, 120, 5
SETTINGS = ConfusionSettings()


def unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    length: NDArray[np.float64] = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / length, np.float64)


class World(NamedTuple):
    """Images of D, their captions, and for each a similar image with a confusing caption."""

    images: NDArray[np.float64]
    captions: NDArray[np.float64]
    owners: NDArray[np.int64]
    pairs: PairVectors
    planted: NDArray[np.bool_]


def world(seed: int, noise: float = 0.3, planted_share: float = 0.5) -> World:
    """Return vectors like those of a dual encoder, with a modality gap, hubs, and noise.

    An image consists of its subject, which captions describe, and of the rest, which they do not.
    A similar image shares most of the rest and has another subject, except where a false negative
    is planted: there the subject is the same.
    """
    random = np.random.default_rng(seed)

    def draw(size: int) -> NDArray[np.float64]:
        return unit(random.normal(size=(size, DIMENSION)))

    gap, hub = draw(1), draw(1)
    planted = random.random(IMAGES) < planted_share
    subject, rest = draw(IMAGES), draw(IMAGES)
    other = unit(0.5 * subject + draw(IMAGES))
    other_subject = np.where(planted[:, None], subject, other)
    other_rest = unit(rest + 0.5 * draw(IMAGES))

    def images_of(subject: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        hubness = random.normal(0.3, 0.2, (len(subject), 1))
        return unit(subject + 0.5 * rest + hubness * (hub + gap) + noise * draw(len(subject)))

    def texts_of(subject: NDArray[np.float64]) -> NDArray[np.float64]:
        return unit(subject - 0.5 * gap + 0.2 * hub + noise * draw(len(subject)))

    owners = np.repeat(np.arange(IMAGES), CAPTIONS)
    images, captions = images_of(subject, rest), texts_of(subject[owners])
    firsts = np.arange(IMAGES) * CAPTIONS
    pairs = PairVectors(
        images, captions[firsts], images_of(other_subject, other_rest), texts_of(other_subject)
    )
    return World(images, captions, owners, pairs, planted)


TEXTS = [ConfusedPair("a red car on a street", "a blue car on a street", i) for i in range(IMAGES)]


def verdicts(of: World, settings: ConfusionSettings = SETTINGS) -> NDArray[np.str_]:
    calibration = calibrate(of.images, of.captions, of.owners, settings, "model@1")
    background = Background(of.captions, of.owners)
    checks = check_confusions(TEXTS, of.pairs, background, calibration, settings)
    return np.array([str(check.verdict) for check in checks])


def test_planted_false_negatives_are_flagged_and_most_other_pairs_are_clear() -> None:
    for noise, cleared_share in ((0.1, 0.9), (0.3, 0.9), (0.6, 0.7)):
        worlds = [world(seed, noise) for seed in range(4)]
        found = [(verdicts(one), one.planted) for one in worlds]
        flagged = np.concatenate([verdict[planted] != "clear" for verdict, planted in found])
        cleared = np.concatenate([verdict[~planted] == "clear" for verdict, planted in found])
        assert len(flagged) >= 200, noise
        assert flagged.mean() >= 0.95, noise
        assert cleared.mean() >= cleared_share, noise


def test_hubs_do_not_hide_false_negatives() -> None:
    """With x near to every caption and x′ near to none, raw cosines would miss that t fits x′."""
    one = world(3)
    raw = np.einsum("ij,ij->i", one.pairs.captions, one.pairs.images - one.pairs.similar)
    hidden = one.planted & (raw > 0)
    assert hidden.sum() > 10
    assert (verdicts(one)[hidden] != "clear").mean() >= 0.9


def test_the_usual_margin_is_used_with_too_few_images() -> None:
    one = world(0)
    few = one.owners < 5
    found = calibrate(one.images[:5], one.captions[few], one.owners[few], SETTINGS, "model@1")
    assert (found.calibrated, found.margin) == (False, SETTINGS.usual_margin)
    assert (found.images, found.captions) == (5, 25)


def test_the_margin_is_calibrated_within_groups() -> None:
    """A difference between the mean similarities of two tasks must not widen the margin."""
    one = world(0, noise=0.1)
    groups = np.arange(IMAGES) % 2
    poor = (groups == 1)[one.owners]
    blurred = unit(one.captions + poor[:, None] * world(9).captions)
    apart, together = (
        calibrate(one.images, blurred, one.owners, SETTINGS, "model@1", groups=which).margin
        for which in (groups, None)
    )
    assert 0 < apart < together


@given(st.integers(0, 5))
def test_the_background_is_the_mean_similarity_to_captions_of_other_images(image: int) -> None:
    random = np.random.default_rng(0)
    captions, owners = random.normal(size=(12, 4)), np.repeat(np.arange(6), 2)
    images = random.normal(size=(1, 4))
    found = Background(captions, owners).of(images, np.array([image]))
    wanted = np.mean([images[0] @ captions[j] for j in range(12) if owners[j] != image])
    assert found == pytest.approx([wanted])


def checked(caption: str, confusing: str, advantages: tuple[float, float]) -> Any:
    """Check a pair of vectors with the given advantages and a margin of 0.1."""
    calibration = ConfusionCalibration(
        margin=0.1, calibrated=False, images=1, captions=1, missed_share=0.02, embedder="model@1"
    )
    own, other = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]])
    texts = [
        np.array([[0.5, 0.5 - advantages[0], 0.0]]),
        np.array([[0.5 - advantages[1], 0.5, 0.0]]),
    ]
    background = Background(np.zeros((1, 3)), np.array([0]))
    pair = ConfusedPair(caption, confusing, 0)
    vectors = PairVectors(own, texts[0], other, texts[1])
    (found,) = check_confusions([pair], vectors, background, calibration, SETTINGS)
    return found


def test_verdicts_and_findings_of_a_pair(subtests: pytest.Subtests) -> None:
    cases: list[
        tuple[str, str, tuple[float, float], ConfusionVerdict, tuple[ConfusionFinding, ...]]
    ] = [
        ("a red car", "a blue car", (0.3, 0.3), ConfusionVerdict.CLEAR, ()),
        (
            *("a red car", "a blue car", (0.05, 0.3)),
            ConfusionVerdict.DOUBTFUL,
            (ConfusionFinding.CAPTION_FITS_SIMILAR,),
        ),
        (
            *("a red car", "a blue car", (-0.1, 0.3)),
            ConfusionVerdict.FALSE_NEGATIVE,
            (ConfusionFinding.CAPTION_FITS_SIMILAR,),
        ),
        (
            *("a red car", "a blue car", (0.3, -0.1)),
            ConfusionVerdict.DOUBTFUL,
            (ConfusionFinding.CONFUSING_FITS_IMAGE,),
        ),
        (
            *("a red car", "A red car.", (0.3, 0.3)),
            ConfusionVerdict.DOUBTFUL,
            (ConfusionFinding.SAME_WORDS,),
        ),
        (
            *("a red car", "two dogs play", (0.3, 0.3)),
            ConfusionVerdict.DOUBTFUL,
            (ConfusionFinding.MANY_WORDS_CHANGED,),
        ),
    ]
    for caption, confusing, advantages, verdict, findings in cases:
        with subtests.test(caption=caption, confusing=confusing):
            found = checked(caption, confusing, advantages)
            assert (found.verdict, found.findings) == (verdict, findings)
            measured = (found.caption_advantage, found.confusing_advantage)
            assert measured == pytest.approx(advantages, abs=1e-6)


def test_without_pairs_there_are_no_checks() -> None:
    calibration = calibrate(
        np.eye(3), np.eye(3), np.arange(3), ConfusionSettings(margin=0.1), "model@1"
    )
    nothing = PairVectors(*(np.empty((0, 3)) for _ in range(4)))
    background = Background(np.eye(3), np.arange(3))
    assert check_confusions([], nothing, background, calibration, SETTINGS) == []


texts = st.lists(st.sampled_from(["red", "blue", "car", "a", "3.5"]), max_size=7)


def literal_distance(first: list[str], second: list[str]) -> int:
    @cache
    def rest(i: int, j: int) -> int:
        if i == len(first) or j == len(second):
            return len(first) - i + len(second) - j
        replaced = rest(i + 1, j + 1) + (first[i] != second[j])
        return min(replaced, rest(i + 1, j) + 1, rest(i, j + 1) + 1)

    return rest(0, 0)


@given(texts, texts)
def test_distances_equal_those_of_the_literal_definition(
    first: list[str], second: list[str]
) -> None:
    found = word_change(" ".join(first), " ".join(second))
    assert found == (literal_distance(first, second), max(len(first), len(second)))
    assert 0 <= found.share <= 1


def test_case_and_punctuation_are_no_changes(subtests: pytest.Subtests) -> None:
    cases = [
        ("A red car.", "a RED car", 0),
        ("A red car.", "A green car.", 1),
        ("3 + 4 = 7", "3 - 4 = 7", 1),
        ("the man's hat", "the woman's hat", 1),
        ("3/4", "3/5", 1),
        ("", "", 0),
        ("“Exit” means 出口", "Exit means 入口", 1),
    ]
    for first, second, edits in cases:
        with subtests.test(first=first, second=second, edits=edits):
            assert word_change(first, second).edits == edits


def truth(question: str, answer: str) -> RenderedTruth:
    return RenderedTruth(
        task=RetrievalTask.CALCULATION,
        generator="a test",
        seed=0,
        question=question,
        answer=answer,
        facts=("one", "two", "three"),
    )


def test_a_fact_of_only_one_image_distinguishes_the_images() -> None:
    for caption, known in (
        ("The sum 17 + 25 is written on a blackboard.", True),
        ("A sum in chalk whose result is 42.", True),
        ("A sum in chalk whose result is 142.", False),
        ("A sum in chalk whose result is 42.5.", False),
        ("A sum is written on a blackboard.", False),
    ):
        differs = truth_differs(caption, truth("17 + 25", "42"), truth("9 + 9", "18"))
        assert differs is known, caption


def test_a_fact_of_both_images_does_not_distinguish_them() -> None:
    caption = "A sum whose result is 42."
    assert not truth_differs(caption, truth("17 + 25", "42"), truth("40 + 2", "42"))
    assert truth_differs("17 + 25 = 42", truth("17 + 25", "42"), truth("40 + 2", "42"))


def test_without_ground_truth_images_are_not_distinguished() -> None:
    assert not truth_differs("17 + 25", truth("17 + 25", "42"), None)
    assert not truth_differs("17 + 25", None, truth("17 + 25", "42"))
