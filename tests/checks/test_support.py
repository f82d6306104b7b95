"""Each part of a rewrite is supported by its source, in any domain, and forms on top of it."""

import json
from itertools import product
from pathlib import Path

import pytest

from loupe.checks.support import foreign_words, length_share, unsupported_parts
from loupe.flows.faithfulness import check_written
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import FaithfulnessSettings
from tests.checks.forms import REMARKS, Described, described

TEXT_FORMS = Path("../shared/cases/text-forms.jsonl")
ADDED = {
    "en": (
        "They look sad and tired.",
        "The overall impression is one of confidence.",
        "Once upon a time, there lived a king.",
        "Here is the rewritten version.",
        "All facts were kept.",
        "This description has 32 words.",
        "Content warning follows.",
    ),
    "de": ("Alle wirken traurig und müde.", "Es war einmal ein König."),
    "zh": ("整体印象令人愉悦。",),
}


ENGLISH_ONES = [one for one in described() if one.language == "en"]


def verdict(source: str, text: str, language: str) -> str:
    settings = FaithfulnessSettings(language=language)
    found = check_written(RewritePair(source=source, rewrite=text), settings, 2000)
    return found.verdict if isinstance(found, FaithfulnessReport) else found.reason


@pytest.mark.parametrize("one", described(), ids=lambda one: str(one.domain))
def test_a_sentence_without_a_word_of_its_source_is_suspect(one: Described) -> None:
    for good in one.good:
        assert verdict(one.source, good, one.language) == "faithful", good
        assert length_share(one.source, good, one.language) > 0.8
        space = "" if one.language == "zh" else " "
        for added in ADDED[one.language]:
            text = f"{good}{space}{added}"
            [*_, last] = unsupported_parts(one.source, text, one.language)
            assert added.startswith(last.text[:9]) or last.text in added
            assert verdict(one.source, text, one.language) == "suspect", text


@pytest.mark.parametrize("one", ENGLISH_ONES, ids=lambda one: str(one.domain))
def test_what_is_no_part_of_a_description_is_not_faithful(one: Described) -> None:
    for good, spoil in product(one.good, REMARKS.values()):
        text = spoil(one.source, good)
        assert verdict(one.source, text, one.language) != "faithful", text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The red bus waits at the crossing, probably empty.", ["probably empty."]),
        ("The red bus waits at the crossing, empty.", []),
        ("Empty, the red bus waits at the crossing.", ["Empty"]),
        ("The bus waits at the crossing, empty, deserted.", ["empty, deserted."]),
        (
            "Four large empty lorries overtake the bus.",
            ["Four large empty lorries overtake the bus."],
        ),
        ("Four empty lorries by the red bus.", []),
        ("Empty lorries overtake the bus.", ["Empty lorries overtake the bus."]),
        ("Empty lorries near the bus.", ["Empty lorries near the bus."]),
        ("The bus looks dirty.", ["The bus looks dirty."]),
        (
            "The bus is empty.",
            [],
        ),  # a fact in two words is not found without a check of its subject
        ("The red bus looks dirty.", []),
        ("Nice photo, the red bus waits at the crossing.", ["Nice photo"]),
        (
            "Five large empty lorries overtake the red bus.",
            ["Five large empty lorries overtake the red bus."],
        ),
        ("Really very nicely, the red bus waits at the crossing.", ["Really very nicely"]),
    ],
)
def test_a_clause_of_two_words_needs_support_and_a_long_sentence_a_third(
    text: str, parts: list[str]
) -> None:
    source = "A red bus waits at a crossing."
    assert [part.text for part in unsupported_parts(source, text)] == parts


@pytest.mark.parametrize(
    ("language", "text", "foreign"),
    [
        ("en", "A bus mit red lights waits.", ["mit"]),
        ("de", "Ein roter Bus waits und steht with Licht am Übergang.", ["with"]),
        ("es", "Un autobús rojo waits from la calle.", ["from"]),
        ("zh", "一辆红色的 bus 在路口等待，车身有 Logo 和 LED 灯。", ["bus"]),
        ("zh", "一辆红色的 tram 在路口等待。", []),
    ],
)
def test_words_of_other_languages_are_named(language: str, text: str, foreign: list[str]) -> None:
    """Content words of a language in the same script are not told apart without a dictionary."""
    assert foreign_words("red tram Bus", text, language) == foreign


def test_a_rewrite_far_shorter_than_its_source_is_suspect() -> None:
    one = described()[0]
    assert verdict(one.source, "A red bus waits at a crossing.", "en") == "suspect"


@pytest.mark.skipif(not TEXT_FORMS.exists(), reason="../shared/cases/text-forms.jsonl is not here")
def test_only_good_texts_of_the_shared_forms_are_faithful() -> None:
    rows = [json.loads(line) for line in TEXT_FORMS.read_text("utf-8").splitlines()]
    wrong = [
        (row["kind"], row["rewrite"])
        for row in rows
        if (verdict(row["source"], row["rewrite"], "en") == "faithful") != (row["kind"] == "good")
    ]
    assert wrong == []
