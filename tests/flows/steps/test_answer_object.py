"""The object of an answer is found whatever stands around it and whatever it quotes."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.answers import UnusableAnswerError, find_object

_PIECES = st.sampled_from(
    ("<think>", "</think>", "```", "```json", "</s>", "<|im_end|>", "[INST]", "{", "}", '"', "a ")
)
_TEXTS = st.lists(st.one_of(_PIECES, st.text(max_size=5)), max_size=8).map("".join)
_AROUND = st.sampled_from(
    (
        "{}",
        "<think>It is {no} object.</think>{}",
        "It is {no} object.</think>\n{}",
        "Sure:\n```json\n{}\n```\nDone.",
        "In the form {caption}, as you said:\n{}\nIt fits {all} of it.",
        "<|im_start|>assistant\n{}<|im_end|>",
        "{} <think>Was that right? {yes}</think>",
        "<think>a</think><reasoning>b</reasoning>{}\nI hope it helps.",
    )
)


@given(_TEXTS, _AROUND)
def test_texts_come_back_to_the_letter(text: str, around: str) -> None:
    content = {"caption": text}
    assert find_object(around.replace("{}", json.dumps(content))) == content


@given(_TEXTS, st.text(max_size=20))
def test_any_answer_gives_an_object_none_or_an_error_of_ours(one: str, other: str) -> None:
    with suppress(UnusableAnswerError):
        found = find_object(one + other)
        assert found is None or isinstance(found, dict)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('<think>{"caption": "a"}', "truncated_answer"),
        ('```json\n{"caption": "a"}', "truncated_answer"),
        ('{"caption": "a"} <think>or', "truncated_answer"),
        ('{"caption": "a"} {"caption": "b"}', "unparseable_answer"),
        ("{caption}", "unparseable_answer"),
    ],
)
def test_what_is_no_answer(raw: str, reason: str) -> None:
    with pytest.raises(UnusableAnswerError) as error:
        find_object(raw)
    assert error.value.reason == reason


def test_there_may_be_none(subtests: pytest.Subtests) -> None:
    cases = ["", "A dog.", "[1]", '{"a": 1}</think>', "<think>{}</think> A dog.", '{"a": "</think>']
    for raw in cases:
        with subtests.test(raw=raw):
            assert find_object(raw) is None
