import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotate.answers import ReviewAnswer
from annotate.interfaces.page import definition_list, same_answer, text_similarity


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [("A man.", "a  MAN.\n", 1.0), ("", "", 1.0), ("abcd", "abcx", 0.75), ("a", "", 0.0)],
)
def test_similarity_looks_past_case_and_white_space(
    one: str, other: str, similarity: float
) -> None:
    assert text_similarity(one, other) == pytest.approx(similarity)


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_has_no_direction(one: str, other: str) -> None:
    assert text_similarity(one, other) == text_similarity(other, one)
    assert 0 <= text_similarity(one, other) <= 1
    assert text_similarity(one, one) == 1


def test_a_text_that_only_one_has_is_a_difference() -> None:
    one = ReviewAnswer(verdict="edit", texts={"text": "A man."})
    other = ReviewAnswer(verdict="edit", texts={"text": "A man.", "more": "He walks."})
    assert same_answer(one, one, 1.0)
    assert not same_answer(one, other, 0.0)


def test_other_choices_are_another_answer() -> None:
    one = ReviewAnswer(verdict="accept", choices={"fits": ("yes",)})
    other = ReviewAnswer(verdict="accept", choices={"fits": ("no",)})
    assert not same_answer(one, other, 0.0)


def test_a_definition_list_escapes_and_leaves_out_what_is_empty() -> None:
    rows = [("a<b", "x & y"), ("empty", " ")]
    assert definition_list(rows) == "<dl><dt>a&lt;b</dt><dd>x &amp; y</dd></dl>"
