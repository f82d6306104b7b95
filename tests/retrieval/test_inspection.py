"""Histograms and worst queries against loops over all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.evaluation import BINS, similarity_counts, worst_queries
from retrieval.ranking import score_retrieval

Problem = tuple[FloatRows, FloatRows, Ids, Ids]


def problem(seed: int, queries: int = 30, gallery: int = 20, identities: int = 6) -> Problem:
    chance = np.random.default_rng(seed)
    return (
        unit_rows(chance.normal(size=(queries, 4)), "queries"),
        unit_rows(chance.normal(size=(gallery, 4)), "gallery"),
        chance.integers(0, identities, queries),
        chance.integers(0, identities, gallery),
    )


def similarity(left: FloatRows, right: FloatRows) -> float:
    """The dot product, added up in float64 from the first place to the last."""
    return float(sum(float(x) * float(y) for x, y in zip(left, right, strict=True)))


def literal_ranks(asked: Problem) -> list[int]:
    """The rank of each query's first match, one pair after the other; equals before it count."""
    ranks = []
    for query, identity in zip(asked[0], asked[2], strict=True):
        pairs = zip(asked[1], asked[3], strict=True)
        found = [(similarity(query, row), other == identity) for row, other in pairs]
        best = max((similarity for similarity, match in found if match), default=None)
        beaten = [best is not None and not match and value >= best for value, match in found]
        ranks.append(0 if best is None else 1 + sum(beaten))
    return ranks


def test_every_pair_of_the_queries_is_counted_once() -> None:
    asked = problem(1)
    counts = similarity_counts(*asked)
    assert counts.queries == 30
    for counted, wanted in ((counts.matches, True), (counts.others, False)):
        values = [
            float(query @ row)
            for query, mine in zip(asked[0], asked[2], strict=True)
            for row, other in zip(asked[1], asked[3], strict=True)
            if bool(mine == other) is wanted
        ]
        width = (counts.high - counts.low) / BINS
        literal = [0] * BINS
        for value in values:
            literal[min(BINS - 1, int((value - counts.low) / width))] += 1
        assert counted.sum() == len(values)
        assert np.abs(counted - literal).sum() <= 2  # a value on a border may fall on either side


def test_one_value_has_a_histogram_too() -> None:
    rows, ids = unit_rows(np.ones((3, 2)), "rows"), np.array([1, 1, 2])
    counts = similarity_counts(rows, rows, ids, ids)
    assert counts.low < counts.high
    assert (counts.matches.sum(), counts.others.sum()) == (5, 4)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 6))
def test_the_worst_are_those_with_the_lowest_first_match(seed: int, count: int, shown: int) -> None:
    asked = problem(seed)
    ranks = literal_ranks(asked)
    worst = worst_queries(*asked, np.array(ranks), count=count, shown=shown)
    people = asked[2][[one.row for one in worst]].tolist()
    assert len(set(people)) == len(people)
    lowest = {
        person: max(rank for rank, other in zip(ranks, asked[2], strict=True) if other == person)
        for person in asked[2].tolist()
    }
    wanted = sorted((rank for rank in lowest.values() if rank > 1), reverse=True)[:count]
    assert [one.first_match_rank for one in worst] == wanted
    for one in worst:
        similarities = [similarity(asked[0][one.row], row) for row in asked[1]]
        wanted_first = sorted(similarities, reverse=True)[:shown]
        assert [find.similarity for find in one.finds[:shown]] == pytest.approx(wanted_first, 1e-15)
        assert all(find.similarity == pytest.approx(similarities[find.row]) for find in one.finds)
        (match,) = [find for find in one.finds if find.rank == one.first_match_rank]
        assert match.is_match
        assert asked[3][match.row] == asked[2][one.row]
        assert one.finds[-1].rank == max(shown, one.first_match_rank)


def test_of_equals_matches_come_last() -> None:
    rows = unit_rows(np.ones((4, 2)), "rows")
    (worst,) = worst_queries(
        *(rows[:1], rows, np.array([7]), np.array([7, 1, 7, 2]), np.array([3])), count=5, shown=2
    )
    assert worst.first_match_rank == 3
    assert [(find.rank, find.is_match) for find in worst.finds] == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_a_gallery_smaller_than_what_is_shown_is_shown_whole() -> None:
    asked = problem(3, queries=2, gallery=2, identities=1)
    worst = worst_queries(*asked, np.array([2, 2]), count=9, shown=9)
    assert [len(one.finds) for one in worst] == [2]


def test_what_found_a_match_first_or_has_none_is_not_hard() -> None:
    asked = problem(3, queries=3, gallery=4)
    assert worst_queries(*asked, np.array([0, 1, 1]), count=9, shown=9) == []


def test_ranks_and_similarities_are_those_of_the_scores_where_float32_cannot_tell() -> None:
    chance = np.random.default_rng(7)
    query = chance.normal(size=(1, 64))
    near = query + 1e-6 * chance.normal(size=(40, 64))
    rows = unit_rows(query, "queries"), unit_rows(near, "gallery")
    literal = np.array([similarity(rows[0][0], row) for row in rows[1]])
    lowest = int(np.argmin(literal))
    ids = np.array([1]), np.where(np.arange(40) == lowest, 1, 2)
    scores = score_retrieval(*rows, *ids)
    (worst,) = worst_queries(*rows, *ids, scores.best_rank, count=1, shown=40)
    assert worst.first_match_rank == scores.best_rank[0] == 40
    shown = [find.similarity for find in worst.finds]
    assert shown == sorted(shown, reverse=True)
    assert shown == pytest.approx(np.sort(literal)[::-1], abs=1e-15)
    assert [find.rank for find in worst.finds if find.is_match] == [40]


def test_many_queries_are_sampled_with_a_seed() -> None:
    asked = problem(5, queries=200)
    first, again, other = (similarity_counts(*asked, seed=s, most_pairs=400) for s in (1, 1, 2))
    assert first.queries == 20
    assert (first.others == again.others).all()
    assert (first.others != other.others).any()
