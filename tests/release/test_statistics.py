import statistics
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from release.rows import natural_key
from release.statistics import distribution, words_of

BUSY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_texts_are_split_into_words() -> None:
    cases: list[tuple[str, list[str]]] = [
        ("", []),
        ("A T-shirt, a woman's bag.", ["a", "t-shirt", "a", "woman's", "bag"]),
        ("She’s in BLUE — jeans", ["she’s", "in", "blue", "jeans"]),
        ("25 years, snake_case", ["25", "years", "snake", "case"]),
    ]
    for text, words in cases:
        assert words_of(text) == words, (text, words)


@BUSY_MACHINE
@given(st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_a_distribution_equals_statistics_of_sorted_numbers(numbers: list[int]) -> None:
    found = distribution(Counter(numbers))
    ordered = sorted(numbers)
    assert found.mean == round(statistics.fmean(numbers), 2)
    assert (found.count, found.minimum, found.maximum) == (len(numbers), ordered[0], ordered[-1])
    for value, quarters in (
        (found.lower_quartile, 1),
        (found.median, 2),
        (found.upper_quartile, 3),
    ):
        assert value == ordered[max(0, -(-len(ordered) * quarters // 4) - 1)]


def test_no_numbers_have_an_empty_distribution() -> None:
    assert distribution({}).count == 0


@BUSY_MACHINE
@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=2))
def test_numbers_in_texts_are_sorted_numerically(pair: list[int]) -> None:
    first, second = (natural_key(f"dir/{number}.jpg") for number in pair)
    assert (first < second) == (pair[0] < pair[1])


@BUSY_MACHINE
@given(st.text(), st.text())
def test_different_texts_have_different_keys(first: str, second: str) -> None:
    assert (natural_key(first) == natural_key(second)) == (first == second)


def test_natural_order_ignores_leading_zeros() -> None:
    texts = ["a10", "a9", "a", "a09", "b1", "a9b", "a-1"]
    assert sorted(texts, key=natural_key) == ["a", "a09", "a9", "a9b", "a10", "a-1", "b1"]
