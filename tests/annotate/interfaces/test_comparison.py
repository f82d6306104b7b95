import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotate.answers import ReviewAnswer
from annotate.interfaces.page import text_similarity
from annotate.interfaces.text_pages import RewriteRevision

PAGE = RewriteRevision()


def test_text_similarity_ignores_case_and_white_space() -> None:
    for one, other, similarity in (
        ("A man.", "a  MAN.\n", 1.0),
        ("", "", 1.0),
        ("abcd", "abcx", 0.75),
        ("a", "", 0.0),
    ):
        assert text_similarity(one, other) == pytest.approx(similarity), (one, other)


@given(st.text(max_size=30), st.text(max_size=30))
def test_text_similarity_is_symmetric(one: str, other: str) -> None:
    assert text_similarity(one, other) == text_similarity(other, one)
    assert 0 <= text_similarity(one, other) <= 1
    assert text_similarity(one, one) == 1


def test_a_text_in_only_one_answer_is_a_difference() -> None:
    one = ReviewAnswer(verdict="edit", texts={"text": "A man."})
    other = ReviewAnswer(verdict="edit", texts={"text": "A man.", "more": "He walks."})
    assert PAGE.same(one, one, 1.0)
    assert not PAGE.same(one, other, 0.0)


def test_answers_with_different_choices_differ() -> None:
    one = ReviewAnswer(verdict="accept", choices={"fits": ("yes",)})
    other = ReviewAnswer(verdict="accept", choices={"fits": ("no",)})
    assert not PAGE.same(one, other, 0.0)
