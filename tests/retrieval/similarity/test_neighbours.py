"""Nearest rows equal a full sort of all similarities."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.embeddings import unit_rows
from retrieval.similarity.products import nearest_rows, pair_similarities
from schemas.errors import FormatError


def literal(
    queries: np.ndarray, gallery: np.ndarray, k: int, groups: Any, closed: set[int]
) -> list[list[int]]:
    ours, theirs = unit_rows(queries, "q"), unit_rows(gallery, "g")
    found = []
    for i in range(len(ours)):
        may = [
            j
            for j in range(len(theirs))
            if groups[0][i] == groups[1][j] and i != j and j not in closed
        ]
        at = np.array(may, np.int64)
        values: Any = pair_similarities(ours, theirs, np.full_like(at, i), at) if may else []
        ranked = [j for _, j in sorted(zip((-v for v in values), may, strict=True))]
        found.append((ranked + [-1] * k)[:k])
    return found


@settings(deadline=None)
@given(st.data())
def test_nearest_rows_equal_a_full_sort(data: st.DataObject) -> None:
    n, m, k = (data.draw(st.integers(1, 7)) for _ in range(3))
    values = st.lists(
        st.sampled_from([-1.0, 0.5, 1.0, 3.0]), min_size=3, max_size=3
    )  # few values: many ties
    queries, gallery = (
        np.array(data.draw(st.lists(values, min_size=size, max_size=size))) for size in (n, m)
    )
    groups = tuple(
        data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) for size in (n, m)
    )
    own = np.array([i if i < m else -1 for i in range(n)])
    closed = data.draw(st.sets(st.integers(0, m - 1)))
    found = nearest_rows(
        queries,
        gallery,
        k,
        query_groups=np.array(groups[0]),
        gallery_groups=np.array(groups[1]),
        excluded=own,
        closed=sorted(closed),
        block_bytes=data.draw(st.sampled_from([1, 64, 1 << 20])),
    )
    assert found.places.tolist() == literal(queries, gallery, k, groups, closed)
    assert ((found.places < 0) == np.isneginf(found.similarities)).all()
    assert (found.similarities[:, 1:] <= found.similarities[:, :-1]).all()


def test_the_block_size_does_not_matter() -> None:
    random = np.random.default_rng(0)
    queries, gallery = random.normal(size=(50, 16)), random.normal(size=(300, 16))
    gallery[100:200] = gallery[:100]  # ties
    one, other = (nearest_rows(queries, gallery, 7, block_bytes=size) for size in (1, 1 << 26))
    assert (one.places == other.places).all()
    assert (one.similarities == other.similarities).all()


def test_ties_go_to_the_lowest_index() -> None:
    found = nearest_rows(np.ones((1, 4)), np.ones((5, 4)), 3)
    assert found.places.tolist() == [[0, 1, 2]]


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(FormatError, match="rows of one length; got 4 and 5"):
        nearest_rows(np.ones((1, 4)), np.ones((1, 5)), 1)
