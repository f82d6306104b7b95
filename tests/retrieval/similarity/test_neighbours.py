"""Nearest rows equal a full sort of all similarities."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.retrieval.embeddings import unit_rows
from loupe.retrieval.similarity.products import (
    Tiling,
    nearest_rows,
    nearest_units,
    pair_similarities,
    rounding_bound,
)
from loupe.schemas.errors import FormatError
from tests.retrieval.literal import similarity, tied_rows


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
        groups=(np.array(groups[0]), np.array(groups[1])),
        excluded=own,
        closed=sorted(closed),
        tiling=Tiling(*data.draw(st.tuples(st.integers(1, 8), st.integers(1, 8))), 2),
    )
    assert found.places.tolist() == literal(queries, gallery, k, groups, closed)
    assert ((found.places < 0) == np.isneginf(found.similarities)).all()
    assert (found.similarities[:, 1:] <= found.similarities[:, :-1]).all()


@given(
    seed=st.integers(0, 10_000),
    queries=st.integers(1, 60),
    gallery=st.integers(1, 700),
    workers=st.integers(1, 3),
)
@settings(max_examples=5)
def test_the_tiling_does_not_matter(seed: int, queries: int, gallery: int, workers: int) -> None:
    """Many rows are equal or nearly equal, so that float32 often cannot rank the nearest."""
    random = np.random.default_rng(seed)
    ours, theirs = tied_rows(random, 50, 33, kinds=9), tied_rows(random, 600, 33, kinds=300)
    samples = random.integers(20, size=50), random.integers(20, size=600)
    whole = nearest_units(ours, theirs, 7, apart=samples)
    cut = nearest_units(ours, theirs, 7, apart=samples, tiling=Tiling(queries, gallery, workers))
    assert (cut.places == whole.places).all()
    assert (cut.similarities == whole.similarities).all()
    for at, row in enumerate(ours):
        others = np.flatnonzero(samples[1] != samples[0][at])
        alike = pair_similarities(row[None], theirs, np.zeros_like(others), others)
        wanted = others[np.lexsort((others, -alike))][:7]
        assert whole.places[at].tolist() == wanted.tolist()


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(FormatError, match="rows of one length; got 4 and 5"):
        nearest_rows(np.ones((1, 4)), np.ones((1, 5)), 1)


def test_pair_similarities_equal_the_exact_dot_product(subtests: pytest.Subtests) -> None:
    for dimension in (1, 2, 3, 4, 5, 127, 512):
        with subtests.test(dimension=dimension):
            random = np.random.default_rng(dimension)
            left = unit_rows(random.standard_normal((6, dimension)), "left")
            right = unit_rows(random.standard_normal((7, dimension)), "right")
            left_at, right_at = np.divmod(np.arange(42).reshape(6, 7), 7)
            found = pair_similarities(left, right, left_at, right_at)
            literal = [[similarity(a, b) for b in right] for a in left]
            assert found == pytest.approx(np.array(literal), abs=1e-15)
            assert np.abs(left @ right.T - literal).max() < rounding_bound(dimension)
