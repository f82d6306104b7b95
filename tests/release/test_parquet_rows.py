"""Reading rows from Parquet."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from release.row_files import _views


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 5), st.integers(0, 50))
def test_views_equal_the_values_of_an_array_slice(
    values: list[bytes | None], offset: int, length: int
) -> None:
    part = pa.array(values, pa.binary()).slice(offset, length)
    views = _views(part)
    assert [None if view is None else bytes(view) for view in views] == part.to_pylist()
    assert [view and list(view) for view in views] == [
        value and list(value) for value in part.to_pylist()
    ]
