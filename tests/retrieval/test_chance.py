"""Formulas of chance scores compared with all orders of small galleries."""

from collections.abc import Sequence
from itertools import permutations
from statistics import mean

import pytest

from loupe.retrieval.evaluation import chance_scores


def literal(matches: Sequence[int], gallery: int) -> dict[str, float]:
    """Chance scores as means over all orders of the gallery."""
    first, precision, penalty = [], [], []
    for n in matches:
        for order in permutations(range(gallery)):
            ranks = sorted(order.index(one) + 1 for one in range(n))
            first.append(ranks[0])
            precision.append(mean((k + 1) / rank for k, rank in enumerate(ranks)))
            penalty.append(n / ranks[-1])
    scores = {f"R@{k}": 100 * mean(rank <= k for rank in first) for k in (1, 5, 10)}
    scores["mAP"], scores["mINP"] = 100 * mean(precision), 100 * mean(penalty)
    halves = [k for k in range(1, gallery + 1) if 2 * sum(r <= k for r in first) >= len(first)]
    return {**scores, "median_rank": halves[0]}


def test_chance_equals_the_mean_over_all_orders(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[int], int]] = [
        ([1], 1),
        ([1], 2),
        ([2], 2),
        ([1, 1, 1], 6),
        ([3, 1], 6),
        ([2, 4, 6], 6),
        ([5], 7),
    ]
    for matches, gallery in cases:
        with subtests.test(gallery=gallery):
            assert chance_scores(matches, gallery) == pytest.approx(literal(matches, gallery))


def test_queries_without_a_match_are_left_out() -> None:
    assert chance_scores([0, 2, 0], 9) == chance_scores([2], 9)
    assert chance_scores([0], 9) == {}


def test_chance_is_computed_for_the_size_of_ufine3c() -> None:
    scores = chance_scores([3, 4] * 18_000, 7446)
    assert scores["R@1"] == pytest.approx(100 * 3.5 / 7446)
    assert scores["median_rank"] == pytest.approx(7446 * (1 - 0.5 ** (1 / 3.5)), rel=0.02)
