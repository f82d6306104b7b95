"""Embeddings: unit rows to compare, and arrays read from files."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.schemas.errors import BadRowError, FormatError

# Unit rows: float32, of unit length, validated.
#
# All metrics share one rule: the similarity of two rows is the dot product of their `unit_rows`.
# Rows are normalised in float64 and rounded to float32 once, so the same vector gives the same row
# in every array and batch.

FloatRows = NDArray[np.float32]
Ids = NDArray[np.int64]
Similarities = NDArray[np.float64]

_FLOATS_AT_ONCE = 1 << 15  # 256 KiB as float64: they stay in a near cache
_LEAST_SQUARE, _MOST_SQUARE = 1e-200, 1e200  # of a length; beyond, squares lose digits


def unit_rows(array: ArrayLike, name: str, *, first_row: int = 0) -> FloatRows:
    """`array` as float32 rows of unit length, of shape (n, d), C-contiguous; a copy.

    Args:
        array: floats of shape (n, d), of any precision and length; it may be memory-mapped.
        name: what to call the array in messages: a file, or the name of an argument.
        first_row: what to call its first row there, where it is a part of a larger array.

    Raises:
        FormatError: the array is not two-dimensional, is empty, holds no floats, or a row is not
            finite or zero.
    """
    rows = checked_shape(array, name)
    units = np.empty(rows.shape, dtype=np.float32)
    step = max(1, _FLOATS_AT_ONCE // rows.shape[1])
    for start in range(0, len(rows), step):
        units[start : start + step] = exact_units(
            rows[start : start + step], first_row + start, name
        )
    return units


def checked_ids(array: ArrayLike, rows: int, name: str) -> Ids:
    """`array` as one int64 identity for each of `rows` rows, of shape (rows,).

    Raises:
        FormatError: the array is not one-dimensional, holds no integers, or has another length.
    """
    ids = np.asarray(array)
    if ids.ndim != 1:
        raise FormatError(f"{name} must have one dimension, an id for each row; got {ids.shape}")
    if not np.issubdtype(ids.dtype, np.integer):
        raise FormatError(f"{name} must hold integers; got {ids.dtype}")
    if len(ids) != rows:
        raise FormatError(f"{name} must hold an id for each of the {rows:,} rows; got {len(ids):,}")
    if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
        raise FormatError(f"{name} must hold ids below 2**63; got {ids.max()}")
    return np.ascontiguousarray(ids, dtype=np.int64)


def check_same_space(
    queries: NDArray[np.generic], gallery: NDArray[np.generic], names: tuple[str, str]
) -> None:
    """Raises `FormatError` if the rows of two arrays have different lengths."""
    if queries.shape[1] != gallery.shape[1]:
        raise FormatError(
            f"{names[0]} and {names[1]} must have rows of one length; "
            f"got {queries.shape[1]} and {gallery.shape[1]}"
        )


def checked_shape(array: ArrayLike, name: str) -> NDArray[np.generic]:
    """`array` unchanged, if it is a table of floats with at least one row and one column.

    Raises:
        FormatError: it is something else.
    """
    rows = np.asarray(array)
    if rows.ndim != 2:
        raise FormatError(f"{name} must have two dimensions, (rows, dimension); got {rows.shape}")
    if not np.issubdtype(rows.dtype, np.floating):
        raise FormatError(f"{name} must hold floats; got {rows.dtype}")
    if 0 in rows.shape:
        raise FormatError(f"{name} must hold at least one row and one column; got {rows.shape}")
    return rows


def exact_units(rows: NDArray[np.generic], start: int, name: str) -> NDArray[np.float64]:
    """`rows` at unit length, in float64; `start` is the index of the first, for messages.

    Raises:
        FormatError: a row is not finite or zero.
    """
    exact = rows.astype(np.float64)
    squares = _squares(exact)
    unusual = ~((squares > _LEAST_SQUARE) & (squares < _MOST_SQUARE))
    if unusual.any():
        exact[unusual] = _at_common_scale(exact[unusual], np.flatnonzero(unusual) + start, name)
        squares = _squares(exact)
    exact /= np.sqrt(squares)[:, None]
    return exact


def _squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The squared length of each row."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows)
    return squares


def _at_common_scale(rows: NDArray[np.float64], at: Ids, name: str) -> NDArray[np.float64]:
    """Rows divided by their largest value, so that squares neither overflow nor underflow.

    `at` names the rows in messages.
    """
    largest = np.abs(rows).max(axis=1)
    _refuse_rows(at[~np.isfinite(largest)], name, "finite", "it holds NaN or infinity")
    _refuse_rows(at[largest == 0], name, "of a length above zero", "it holds only zeros")
    scaled: NDArray[np.float64] = rows / largest[:, None]
    return scaled


def _refuse_rows(bad: Ids, name: str, wanted: str, got: str) -> None:
    if len(bad):
        row = int(bad[0])
        message = f"{name}: every row must be {wanted}, row {row:,} (from 0) is not: {got}"
        raise BadRowError(message, row)


# Arrays from `.npy` files.


def read_array(path: Path) -> NDArray[np.generic]:
    """The array in a file, memory-mapped; object arrays, which could contain code, are refused.

    Raises:
        FormatError: the file is missing, cut, or no `.npy` of numbers.
    """
    try:
        array: NDArray[np.generic] = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist; wanted a .npy file") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise FormatError(
            f"{path} is not a .npy file, is cut off, or holds objects; expected numbers"
        ) from error
    return array
