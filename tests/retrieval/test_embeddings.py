"""Validation and normalisation of embeddings and ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from loupe.retrieval.embeddings import checked_ids, unit_rows
from loupe.schemas.errors import FormatError, UsageError

VALUES = st.floats(-1e6, 1e6, width=32).filter(lambda value: value == 0 or abs(value) > 1e-6)


@given(arrays(np.float64, (5, 7), elements=VALUES))
def test_rows_are_normalised_to_unit_length(array: NDArray[np.float64]) -> None:
    array[:, 0] += 3e6  # no zero rows
    units = unit_rows(array, "rows")
    assert units.dtype == np.float32
    assert units.flags.c_contiguous
    wanted = [row / np.sqrt(sum(value * value for value in row)) for row in array]
    np.testing.assert_allclose(units, wanted, rtol=1e-6, atol=1e-9)


def test_any_precision_memory_order_and_scale_is_accepted() -> None:
    array = np.array([[3, 4], [-6, 8], [0, 0.5]], dtype=np.float16)
    wanted = np.array([[0.6, 0.8], [-0.6, 0.8], [0, 1]], dtype=np.float32)
    np.testing.assert_array_equal(unit_rows(array, "rows"), wanted)
    np.testing.assert_array_equal(unit_rows(np.asfortranarray(array), "rows"), wanted)


def test_extreme_lengths_neither_overflow_nor_underflow() -> None:
    tiny_and_huge = np.array([[1e-300, 1e-300], [1e300, 1e300]])
    np.testing.assert_allclose(unit_rows(tiny_and_huge, "rows"), np.full((2, 2), np.sqrt(0.5)))


def test_a_normalised_row_does_not_depend_on_its_position() -> None:
    generator = np.random.default_rng(0)
    array = generator.standard_normal((3000, 300))  # more rows than one block
    units = unit_rows(array, "rows")
    order = generator.permutation(len(array))
    np.testing.assert_array_equal(unit_rows(array[order], "rows"), units[order])
    np.testing.assert_array_equal(unit_rows(array[2500:2501], "row"), units[2500:2501])


def test_the_input_array_is_not_modified() -> None:
    array = np.full((1, 4), 2, dtype=np.float32)
    array.flags.writeable = False
    np.testing.assert_array_equal(unit_rows(array, "rows"), [[0.5, 0.5, 0.5, 0.5]])


def test_invalid_embeddings_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[NDArray[np.generic], str]] = [
        (np.ones(3), r"q\.npy must have two dimensions, \(rows, dimension\); got \(3,\)"),
        (np.ones((2, 3, 4)), "must have two dimensions"),
        (np.ones((0, 3)), r"at least one row and one column; got \(0, 3\)"),
        (np.ones((3, 0)), "at least one row and one column"),
        (np.ones((2, 2), dtype=np.int64), "must hold floats; got int64"),
        (np.ones((2, 2), dtype=np.complex128), "must hold floats; got complex128"),
        (np.array([["a"]]), "must hold floats"),
        (np.array([[1.0, 2], [np.nan, 0]]), r"every row must be finite, row 1 \(from 0\)"),
        (np.array([[1.0, 2], [1, 1], [-np.inf, 0]]), r"row 2 \(from 0\) .* NaN or infinity"),
        (np.array([[1.0, 2], [0, 0]]), r"row 1 \(from 0\) is not: it holds only zeros"),
    ]
    for array, sentence in cases:
        with subtests.test(sentence=sentence), pytest.raises(FormatError, match=sentence):
            unit_rows(array, "q.npy")


def test_the_error_names_the_row_within_the_whole_array() -> None:
    array = np.ones((5000, 200))
    array[4321, 7] = np.nan
    with pytest.raises(FormatError, match=r"row 4,321"):
        unit_rows(array, "q.npy")


def test_invalid_ids_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[NDArray[np.generic], str]] = [
        (np.zeros((2, 1), dtype=np.int64), "one dimension"),
        (np.zeros(2), "must hold integers; got float64"),
        (np.zeros(3, dtype=np.int32), "an id for each of the 2 rows; got 3"),
        (np.array([1, 2**64 - 1], dtype=np.uint64), "below 2"),
    ]
    for ids, sentence in cases:
        with subtests.test(sentence=sentence), pytest.raises(UsageError, match=sentence):
            checked_ids(ids, 2, "ids.npy")


def test_ids_of_any_integer_type_are_accepted() -> None:
    for dtype in (np.int8, np.uint16, np.int64, np.uint64):
        ids = checked_ids(np.array([3, 0], dtype=dtype), 2, "ids.npy")
        assert ids.dtype == np.int64
        assert ids.tolist() == [3, 0]
