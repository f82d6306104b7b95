"""Close rows: exact search finds all pairs, an index nearly all."""

import numpy as np
import pytest

from loupe.retrieval.similarity import distances as module
from loupe.retrieval.similarity.distances import LEAST_RECALL, close_rows, single_precision

DISTANCE = 0.02


def rows_with_close_pairs(random: np.random.Generator, count: int, pairs: int) -> np.ndarray:
    """Random rows whose last `pairs` rows are close to the first ones."""
    rows = random.normal(size=(count, 32))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[-pairs:] = rows[:pairs] + random.normal(0, 0.02, (pairs, 32))
    return single_precision(rows)


def test_all_pairs_are_found_with_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PRODUCT_CELLS", 700)
    rows = rows_with_close_pairs(np.random.default_rng(0), 300, 40)
    found = {tuple(pair) for pair in close_rows(rows, DISTANCE).pairs.tolist()}
    distances = 1 - rows.astype(float) @ rows.T.astype(float)
    near = {(i, j) for i, j in np.argwhere(distances <= DISTANCE).tolist() if i < j}
    assert near <= found
    assert max(distances[pair] for pair in found) < DISTANCE + 1e-3
    asked = np.array([1, 5, 299])
    of_asked = {tuple(pair) for pair in close_rows(rows, DISTANCE, asked).pairs.tolist()}
    assert of_asked == {pair for pair in found if set(pair) & set(asked.tolist())}


def test_an_index_finds_nearly_all_pairs_and_reports_its_recall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = rows_with_close_pairs(np.random.default_rng(1), 6000, 500)
    exact, none = close_rows(rows, DISTANCE)
    monkeypatch.setattr(module, "EXACT_UP_TO", 1000)
    found, recall = close_rows(rows, DISTANCE)
    assert none is None
    assert recall is not None
    assert LEAST_RECALL <= recall <= 1
    known = {tuple(pair) for pair in exact.tolist()}
    indexed = {tuple(pair) for pair in found.tolist()}
    assert len(known & indexed) >= 0.97 * len(known)
    assert not indexed - known
