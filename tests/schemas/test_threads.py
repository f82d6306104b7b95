"""Threads work in order and at most one item ahead."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.processes import ordered_map, read_ahead


@given(st.lists(st.none() | st.integers(), max_size=20))
def test_items_read_ahead_keep_their_order(items: list[int | None]) -> None:
    assert list(read_ahead(iter(items))) == items


def test_the_next_item_is_prepared_in_another_thread() -> None:
    made: list[tuple[int, str]] = []
    second = threading.Event()

    def items() -> Iterator[int]:
        for number in range(3):
            made.append((number, threading.current_thread().name))
            if number == 1:
                second.set()
            yield number

    ahead = read_ahead(items())
    assert next(ahead) == 0
    assert second.wait(300)
    assert [number for number, _ in made] == [0, 1]
    assert all(name != threading.current_thread().name for _, name in made)
    ahead.close()  # type: ignore[attr-defined]


def test_errors_are_raised_after_the_preceding_items() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the file ends here")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="ends here"):
        next(ahead)


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_results_keep_the_order_of_the_items(items: list[int], threads: int) -> None:
    assert list(ordered_map(str, items, threads)) == list(map(str, items))
