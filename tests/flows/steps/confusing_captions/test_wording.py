"""Edit distances in words, compared with a literal reference."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.recos.confusion_checks import word_change

texts = st.lists(st.sampled_from(["red", "blue", "car", "a", "3.5"]), max_size=7)


def literal_distance(first: list[str], second: list[str]) -> int:
    @cache
    def rest(i: int, j: int) -> int:
        if i == len(first) or j == len(second):
            return len(first) - i + len(second) - j
        replaced = rest(i + 1, j + 1) + (first[i] != second[j])
        return min(replaced, rest(i + 1, j) + 1, rest(i, j + 1) + 1)

    return rest(0, 0)


@given(texts, texts)
def test_distances_equal_those_of_the_literal_definition(
    first: list[str], second: list[str]
) -> None:
    found = word_change(" ".join(first), " ".join(second))
    assert found == (literal_distance(first, second), max(len(first), len(second)))
    assert 0 <= found.share <= 1


def test_case_and_punctuation_are_no_changes(subtests: pytest.Subtests) -> None:
    cases = [
        ("A red car.", "a RED car", 0),
        ("A red car.", "A green car.", 1),
        ("3 + 4 = 7", "3 - 4 = 7", 1),
        ("the man's hat", "the woman's hat", 1),
        ("3/4", "3/5", 1),
        ("", "", 0),
        ("“Exit” means 出口", "Exit means 入口", 1),
    ]
    for first, second, edits in cases:
        with subtests.test(first=first, second=second, edits=edits):
            assert word_change(first, second).edits == edits
