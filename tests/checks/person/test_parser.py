import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.checks.person.parser import parse_description

_WORDS = (  # noqa: SIM905 - a list would take forty lines
    "a the his her black white red bag hat of with and , . is left hand one no it in shirt stripes "
    "collar woman man 's walking short sleeves zip which has long hair - \n é"
).split(" ")


def facts(text: str) -> set[tuple[str, str, str]]:
    return {
        (fact.subject, fact.attribute.value, fact.value) for fact in parse_description(text).facts()
    }


def test_facts_are_extracted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, set[tuple[str, str, str]]]] = [
        ("A lady in a gray tee.", {("person", "sex", "female"), ("T-shirt", "colour", "grey")}),
        ("She wears a hat. It is black.", {("hat", "colour", "black")}),
        (
            "He has a dark blue jacket.",
            {("jacket", "garment", "jacket"), ("jacket", "colour", "blue")},
        ),
        (
            "A bag in her left hand; the body of the bag is dark blue and the handle is white.",
            {("bag", "side", "left"), ("bag", "colour", "blue"), ("handle", "colour", "white")},
        ),
        (
            "A black and white striped shirt.",
            {
                ("shirt", "colour", "black"),
                ("shirt", "colour", "white"),
                ("shirt", "pattern", "striped"),
            },
        ),
        ("A man without glasses.", {("glasses", "accessory", "no glasses")}),
        ("His jacket reaches his hips.", {("jacket", "length", "hip-length")}),
        ("A long-sleeved shirt.", {("shirt", "length", "long sleeves")}),
        ("Her right hand carries a handbag.", {("handbag", "side", "right")}),
        (
            "An elderly man is walking.",
            {("person", "age", "elderly"), ("person", "action", "walking")},
        ),
        (
            "Her long brown hair is tied in a ponytail.",
            {("hair", "length", "long"), ("hair", "colour", "brown"), ("hair", "hair", "ponytail")},
        ),
    ]
    for text, expected in cases:
        with subtests.test(text=text):
            assert expected <= facts(text)


def test_a_woman_printed_on_a_sweater_is_not_the_person() -> None:
    text = "He wears a gray sweater with a beautiful woman's pattern printed on it."
    assert ("person", "sex", "female") not in facts(text)


def test_spans_point_into_the_text() -> None:
    text = "A young man — he’s wearing a  red T-shirt."
    spans = {fact.value: text[slice(*fact.span)] for fact in parse_description(text).facts()}
    assert spans["T-shirt"] == "T-shirt"
    assert spans["red"] == "red"


@given(st.lists(st.sampled_from(_WORDS), max_size=30))
def test_any_text_is_parsed_without_error(words: list[str]) -> None:
    text = " ".join(words)
    for fact in parse_description(text).facts():
        start, end = fact.span
        assert 0 <= start < end <= len(text)
