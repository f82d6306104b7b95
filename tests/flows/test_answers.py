"""Parsing the answers of models: find the JSON object, clean its texts, reject unusable ones."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loupe.checks.defects import chatter_in, refusal_in
from loupe.checks.text import CAPTION
from loupe.flows.answers import (
    UnusableAnswerError,
    check_language,
    check_translation,
    find_object,
    quoted_answer,
    read_text,
    repairs_of,
    words_of,
)
from loupe.flows.rewriting import read_rewrite
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.records import Rejection
from tests.annotate.interfaces.proposed import PHOTOGRAPHS

ENGLISH = "A red car stands on a street."
FOREIGN = (
    "Ein rotes Auto steht auf der Straße.",
    "Une voiture rouge est garée dans la rue.",
    "Un homme marche.",
    "Un coche rojo está en la calle.",
    "Una macchina rossa si trova sulla strada.",
    "De auto is rood.",
    "Verander de kleur van de auto van rood naar blauw.",
    "Um carro vermelho está na rua.",
    "Czerwony samochód stoi na ulicy.",
    "Sebuah mobil merah berdiri di jalan.",
    "Một chiếc xe màu đỏ đứng trên đường.",
    "街上有一辆红色的汽车。",
    "Красная машина стоит на улице.",
    "赤い車が通りにある。",
    "سيارة حمراء تقف في الشارع",
)


def fault(check: Callable[..., object], *arguments: object) -> str | None:
    """Return the reason for which `check` rejects a text, or None."""
    try:
        check(*arguments)
    except UnusableAnswerError as unusable:
        return unusable.reason
    return None


def test_texts_in_other_languages_are_rejected() -> None:
    missed = [text for text in FOREIGN if fault(check_language, text, "It", ENGLISH) is None]
    assert missed == ["De auto is rood."]


def test_foreign_names_and_quoted_words_are_accepted() -> None:
    cases = [
        "Change the Labrador Retriever into a Siberian Husky.",
        "A croissant on a plate",
        "Redraw it as ukiyo-e",
        "A man in a kimono eats sushi and sashimi.",
        "A yellow taxi in Manhattan",
        "A sign that says «Achtung, hier wird gebaut» on a wall",
        "A shop window with the word “餃子”",
        "Husky",
    ]
    for text in cases:
        assert fault(check_language, text, "It", ENGLISH) is None, text


@pytest.mark.skipif(not PHOTOGRAPHS.exists(), reason="needs captions of photographs")
def test_no_published_caption_is_rejected_as_foreign() -> None:
    rows = (PHOTOGRAPHS / "annotations.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [one["caption"] for row in rows for one in json.loads(row)["captions"]]
    assert [one for one in captions if fault(check_language, one, "It", ENGLISH)] == []


def test_a_translation_must_be_in_the_requested_language() -> None:
    cases = [
        (ENGLISH.upper(), "de", "untranslated"),
        ("A car that is red is on the street.", "zh", "wrong_language"),
        ("A car that is red stands there on the street.", "de", "wrong_language"),
        ("Красная машина стоит на улице города.", "zh", "wrong_language"),
        ("Ein rotes Auto.", "de", None),
        ("街上有一辆红色的汽车。", "zh", None),
    ]
    for text, language, reason in cases:
        assert fault(check_translation, text, "It", ENGLISH, language) == reason, text


@given(st.text(max_size=80), st.integers(1, 60))
def test_accepted_text_is_a_plain_line(text: str, most: int) -> None:
    read = detail = ""
    try:
        read = read_text(text, "It", most, CAPTION)
    except UnusableAnswerError as unusable:
        detail = unusable.detail
    if detail:
        assert detail.startswith("It")
        assert json.dumps(detail)
        return
    assert 0 < len(read) <= most
    assert read == " ".join(read.split())
    assert not any(sign in read.split('"')[0] for sign in "{}\x00\x1b\u202e\ufeff")


@given(st.text(max_size=9000))
def test_a_quoted_answer_is_one_line_without_markers(raw: str) -> None:
    quoted = quoted_answer(raw)
    assert "<" not in quoted
    assert "\n" not in quoted
    assert isinstance(json.loads(quoted), str)
    if len(raw) <= 6000:
        assert json.loads(quoted) == raw


def test_a_foreign_text_in_quotation_marks_is_rejected() -> None:
    assert fault(check_language, f'"{FOREIGN[0]}"', "It", ENGLISH) == "wrong_language"


def test_markup_in_a_text_is_accepted_only_in_a_quotation() -> None:
    cases: list[tuple[str, str | None]] = [
        ('A shirt that says "<think>".', None),
        ("A shirt that says <think>.", "markup"),
        ('"<b>A red car.</b>"', "markup"),
        ("A car that says {go}.", "markup"),
        ('A car \\"red\\" in colour.', "markup"),
        ("12 + 3", "no_words"),
        ("I cannot see the image.", "refusal"),
    ]
    for text, reason in cases:
        assert fault(read_text, text, "It", 80, CAPTION) == reason, text


def test_a_text_at_its_limit_or_without_an_end_was_cut() -> None:
    assert fault(read_text, ENGLISH, "It", len(ENGLISH) + 1) is None
    assert fault(read_text, ENGLISH, "It", len(ENGLISH)) == "truncated_answer"
    assert fault(read_text, ENGLISH[:-1], "It", 80) == "truncated_answer"
    assert fault(read_text, "A red car stands on a str", "It", 80) == "truncated_answer"
    assert fault(read_text, "A red car stands on a", "It", 80, CAPTION) == "truncated_answer"
    assert fault(read_text, "A red car on a street", "It", 80, CAPTION) is None


# The JSON object of an answer, with any text around it and any quotation in it.

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
def test_texts_of_the_object_are_returned_unchanged(text: str, around: str) -> None:
    content = {"caption": text}
    found = find_object(around.replace("{}", json.dumps(content)))
    assert found is not None
    assert found.value == content


def test_truncated_and_ambiguous_answers_are_rejected() -> None:
    cases = [
        ('<think>{"caption": "a"}', "truncated_answer"),
        ('{"caption": "a"} <think>or', "truncated_answer"),
        ('{"caption": "a"} {"caption": "b"}', "unparseable_answer"),
        ("{caption}", "unparseable_answer"),
    ]
    for raw, reason in cases:
        assert fault(find_object, raw) == reason, raw


def test_a_value_that_is_no_number_is_not_a_field_named_twice() -> None:
    found = find_object('{"caption": NaN, "note": "a"}')
    assert found is not None
    assert list(found.value) == ["caption", "note"]
    assert fault(find_object, '{"caption": NaN, "caption": NaN}') == "unparseable_answer"


WANTED: dict[str, Any] = {"properties": {"caption": {}}}


def test_a_good_answer_in_a_bad_form_is_read_and_what_was_repaired_is_said() -> None:
    cases = [
        ('```json\n{"caption": "a"}', "its fence did not end"),
        ('{"caption": "a",}', "JSON repaired"),
        ("{'caption': 'a'}", "JSON repaired"),
        ('{"caption": "a"} {"caption": "a"}', "the object came twice"),
        ('{"caption": "a", "caption": "a"}', None),
        ('{"caption": "a", "why": "b"}', "ignored the fields 'why'"),
        ('{"name": "answer", "arguments": {"caption": "a"}}', "a tool call"),
        ('{"function": {"name": "f", "arguments": "{\\"caption\\": \\"a\\"}"}}', "a tool call"),
        ('<tool_call>{"name": "f", "arguments": {"caption": "a"}}</tool_call>', "a tool call"),
    ]
    for raw, repair in cases:
        found = find_object(raw)
        assert found is not None, raw
        assert found.value["caption"] == "a", raw
        assert (repair in repairs_of(answered(raw), WANTED)) is (repair is not None), raw
    assert repairs_of(answered('{"caption": "a"}'), WANTED) == ()
    assert repairs_of(answered("{caption}"), WANTED) == ()


@given(st.integers(2, 60), st.sampled_from(("", "}", '"', "```", "}\n```", "</s>")))
def test_json_that_was_cut_is_never_repaired(end: int, after: str) -> None:
    raw = json.dumps({"caption": "A {red} car, a {blue} one and 'others' on a street."})
    cut = raw[: min(end, len(raw) - 3)] + after.replace('"', "")
    assume(not cut.startswith("{}"))  # an object that is empty and whole
    assert fault(find_object, cut) is not None


def test_an_answer_may_have_no_object() -> None:
    cases = ["", "A dog.", "[1]", '{"a": 1}</think>', "<think>{}</think> A dog.", '{"a": "</think>']
    for raw in cases:
        assert find_object(raw) is None, raw


# Rewrites.

TEXT = "A man in a red coat walks."
ANSWER = json.dumps({"rewrite": TEXT})


def answered(text: str) -> ChatAnswer:
    return ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0.1)


def read(raw: str) -> str | Rejection:
    return read_rewrite(answered(raw), TEXT, 200)


def test_reasoning_and_fences_around_the_rewrite_are_removed() -> None:
    cases: list[str] = [
        ANSWER,
        TEXT,
        f'<think>The coat is red. {{"rewrite": "no"}}</think>\n{ANSWER}',
        f"The coat is red.</think>{ANSWER}",
        f"<think>one</think><reasoning>two</reasoning>{TEXT}",
        f"```json\n{ANSWER}\n```",
        f"Sure! Here is the JSON:\n```\n{ANSWER}\n```\nLet me know if you need more.",
        f"<|im_start|>{ANSWER}<|im_end|>",
        json.dumps({"rewrite": "A man in a  red\ncoat walks."}),
        json.dumps({"rewrite": TEXT, "why": "because"}),
    ]
    for raw in cases:
        assert read(raw) == TEXT, raw


def test_nothing_is_cut_off_a_text_to_make_it_clean() -> None:
    cases: list[str] = [
        f"Sure, here is the rewritten description:\n\n{TEXT}",
        f'Certainly! Here\'s a reorganized version of the description:\n"{TEXT}"',
        f"**Rewritten description:** {TEXT}",
        f"“{TEXT}”",
        json.dumps({"rewrite": f"Sure, here is the rewritten description: {TEXT}"}),
        json.dumps({"rewrite": f"<think>red</think> {TEXT}"}),
    ]
    for raw in cases:
        assert isinstance(read(raw), Rejection), raw


def test_an_answer_without_a_rewrite_is_rejected() -> None:
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
        ("missing_field", '{"text": "A man."}'),
        ("wrong_type", '{"rewrite": 3}'),
        ("unparseable_answer", '{"rewrite": "a"} {"rewrite": "b"}'),
        ("unparseable_answer", '{"rewrite": "a", "rewrite": "b"}'),
        ("markup", '["A man."]'),
        ("too_long", json.dumps({"rewrite": "A man. " * 100})),
    ]
    for reason, raw in cases:
        result = read(raw)
        assert isinstance(result, Rejection), raw
        assert (result.stage, result.reason) == ("rewrite_description", reason), raw
        assert result.context == {"answer": raw}


def test_an_answer_at_the_token_limit_is_rejected() -> None:
    cut = answered(ANSWER).model_copy(update={"truncated": True})
    result = read_rewrite(cut, TEXT, 200)
    assert isinstance(result, Rejection)
    assert result.reason == "truncated_answer"


@settings(deadline=None)
@given(
    start=st.integers(0, len(ANSWER)),
    length=st.integers(0, 12),
    inserted=st.text(max_size=6),
    wrap=st.sampled_from(("{}", "<think>x</think>{}", "```json\n{}\n```", "Sure: {}", "{} Bye")),
)
def test_mutated_answers_are_cleaned_or_rejected_with_the_raw_answer(
    start: int, length: int, inserted: str, wrap: str
) -> None:
    mutated = ANSWER[:start] + inserted + ANSWER[start + length :]
    answer = answered(wrap.replace("{}", mutated))
    result = read_rewrite(answer, TEXT, 200)
    if isinstance(result, Rejection):
        assert result.context["answer"] == answer.text
        return
    assert result
    assert len(result) <= 200
    assert not any(mark in result.lower() for mark in ('{"', "<think", "```", '"rewrite":'))


def test_control_characters_escaped_in_json_are_rejected() -> None:
    for escape in (r"\ud800", r"\u0000", r"\u001b[2J", r"\u202e"):
        said = f'{{"rewrite": "A man {escape} in a coat."}}'
        answer = read(said)
        assert isinstance(answer, Rejection), escape
        assert answer.reason == "control_characters", escape
        assert answer.model_dump_json()


# Refusals and chatter, and captions that quote them or only sound like them.

REFUSALS = (
    "I'm sorry, but I can't identify people in images.",
    "I’m really sorry, but I cannot help with that.",
    "Sorry, I can't assist with that request.",
    "I can't help with identifying people.",
    "I am unable to view images.",
    "I apologize, but this is against our guidelines.",
    "Unfortunately, I cannot describe this picture.",
    "As an AI, I do not have eyes.",
    "As a large language model, I have no opinion.",
    "It shows two people, but I won't identify them.",
    '"I cannot describe real people."',
    "We are not able to process this image.",
    "My apologies, this cannot be done.",
)
CAPTIONS = (
    'A card that reads "I\'m sorry" lies on a table.',
    "A poster reads “I can't help falling in love”.",
    "A T-shirt that reads I can't help it.",
    "A sign says «Sorry, we are closed».",
    "A sorry dog lies on a rug.",
    "A robot as an aid in a ward.",
    "A man who cannot see leads a dog.",
    "Here is a dog: it sleeps.",
    "The answer is 42: a sum on a board.",
    "Sure footing: a goat on a rock.",
    "A version of the Mona Lisa: she wears a hat.",
    "A girl makes her apologies.",
)


def test_refusals_are_detected() -> None:
    for text in REFUSALS:
        assert refusal_in(text), text


def test_captions_that_sound_like_refusals_are_accepted() -> None:
    for text in CAPTIONS:
        assert refusal_in(text) is None, text
        assert chatter_in(text) is None, text


def test_chatter_is_detected() -> None:
    for text in (
        "Sure! Here is the caption: A dog.",
        "Here's a rewritten version: A dog.",
        "Certainly, I have looked at it. A dog.",
        "Here are the captions you asked for: A dog.",
    ):
        assert chatter_in(text), text


# When two captions say the same: the rule that all stages use.


def test_captions_with_different_words_differ() -> None:
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
        assert words_of(one) != words_of(other), one


@given(st.text(max_size=40))
def test_white_space_and_a_final_stop_do_not_matter(text: str) -> None:
    words = words_of(text)
    assert words_of(f"  {text} .") == words
    assert words_of(" ".join(text.split())) == words
    assert all(words_of(word) for word in words if word != "-")  # a word before a number only
