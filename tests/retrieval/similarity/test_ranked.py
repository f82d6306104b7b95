"""Similarity by embeddings and by words, compared with slow literal computations."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.retrieval.similarity.ranked import embedding_similarity, word_similarity
from loupe.schemas.errors import UsageError

texts = st.lists(
    st.lists(st.sampled_from(["red", "blue", "coat", "hat", "man"]), max_size=6).map(" ".join),
    min_size=1,
    max_size=12,
)


def slow_cosines(all_texts: list[str], row: int) -> list[float]:
    """Return tf-idf cosines, computed word by word."""
    words = [Counter(text.split()) for text in all_texts]

    def weight(text: int, word: str) -> float:
        holders = sum(word in one for one in words)
        return words[text][word] * (math.log((1 + len(words)) / (1 + holders)) + 1)

    def dot(one: int, other: int) -> float:
        return sum(weight(one, word) * weight(other, word) for word in words[one])

    lengths = [math.sqrt(dot(one, one)) or 1.0 for one in range(len(words))]
    return [dot(row, one) / lengths[row] / lengths[one] for one in range(len(words))]


@settings(deadline=None)
@given(texts, st.data())
def test_word_similarity_ranks_like_the_slow_cosine(
    all_texts: list[str], data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, len(all_texts) - 1))
    ranked = word_similarity(all_texts).ranked(row)
    assert sorted(ranked) == list(range(len(all_texts)))
    cosines = np.round(slow_cosines(all_texts, row), 9)
    assert list(cosines[ranked]) == sorted(cosines, reverse=True)


def test_case_and_punctuation_do_not_matter() -> None:
    ranked = word_similarity(["A red coat.", "a hat", "RED coat, a"]).ranked(0)
    assert list(ranked) == [0, 2, 1]


def save(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


def test_embeddings_are_ranked_by_direction_not_length(tmp_path: Path) -> None:
    path = save(tmp_path / "e.npy", [[1.0, 0.0], [0.0, 9.0], [9.0, 9.0], [0.1, 0.01]])
    found = embedding_similarity(path, 4, "released images")
    assert list(found.ranked(0)) == [0, 3, 2, 1]
    assert found.name.startswith("embeddings sha256:")


def test_invalid_embeddings_are_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[object, str]] = [
        ([[1.0, 0.0]], "e.npy must have 2 rows, one for each of the images"),
        ([1.0, 2.0], r"must have two dimensions, \(rows, dimension\); got \(2,\)"),
        ([[1, 0], [0, 1]], "got int64"),
        ([[1.0, 0.0], [0.0, 0.0]], "row 1 .* it holds only zeros"),
        ([[float("nan"), 0.0], [0.0, 1.0]], "row 0 .* it holds NaN or infinity"),
    ]
    for array, problem in cases:
        with subtests.test(array=repr(array)), pytest.raises(UsageError, match=problem):
            embedding_similarity(save(tmp_path / "e.npy", array), 2, "images")


def test_a_file_that_is_not_an_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.npy").write_bytes(b"no array")
    for name, problem in (("e.npy", "is not a .npy file"), ("missing.npy", "does not exist")):
        with pytest.raises(UsageError, match=problem):
            embedding_similarity(tmp_path / name, 2, "images")


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="holds objects"):
        embedding_similarity(tmp_path / "e.npy", 1, "images")
