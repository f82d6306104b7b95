"""The key of a model call covers everything that can change an answer."""

import pytest

from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatRequest, ModelRef

MODEL = ModelRef(name="m", revision="1")
REQUEST = ChatRequest(purpose="rewrite", prompt="Say: a", prompt_digest="d", subject="a")


def test_equal_calls_have_one_key() -> None:
    parameters = {"temperature": 0.7, "seed": 1}
    swapped = {"seed": 1, "temperature": 0.7}
    assert REQUEST.key(MODEL, parameters) == REQUEST.model_copy().key(MODEL, swapped)


def test_fields_that_can_change_an_answer_change_the_key(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, object]] = [
        {"prompt": "Say: b"},
        {"prompt_digest": "e"},
        {"subject": "b"},
        {"answer_schema": {"type": "object"}},
        {"images": (ChatImage(media_type="image/png", data=b"1"),)},
    ]
    for case, change in enumerate(cases):
        with subtests.test(case=case):
            assert REQUEST.model_copy(update=change).key(MODEL, {}) != REQUEST.key(MODEL, {})


def test_model_revision_and_parameters_change_the_key() -> None:
    keys = {
        REQUEST.key(MODEL, {}),
        REQUEST.key(ModelRef(name="m", revision="2"), {}),
        REQUEST.key(MODEL, {"seed": 1}),
    }
    assert len(keys) == 3


def test_characters_that_a_database_cannot_store_are_escaped() -> None:
    answer = ChatAnswer(text="a\0b\ud800c", tokens_in=1, tokens_out=1, seconds=0)
    assert answer.text == r"a\x00b\ud800c"
    failure = ChatFailure(reason="server_error", detail="\ud800", retriable=False, raw="\0")
    assert (failure.detail, failure.raw) == (r"\ud800", r"\x00")


def test_repr_does_not_contain_image_bytes() -> None:
    assert "secret" not in repr(ChatImage(media_type="image/png", data=b"secret"))
