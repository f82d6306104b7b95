"""Parsing the description of a person from an answer."""

from loupe.flows.ufine6926.describing import read_description
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.records import Rejection


def answered(text: str) -> ChatAnswer:
    return ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0.1)


def test_a_description_is_read_after_its_reasoning() -> None:
    answer = answered("<think>A coat.</think>\n\nA man in a red coat walks.")
    assert read_description(answer, 200) == "A man in a red coat walks."


def test_an_answer_without_a_description_is_rejected() -> None:
    for text, reason in (
        ("I'm sorry, but I can't identify people in images.", "refusal"),
        ("<think>A man", "truncated_answer"),
        ("Sure, here is the description:\n\nA man in a red coat walks.", "chatter"),
    ):
        found = read_description(answered(text), 200)
        assert isinstance(found, Rejection), text
        assert (found.stage, found.reason) == ("describe_person", reason)
        assert found.context["answer"] == text
