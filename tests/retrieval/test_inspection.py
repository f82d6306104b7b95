"""Histograms and worst queries against loops over all pairs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.inspection import BINS, similarity_counts, worst_queries

Problem = tuple[FloatRows, FloatRows, Ids, Ids]


def problem(seed: int, queries: int = 30, gallery: int = 20, identities: int = 6) -> Problem:
    chance = np.random.default_rng(seed)
    return (
        unit_rows(chance.normal(size=(queries, 4)), "queries"),
        unit_rows(chance.normal(size=(gallery, 4)), "gallery"),
        chance.integers(0, identities, queries),
        chance.integers(0, identities, gallery),
    )


def literal_ranks(asked: Problem) -> list[int]:
    """The rank of each query's first match, one pair after the other; equals before it count."""
    ranks = []
    for query, identity in zip(asked[0], asked[2], strict=True):
        pairs = zip(asked[1], asked[3], strict=True)
        found = [(float(query @ row), other == identity) for row, other in pairs]
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
    wanted = sorted((rank for rank in lowest.values() if rank), reverse=True)[:count]
    assert [one.first_match_rank for one in worst] == wanted
    for one in worst:
        similarities = asked[1] @ asked[0][one.row]
        assert [find.similarity for find in one.finds[:shown]] == sorted(similarities)[::-1][:shown]
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
    worst = worst_queries(*asked, np.array([1, 1]), count=9, shown=9)
    assert [len(one.finds) for one in worst] == [2]
    assert worst_queries(*asked, np.array([0, 0]), count=9, shown=9) == []


def test_many_queries_are_sampled_with_a_seed() -> None:
    asked = problem(5, queries=200)
    first, again, other = (similarity_counts(*asked, seed=s, most_pairs=400) for s in (1, 1, 2))
    assert first.queries == 20
    assert (first.others == again.others).all()
    assert (first.others != other.others).any()
