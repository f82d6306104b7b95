"""When two captions say the same: one rule for all stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.answers import words_of


def test_signs_and_numbers_are_words() -> None:
    assert words_of("3.5 × 2 = 7!") == ("3.5", "×", "2", "=", "7")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A red car.", "a RED  car"),
        ("A red car, parked", "A red car – parked!"),
        ("“Exit” is written there.", "Exit is written there"),
        ("The man’s hat", "The man's hat."),
        ("街上有一辆车。", "街上有一辆车"),
    ],
)
def test_these_say_the_same(one: str, other: str) -> None:
    assert words_of(one) == words_of(other)


def test_these_say_something_else(subtests: pytest.Subtests) -> None:
    cases = [
        ("It prints -1.", "It prints 1."),
        ("It prints −1.", "It prints 1."),
        ("It asks for 2 + 3.", "It asks for 2 × 3."),
        ("It asks for 2*3.", "It asks for 2**3."),
        ("It prints 3.5.", "It prints 35."),
        ("if x != y", "if x = y"),
        ("It calls __init__.", "It calls init."),
        ("It prints [1, 2].", "It prints (1, 2)."),
        ("dogs chase a cat", "a cat chase dogs"),
    ]
    for one, other in cases:
        with subtests.test(one=one, other=other):
            assert words_of(one) != words_of(other)


@given(st.text(max_size=40))
def test_case_space_and_a_final_stop_never_count(text: str) -> None:
    said = words_of(text)
    assert words_of(f"  {text} .") == said
    assert words_of(" ".join(text.split())) == said
    assert all(words_of(word) for word in said if word != "-")  # a word before a number only
