"""Requests for pairs of sign texts, and parsing of their answers."""

import json
from typing import Any

import pytest

from loupe.flows.recos.sign_pairs import read_sign_pairs, request_sign_pairs
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.records import Rejection
from loupe.schemas.requests import SignCategory, SignPair, SignPairsBrief

EXIT = SignPair(category=SignCategory.DOOR, chinese="出口", english="Exit")
GOOD = {"kind": "notice", "chinese": "请上二楼", "english": "Please go upstairs"}


def read(text: str, count: int = 3, truncated: bool = False) -> list[SignPair | Rejection]:
    answer = ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0, truncated=truncated)

    def undrawable(pair: SignPair) -> str | None:
        return "龘" if "龘" in pair.chinese else None

    return read_sign_pairs(answer, count, [EXIT], "call", undrawable)


def pairs(*values: object) -> str:
    return json.dumps({"pairs": values})


def test_a_request_lists_pairs_that_are_already_taken() -> None:
    request = request_sign_pairs(7, [EXIT], load_prompt("write_sign_pairs"))
    assert SignPairsBrief.parse(request.subject) == SignPairsBrief(count=7, taken=("出口 = Exit",))
    assert request.subject in request.prompt
    assert request.images == ()
    assert request.answer_schema is not None
    items = request.answer_schema["properties"]["pairs"]
    assert items["maxItems"] == 7
    assert items["items"]["properties"]["kind"]["enum"] == [one.value for one in SignCategory]


def test_good_pairs_record_their_model_call() -> None:
    (pair,) = read(f"<think>hm</think>```json\n{pairs(GOOD)}\n```")
    assert pair == SignPair(
        category=SignCategory.NOTICE,
        chinese="请上二楼",
        english="Please go upstairs",
        model_call="call",
    )


def test_bad_pairs_are_rejected_and_good_ones_are_kept(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"chinese": "Upstairs"}, "wrong_language"),
        ({"chinese": "上2楼"}, "wrong_language"),
        ({"english": "二楼"}, "wrong_language"),
        ({"english": "2"}, "wrong_language"),
        ({"english": "I'm sorry, I cannot help with that."}, "refusal"),
        ({"english": "x" * 49}, "too_long"),
        ({"chinese": "楼" * 15}, "too_long"),
        ({"english": ""}, "empty"),
        ({"english": 5}, "wrong_type"),
        ({"english": "Up\u202estairs"}, "control_characters"),
        ({"kind": "poster"}, "wrong_kind"),
        ({"kind": ["notice"]}, "wrong_kind"),
        ({"chinese": "出口"}, "duplicate_text"),
        ({"english": "EXIT"}, "duplicate_text"),
        ({"chinese": "龘"}, "no_glyph"),
    ]
    for change, reason in cases:
        with subtests.test(change=change, reason=reason):
            bad, good = read(pairs({**GOOD, **change}, GOOD))
            assert isinstance(bad, Rejection)
            assert bad.reason == reason
            assert json.loads(bad.context["pair"]) == {**GOOD, **change}
            assert isinstance(good, SignPair)


def test_a_repeated_pair_is_accepted_once() -> None:
    first, second = read(pairs(GOOD, {**GOOD, "english": "Go upstairs, please"}))
    assert isinstance(first, SignPair)
    assert isinstance(second, Rejection)
    assert second.reason == "duplicate_text"


def test_answers_without_pairs_give_one_rejection(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("I'm sorry, I cannot help with that.", "refusal"),
        ("出口 = Exit", "unparseable_answer"),
        ('{"pairs": [{"kind": "no', "truncated_answer"),
        ('{"texts": []}', "missing_field"),
        ('{"pairs": {}}', "wrong_type"),
        ('{"pairs": []}', "wrong_count"),
        (pairs(GOOD, GOOD, GOOD, GOOD), "wrong_count"),
        ('{"pairs": ["\\ud800"]}', "wrong_type"),
    ]
    for text, reason in cases:
        with subtests.test(text=text, reason=reason):
            (found,) = read(text)
            assert isinstance(found, Rejection)
            assert found.reason == reason
            found.model_dump_json().encode()
