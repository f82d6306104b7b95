import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.answers import clean_answer
from schemas.records import Rejection

TEXT = "A man in a red coat walks."
ANSWER = json.dumps({"rewrite": TEXT})


def test_only_the_rewrite_is_left(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        ANSWER,
        TEXT,
        f'<think>The coat is red. {{"rewrite": "no"}}</think>\n{ANSWER}',
        f"The coat is red.</think>{ANSWER}",
        f"<think>one</think><reasoning>two</reasoning>{TEXT}",
        f"```json\n{ANSWER}\n```",
        f"Sure! Here is the JSON:\n```\n{ANSWER}\n```\nLet me know if you need more.",
        f"Sure, here is the rewritten description:\n\n{TEXT}",
        f'Certainly! Here\'s a reorganized version of the description:\n"{TEXT}"',
        f"**Rewritten description:** {TEXT}",
        f"Rewritten description: {TEXT}\n\nLet me know if you would like another version.",
        f"{TEXT}\n\nI hope this helps!",
        f"“{TEXT}”",
        json.dumps({"rewrite": f"Sure, here is the rewritten description: {TEXT}"}),
        json.dumps({"rewrite": f"<think>red</think> {TEXT}"}),
        f"<|im_start|>{ANSWER}<|im_end|>",
        json.dumps({"rewrite": "A man in a  red\ncoat walks."}),
    ]
    for raw in cases:
        with subtests.test(raw=raw):
            assert clean_answer(raw, 200) == TEXT


def test_what_holds_no_rewrite_is_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("empty", ""),
        ("empty", "<think>nothing</think>"),
        ("empty", '{"rewrite": "  "}'),
        ("truncated_answer", "<think>The coat is"),
        ("truncated_answer", '{"rewrite": "A man in a r'),
        ("truncated_answer", '{"rewr'),
        ("truncated_answer", '{"rewrite": "A man."'),
        ("truncated_answer", '```json\n{"rewrite": "A'),
        ("unparseable_answer", '{"rewrite": A man}'),
        ("unparseable_answer", '{"text": "A man."}'),
        ("unparseable_answer", '{"rewrite": 3}'),
        ("unparseable_answer", '{"rewrite": "a"} {"rewrite": "b"}'),
        ("unparseable_answer", '{"rewrite": "a", "rewrite": "b"}'),
        ("unparseable_answer", '["A man."]'),
        ("extra_fields", '{"rewrite": "A man.", "why": "because"}'),
        ("too_long", json.dumps({"rewrite": "A man. " * 100})),
    ]
    for reason, raw in cases:
        with subtests.test(reason=reason, raw=raw):
            result = clean_answer(raw, 200)
            assert isinstance(result, Rejection)
            assert (result.stage, result.reason) == ("rewrite_description", reason)
            assert result.context == {"answer": raw}


def test_an_answer_at_the_token_limit_is_rejected() -> None:
    result = clean_answer(ANSWER, 200, truncated=True)
    assert isinstance(result, Rejection)
    assert result.reason == "truncated_answer"


@settings(max_examples=400, deadline=None)
@given(
    start=st.integers(0, len(ANSWER)),
    length=st.integers(0, 12),
    inserted=st.text(max_size=6),
    wrap=st.sampled_from(("{}", "<think>x</think>{}", "```json\n{}\n```", "Sure: {}", "{} Bye")),
)
def test_mutated_answers_are_never_lost_and_never_wrongly_taken(
    start: int, length: int, inserted: str, wrap: str
) -> None:
    mutated = ANSWER[:start] + inserted + ANSWER[start + length :]
    raw = wrap.replace("{}", mutated)
    result = clean_answer(raw, 200)
    if isinstance(result, Rejection):
        assert result.context["answer"] == raw
        return
    assert result
    assert len(result) <= 200
    assert not any(mark in result.lower() for mark in ('{"', "<think", "```", '"rewrite":'))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, len(ANSWER) - 1))
def test_a_cut_json_answer_is_never_taken(end: int) -> None:
    assert isinstance(clean_answer(ANSWER[:end], 200), Rejection)


@pytest.mark.parametrize("escape", [r"\ud800", r"\u0000", r"\u001b[2J", r"\u202e"])
def test_controls_that_json_smuggles_in_never_reach_a_caption(escape: str) -> None:
    answer = clean_answer(f'{{"rewrite": "A man {escape} in a coat."}}', 2000)
    assert isinstance(answer, Rejection)
    assert answer.reason == "control_characters"
    assert answer.model_dump_json()
