"""Scores of retrieval by identity: values of the paper, plain loops and invariances."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from loupe.retrieval.embeddings import unit_rows
from loupe.retrieval.ranking import RetrievalScores, score_retrieval
from loupe.schemas.errors import UsageError
from tests.retrieval.identity_world import Problem, literal_scores, random_problem

PER_QUERY = (
    "best_rank",
    "average_precision",
    "similarity_distribution",
    "similarity_distribution_released",
    "inverse_negative_penalty",
)
CLOSE = 1e-7
"""Relative tolerance between sums of float32 and float64 products."""


def assert_literal(problem: Problem, scores: RetrievalScores) -> None:
    wanted = np.array(literal_scores(problem))
    for name, column in zip(PER_QUERY, wanted.T, strict=True):
        np.testing.assert_allclose(getattr(scores, name), column, rtol=CLOSE, err_msg=name)


def assert_same(left: RetrievalScores, right: RetrievalScores, *, released: bool = True) -> None:
    """Check equal ranks, and sums of similarities that are equal up to float32 rounding."""
    for name in ("matches", "best_rank", "average_precision", "inverse_negative_penalty"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    for name in PER_QUERY[2 : 4 if released else 3]:
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=CLOSE)


def with_similarities(values: Sequence[float]) -> NDArray[np.float64]:
    """Gallery rows whose normalised similarities to (1, 0) are `values`."""
    cosines = 2 * np.array(values) - 1
    return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


def test_values_of_the_figure_in_the_paper() -> None:
    for values, wanted in (
        ((0.81, 0.79, 0.77, 0.76, 0.75), 0.536),
        ((0.81, 0.79, 0.77, 0.15, 0.12), 0.744),
        ((0.81, 0.79, 0.55, 0.15, 0.12), 0.697),
    ):
        gallery = with_similarities(values)
        means = score_retrieval([[1.0, 0.0]], gallery, [7], [7, 1, 7, 2, 3]).means()
        assert means["mSD"] == pytest.approx(100 * wanted, abs=0.05)
        assert means["mAP"] == pytest.approx(100 * 5 / 6)
        assert means["mINP"] == pytest.approx(100 * 2 / 3)
        assert means["R@1"] == 100
        assert means["median_rank"] == 1


def test_scores_equal_plain_loops_in_both_directions(subtests: pytest.Subtests) -> None:
    for seed in range(5):
        with subtests.test(seed=seed):
            problem = random_problem(seed)
            for direction in (problem, problem.swapped):
                assert_literal(direction, direction.scores())


def test_scores_equal_plain_loops_for_many_matches_per_query() -> None:
    problem = random_problem(3, queries=6, gallery=900, identities=2)
    scores = problem.scores()
    assert scores.matches.max() > 300
    assert_literal(problem, scores)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_precision_is_accepted(dtype: type[np.floating]) -> None:
    problem = random_problem(5)
    given = problem._replace(
        queries=problem.queries.astype(dtype), gallery=problem.gallery.astype(dtype)
    )
    assert_literal(given, given.scores())


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8)
def test_the_order_of_the_gallery_does_not_matter(seed: int) -> None:
    problem = random_problem(seed, queries=40, gallery=300, dimension=33)
    order = np.random.default_rng(seed).permutation(300)
    assert_same(problem.with_gallery(order).scores(), problem.scores(), released=False)


@given(seed=st.integers(0, 10_000), workers=st.integers(1, 3))
@settings(max_examples=5)
def test_memory_and_workers_do_not_matter(seed: int, workers: int) -> None:
    problem = random_problem(seed, queries=150, gallery=2500, dimension=16, identities=40)
    assert_same(problem.scores(memory_mib=1, workers=workers), problem.scores(workers=1))


def test_ties_are_errors() -> None:
    copies = np.tile([0.6, 0.8], (4, 1))
    scores = score_retrieval([[1.0, 0.0]], copies, [1], [2, 1, 2, 1])
    assert scores.best_rank.tolist() == [3]  # both non-matches come first
    assert scores.average_precision.tolist() == [(1 / 3 + 2 / 4) / 2]
    collapsed = score_retrieval(copies[:2], copies, [1, 2], [1, 1, 1, 2])
    assert collapsed.best_rank.tolist() == [2, 4]


def test_ranks_are_exact_beyond_float32_precision() -> None:
    """Items on both sides of the match, closer than float32 products can resolve."""
    query = np.full((1, 512), 1.0)
    match = np.random.default_rng(0).standard_normal(512).astype(np.float32) + 0.5
    gallery = np.tile(match, (3, 1))
    gallery[1, 0], gallery[2, 0] = np.nextafter(match[0], 9), np.nextafter(match[0], -9)
    exact = unit_rows(gallery, "gallery").astype(np.float64).sum(axis=1)
    assert len(set(exact)) == 3
    for own in range(3):
        scores = score_retrieval(query, gallery, [1], [int(at == own) for at in range(3)])
        assert scores.best_rank[0] == 1 + np.count_nonzero(exact > exact[own])


def test_queries_without_a_match_are_left_out() -> None:
    problem = random_problem(8)
    absent = 10_000 + np.arange(5)
    more = problem._replace(
        queries=np.concatenate([problem.queries[:5], problem.queries]),
        query_ids=np.concatenate([absent, problem.query_ids]),
    )
    scores, without = more.scores(), problem.scores()
    assert scores.unmatched == without.unmatched + 5
    assert scores.best_rank[:5].tolist() == [0] * 5
    assert np.isnan(scores.average_precision[:5]).all()
    assert scores.means() == pytest.approx(without.means(), rel=1e-9)


def test_junk_in_the_gallery_changes_no_score() -> None:
    problem = random_problem(8)
    junk = problem.queries[:7]  # at rank 1 of their queries, if they were ranked
    more = problem._replace(
        gallery=np.concatenate([junk, problem.gallery]),
        gallery_ids=np.concatenate([np.full(7, -1), problem.gallery_ids]),
    )
    assert more.scores().gallery == len(problem.gallery)
    assert_same(more.scores(), problem.scores())
    unknown = more._replace(query_ids=np.where(np.arange(25) < 3, -1, more.query_ids))
    assert (unknown.scores().best_rank[:3] == 0).all()


def test_no_query_with_a_match_is_an_error() -> None:
    rows = np.eye(2)
    with pytest.raises(UsageError, match=r"no id of q\.npy is among g\.npy"):
        score_retrieval(rows, rows, [1, 2], [3, 4], names=("Q", "G", "q.npy", "g.npy"))
    scores = score_retrieval(rows, rows, [1, 2], [1, 3])
    with pytest.raises(UsageError, match="no query has a match"):
        scores.means(np.array([False, True]))


def test_k_beyond_the_gallery_finds_every_match() -> None:
    scores = score_retrieval(-np.eye(3), np.eye(3), [0, 1, 9], [0, 1, 2])
    means = scores.means()
    assert (means["R@1"], means["R@5"], means["R@10"]) == (0, 100, 100)
    assert scores.rank_curve(5).tolist() == [0, 0, 100, 100, 100]


def test_a_gallery_of_matches_only() -> None:
    """The ratio x is infinite, so PNR is 1."""
    scores = score_retrieval(np.eye(2)[:1], np.eye(2), [1], [1, 1])
    means = scores.means()
    assert (means["mAP"], means["mSD"], means["mINP"]) == (100,) * 3
    assert scores.similarity_distribution_released.tolist() == [1]


def test_opposite_vectors_have_finite_scores() -> None:
    """All similarities are 0: there is no division by zero and no NaN."""
    for ids in ([1, 2], [1, 1]):
        means = score_retrieval([[1.0, 0.0]], [[-1.0, 0.0]] * 2, [1], ids).means()
        assert means["mSD"] == 0
        assert all(math.isfinite(value) for value in means.values())


def test_means_of_a_subset_of_queries() -> None:
    problem = random_problem(4)
    scores = problem.scores()
    chosen = problem.query_ids % 2 == 0
    some = problem._replace(
        queries=problem.queries[chosen], query_ids=problem.query_ids[chosen]
    ).scores()
    assert scores.means(chosen) == pytest.approx(some.means(), rel=1e-9)


def test_less_memory_than_a_mebibyte_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 MiB"):
        random_problem(1).scores(memory_mib=0)


def test_mismatching_shapes_are_refused() -> None:
    rows, ids = np.eye(3), [1, 2, 3]
    with pytest.raises(UsageError, match="rows of one length; got 3 and 2"):
        score_retrieval(rows, rows[:, :2] + 1, ids, ids)
    with pytest.raises(UsageError, match="query ids must hold an id for each of the 3 rows; got 2"):
        score_retrieval(rows, rows, ids[:2], ids)
    with pytest.raises(UsageError, match="gallery ids must hold integers"):
        score_retrieval(rows, rows, ids, np.ones(3))
