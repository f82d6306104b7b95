"""Similarity histograms and hardest queries compared with loops over all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.embeddings import FloatRows, Ids, unit_rows
from loupe.retrieval.evaluation import BINS, Side, hardest_queries, similarity_histogram
from loupe.retrieval.ranking import score_retrieval
from loupe.schemas.evaluation import HardQuery, ShownItem

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
    """Dot product, summed in float64 in the order of the columns."""
    return float(sum(float(x) * float(y) for x, y in zip(left, right, strict=True)))


def sides(case: Problem) -> tuple[Side, Side]:
    """Queries and gallery, with the row of each item as its position."""
    queries, gallery, query_ids, gallery_ids = case
    return Side(items(query_ids), queries, {}), Side(items(gallery_ids), gallery, {})


def items(people: Ids) -> list[ShownItem]:
    return [
        ShownItem(
            entity_id="0" * 32,
            file_path="1.jpg",
            sha256="0" * 64,
            person=person,
            source="s",
            position=row,
        )
        for row, person in enumerate(people.tolist())
    ]


def retrieved_rows(one: HardQuery) -> list[int]:
    return [find.item.position or 0 for find in one.retrieved]


def literal_ranks(case: Problem) -> list[int]:
    """Rank of the first match of each query, by plain loops; ties count against it."""
    ranks = []
    for query, identity in zip(case[0], case[2], strict=True):
        pairs = zip(case[1], case[3], strict=True)
        found = [(similarity(query, row), other == identity) for row, other in pairs]
        best = max((similarity for similarity, match in found if match), default=None)
        beaten = [best is not None and not match and value >= best for value, match in found]
        ranks.append(0 if best is None else 1 + sum(beaten))
    return ranks


def test_the_histogram_counts_every_pair_once() -> None:
    case = problem(1)
    counts = similarity_histogram(*case)
    assert counts.queries == 30
    for counted, wanted in ((counts.matches, True), (counts.others, False)):
        values = [
            float(query @ row)
            for query, mine in zip(case[0], case[2], strict=True)
            for row, other in zip(case[1], case[3], strict=True)
            if bool(mine == other) is wanted
        ]
        width = (counts.high - counts.low) / BINS
        literal = [0] * BINS
        for value in values:
            literal[min(BINS - 1, int((value - counts.low) / width))] += 1
        assert sum(counted) == len(values)
        # a value on a border may fall into either bin
        assert np.abs(np.subtract(counted, literal)).sum() <= 2


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 6))
def test_the_hardest_queries_have_the_lowest_first_matches(
    seed: int, count: int, shown: int
) -> None:
    case = problem(seed)
    ranks = literal_ranks(case)
    worst = hardest_queries(*sides(case), np.array(ranks), count=count, shown=shown)
    people = [one.query.person for one in worst]
    assert len(set(people)) == len(people)
    lowest = {
        person: max(rank for rank, other in zip(ranks, case[2], strict=True) if other == person)
        for person in case[2].tolist()
    }
    wanted = sorted((rank for rank in lowest.values() if rank > 1), reverse=True)[:count]
    assert [one.first_match_rank for one in worst] == wanted
    for one in worst:
        similarities = [similarity(case[0][one.query.position or 0], row) for row in case[1]]
        wanted_first = sorted(similarities, reverse=True)[:shown]
        found = [find.similarity for find in one.retrieved]
        assert found[:shown] == pytest.approx(wanted_first, 1e-15)
        assert found == pytest.approx([similarities[row] for row in retrieved_rows(one)])
        (match,) = [find for find in one.retrieved if find.rank == one.first_match_rank]
        assert match.is_match
        assert match.item.person == one.query.person
        assert one.retrieved[-1].rank == max(shown, one.first_match_rank)


def test_matches_lose_ties() -> None:
    rows = unit_rows(np.ones((4, 2)), "rows")
    queries, gallery = sides((rows[:1], rows, np.array([7]), np.array([7, 1, 7, 2])))
    (worst,) = hardest_queries(queries, gallery, np.array([3]), count=5, shown=2)
    assert worst.first_match_rank == 3
    assert [(find.rank, find.is_match) for find in worst.retrieved] == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_a_gallery_smaller_than_the_shown_depth_is_shown_completely() -> None:
    case = problem(3, queries=2, gallery=2, identities=1)
    worst = hardest_queries(*sides(case), np.array([2, 2]), count=9, shown=9)
    assert [len(one.retrieved) for one in worst] == [2]


def test_queries_with_a_first_match_at_rank_one_or_none_are_not_hard() -> None:
    case = problem(3, queries=3, gallery=4)
    assert hardest_queries(*sides(case), np.array([0, 1, 1]), count=9, shown=9) == ()


def test_ranks_agree_with_the_scores_beyond_float32_precision() -> None:
    chance = np.random.default_rng(7)
    query = chance.normal(size=(1, 64))
    near = query + 1e-6 * chance.normal(size=(40, 64))
    rows = unit_rows(query, "queries"), unit_rows(near, "gallery")
    literal = np.array([similarity(rows[0][0], row) for row in rows[1]])
    lowest = int(np.argmin(literal))
    ids = np.array([1]), np.where(np.arange(40) == lowest, 1, 2)
    scores = score_retrieval(*rows, *ids)
    (worst,) = hardest_queries(*sides((*rows, *ids)), scores.best_rank, count=1, shown=40)
    assert worst.first_match_rank == scores.best_rank[0] == 40
    shown = [find.similarity for find in worst.retrieved]
    assert shown == sorted(shown, reverse=True)
    assert shown == pytest.approx(np.sort(literal)[::-1], abs=1e-15)
    assert [find.rank for find in worst.retrieved if find.is_match] == [40]


def test_many_queries_are_sampled_with_a_seed() -> None:
    case = problem(5, queries=200)
    first, again, other = (similarity_histogram(*case, seed=s, most_pairs=400) for s in (1, 1, 2))
    assert first.queries == 20
    assert first == again
    assert first.others != other.others
