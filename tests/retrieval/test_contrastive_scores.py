"""Metrics of a contrastive benchmark: plain loops, handmade cases and invariances."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.retrieval.contrastive import (
    BINS,
    CAPTIONS,
    ContrastiveSamples,
    ContrastiveScores,
    ContrastiveSetting,
    contrast_accuracy,
    contrastive_samples,
    overall_accuracy,
    score_contrastive,
)
from loupe.retrieval.embeddings import unit_rows
from loupe.retrieval.logistic import guess_methods
from loupe.schemas.errors import FormatError
from loupe.schemas.evaluation import DIRECTIONS, PairSimilarities
from loupe.schemas.taxonomy import DifferenceType, PrimaryType
from tests.retrieval.contrastive_world import World, contrastive_world, sample
from tests.retrieval.literal import similarity

IsSample = Callable[[int], bool]


def score(world: World) -> ContrastiveScores:
    return score_contrastive(world.images, world.texts, world.samples)


def spreads(scores: ContrastiveScores) -> dict[DifferenceType, PairSimilarities]:
    return {one.difference: one for one in scores.similarity}


def literal_recall(
    world: World, is_query: IsSample, is_candidate: IsSample, depth: int
) -> dict[str, float]:
    """R@k in percent, query by query and candidate by candidate."""
    found: dict[str, list[bool]] = defaultdict(list)
    images, texts = world.units
    count = len(images)
    captions = {i: texts[CAPTIONS * i : CAPTIONS * (i + 1)] for i in range(count)}
    others = [i for i in range(count) if is_candidate(i)]
    for i in filter(is_query, range(count)):
        for caption in captions[i]:
            own = similarity(images[i], caption)
            before = sum(similarity(images[j], caption) >= own for j in others if j != i)
            found["text-to-image"].append(before < depth)
        own = max(similarity(images[i], caption) for caption in captions[i])
        before = sum(
            similarity(images[i], caption) >= own
            for j in others
            if j != i
            for caption in captions[j]
        )
        found["image-to-text"].append(before < depth)
    return {direction: 100 * sum(hits) / len(hits) for direction, hits in found.items()}


def test_recall_equals_plain_loops() -> None:
    world = contrastive_world(0)
    recall = score(world).recall

    def original(sample_at: int) -> bool:
        return world.listed[sample_at]["contrastive_type"] is None

    def every(_: int) -> bool:
        return True

    cases: dict[ContrastiveSetting, tuple[IsSample, IsSample]] = {
        ContrastiveSetting.ORIGINAL_TO_ALL: (original, every),
        ContrastiveSetting.ORIGINAL_TO_ORIGINAL: (original, original),
        ContrastiveSetting.ALL_TO_ALL: (every, every),
    }
    for setting, (is_query, is_candidate) in cases.items():
        for depth in (1, 5):
            literal = literal_recall(world, is_query, is_candidate, depth)
            found = {name: by[setting].percent[depth] for name, by in recall.items()}
            assert found == literal


def literal_accuracy(world: World) -> dict[str, dict[str, list[bool]]]:
    """Each comparison of FG-CDA, by direction and difference type."""
    images, texts = world.units
    counted: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    anchors = {
        one["group"]: i for i, one in enumerate(world.listed) if one["contrastive_type"] is None
    }
    for at, one in enumerate(world.listed):
        kind = one["contrastive_type"]
        if kind is None:
            continue
        anchor = anchors[one["group"]]
        for i, j in ((anchor, at), (at, anchor)):
            for k in range(CAPTIONS):
                mine = texts[CAPTIONS * i + k]
                own = similarity(images[i], mine)
                counted["text-to-image"][kind].append(own > similarity(images[j], mine))
                for other in range(CAPTIONS):
                    theirs = texts[CAPTIONS * j + other]
                    right = own > similarity(images[i], theirs)
                    counted["image-to-text"][kind].append(right)
                    if other == k:
                        counted["k with k"][kind].append(right)
    return counted


def test_accuracy_equals_plain_loops(subtests: pytest.Subtests) -> None:
    for seed in range(3):
        with subtests.test(seed=seed):
            world = contrastive_world(seed)
            literal = literal_accuracy(world)
            accuracy = score(world).accuracy
            k_with_k = accuracy["image-to-text"].k_with_k
            assert k_with_k is not None
            for direction, found in [*accuracy.items(), ("k with k", k_with_k)]:
                for kind in DifferenceType:
                    comparisons = literal[direction][kind]
                    assert found.secondary[kind] == (sum(comparisons), len(comparisons))
                for aspect in PrimaryType:
                    pooled = [
                        c
                        for k in DifferenceType
                        if k.primary is aspect
                        for c in literal[direction][k]
                    ]
                    assert found.primary[aspect] == (sum(pooled), len(pooled))
                every = [c for kind in DifferenceType for c in literal[direction][kind]]
                assert found.overall == (sum(every), len(every))


@given(seed=st.integers(0, 10_000))
@settings(max_examples=6)
def test_scores_do_not_depend_on_sample_order(seed: int) -> None:
    world = contrastive_world(seed, groups=12, dimension=40)
    order = np.random.default_rng(seed + 1).permutation(len(world.images))
    here = score(world)
    there = score(world.reordered(order))
    assert here.recall == there.recall
    assert here.similarity == there.similarity
    for direction, found in here.accuracy.items():
        other = there.accuracy[direction]
        assert (found.secondary, found.primary) == (other.secondary, other.primary)
        assert found.overall == other.overall


def unit(angle: float) -> list[float]:
    """Unit vector at an angle in degrees."""
    return [float(np.cos(np.radians(angle))), float(np.sin(np.radians(angle)))]


def by_angles(images: list[float], texts: list[float], listed: list[dict[str, str]]) -> World:
    rows = [np.array([unit(a) for a in angles], dtype=np.float32) for angles in (images, texts)]
    return World(rows[0], rows[1], listed)


PAIR = [sample("a", "a"), sample("b", "a", "Entity Type")]


def test_a_pair_with_well_placed_captions_has_full_accuracy() -> None:
    world = by_angles([0, 60], [-2, -1, 0, 1, 2, 58, 59, 60, 61, 62], PAIR)
    scores = score(world)
    for found in scores.accuracy.values():
        assert found.secondary[DifferenceType.ENTITY_TYPE].accuracy == 100
        assert found.primary[PrimaryType.ENTITY].error == 0
    assert scores.accuracy["text-to-image"].overall == (10, 10)
    assert scores.accuracy["image-to-text"].overall == (50, 50)
    spread = spreads(scores)[DifferenceType.ENTITY_TYPE]
    assert spread.pairs == 1
    assert spread.mean == pytest.approx(0.5)
    assert dict(spread.quantiles)[0.5] == spread.mean
    assert spread.histogram[BINS * 3 // 4 - 1] + spread.histogram[BINS * 3 // 4] == 1


def test_one_misplaced_caption_lowers_accuracy_by_definition() -> None:
    """Caption 0 of image a lies at image b: one of 10 text-to-image comparisons is wrong."""
    world = by_angles([0, 60], [60, -1, 0, 1, 2, 58, 59, 61, 61, 62], PAIR)
    accuracy = score(world).accuracy
    assert accuracy["text-to-image"].overall == (9, 10)
    # For image a, the caption at 60° loses to those at 58° and 59°: two of 25 wrong. For image b,
    # the same caption, at 0° from b, beats all five of b's own.
    assert accuracy["image-to-text"].overall == (25 - 2 + 20, 50)


def test_ties_are_errors() -> None:
    world = by_angles([0, 0], [0] * 10, PAIR)
    scores = score(world)
    assert scores.accuracy["text-to-image"].overall == (0, 10)
    assert scores.accuracy["image-to-text"].overall == (0, 50)
    for direction in scores.recall.values():
        assert direction[ContrastiveSetting.ORIGINAL_TO_ALL].percent[1] == 0
        assert direction[ContrastiveSetting.ORIGINAL_TO_ORIGINAL].percent[1] == 100


def test_a_group_without_contrastive_images_has_recall_but_no_accuracy() -> None:
    world = by_angles([0], [0, 1, 2, 3, 4], [sample("a", "a")])
    scores = score(world)
    assert scores.recall["image-to-text"][ContrastiveSetting.ALL_TO_ALL].percent[1] == 100
    for found in scores.accuracy.values():
        assert found.overall == (0, 0)
        assert (found.overall.accuracy, found.overall.error) == (None, None)
    spread = spreads(scores)[DifferenceType.STYLE]
    assert (spread.pairs, spread.mean, spread.quantiles) == (0, None, ())


def test_rows_that_do_not_match_the_samples_are_refused() -> None:
    samples = contrastive_samples(PAIR, "samples.json")
    for images, texts, message in (
        (3, 10, r"the image embeddings must have 2 rows, one for each sample; got 3"),
        (2, 9, r"the text embeddings must have 10 rows, 5 for each sample; got 9"),
    ):
        with pytest.raises(FormatError, match=message):
            score_contrastive(np.ones((images, 2)), np.ones((texts, 2)), samples)


def pairs_of_random_types(groups: int) -> ContrastiveSamples:
    """Groups of an anchor, an image that was found, and one that was edited."""
    at = np.arange(3 * groups)
    kinds, methods = [*DifferenceType], (None, "search", "edit")
    return ContrastiveSamples(
        tuple(map(str, at)),
        at - at % 3,
        tuple(kinds[i % len(kinds)] if i % 3 else None for i in at),
        methods=tuple(methods[i % 3] for i in at),
    )


def test_random_vectors_score_50_within_the_interval() -> None:
    samples = pairs_of_random_types(25)
    within = dict.fromkeys(DIRECTIONS, 0)
    for seed in range(10):
        chance = np.random.default_rng(seed)
        images, texts = (
            unit_rows(chance.normal(size=(rows, 24)), "rows") for rows in (75, 75 * CAPTIONS)
        )
        for direction, accuracy in contrast_accuracy(images, texts, samples).items():
            score = overall_accuracy(accuracy, samples)["FG-CDA"]
            assert score.low is not None
            assert score.high is not None
            assert 0 < score.high - score.low < 20
            within[direction] += score.low <= 50 <= score.high
    assert min(within.values()) >= 8  # of ten intervals with a coverage of 95 %


def test_traces_of_an_editor_raise_the_prediction_of_the_method() -> None:
    samples = pairs_of_random_types(25)
    images = np.random.default_rng(3).normal(size=(75, 24))
    plain = guess_methods(images, samples)
    images[:, 0] += 9.0 * np.array([method == "edit" for method in samples.methods])
    marked = guess_methods(images, samples)
    assert plain is not None
    assert marked is not None
    assert plain.low < 60 < 75 < marked.low
    assert marked.of_anchors == plain.of_anchors
    assert (marked.images, marked.most_frequent) == (50, 50.0)
