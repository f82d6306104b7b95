"""Texts of answers: clean, in the language of a caption, or refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.answers import (
    Fault,
    answer_object,
    language_fault,
    quoted_answer,
    read_line,
    read_text,
    translation_fault,
)
from tests.annotate.interfaces.proposed import PHOTOGRAPHS
from tests.flows.steps.contrast_strategies.proposals import answered

ENGLISH = "A red car stands on a street."
FOREIGN = (
    "Das Auto ist rot.",
    "Ein rotes Auto steht auf der Straße.",
    "Ändere die Farbe des Autos von Rot zu Blau.",
    "Male das Auto blau und lass alles andere, wie es ist.",
    "La voiture est rouge.",
    "Une voiture rouge est garée dans la rue.",
    "Changer la couleur de la voiture du rouge au bleu.",
    "Un homme marche.",
    "El coche es rojo.",
    "Un coche rojo está en la calle.",
    "Cambia el color del coche de rojo a azul.",
    "La macchina è rossa.",
    "Una macchina rossa si trova sulla strada.",
    "Cambia il colore della macchina da rosso a blu.",
    "De auto is rood.",
    "Een rode auto staat op straat.",
    "Verander de kleur van de auto van rood naar blauw.",
    "O carro é vermelho.",
    "Um carro vermelho está na rua.",
    "Samochód jest czerwony.",
    "Czerwony samochód stoi na ulicy.",
    "Mobil itu berwarna merah.",
    "Sebuah mobil merah berdiri di jalan.",
    "Một chiếc xe màu đỏ đứng trên đường.",
    "街上有一辆红色的汽车。",
    "Красная машина стоит на улице.",
    "赤い車が通りにある。",
    "سيارة حمراء تقف في الشارع",
)


def test_other_languages_are_found() -> None:
    missed = [text for text in FOREIGN if language_fault(text, "It", ENGLISH) is None]
    assert missed == ["De auto is rood."]


def test_names_and_quoted_words_are_english_enough(subtests: pytest.Subtests) -> None:
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
        with subtests.test(text=text):
            assert language_fault(text, "It", ENGLISH) is None


@pytest.mark.skipif(not PHOTOGRAPHS.exists(), reason="needs captions of photographs")
def test_no_published_caption_is_called_foreign() -> None:
    rows = (PHOTOGRAPHS / "annotations.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [one["caption"] for row in rows for one in json.loads(row)["captions"]]
    assert [one for one in captions if language_fault(one, "It", ENGLISH)] == []


@pytest.mark.parametrize(
    ("text", "language", "reason"),
    [
        (ENGLISH.upper(), "de", "untranslated"),
        ("A car that is red is on the street.", "zh", "wrong_language"),
        ("A car that is red stands there on the street.", "de", "wrong_language"),
        ("Красная машина стоит на улице города.", "zh", "wrong_language"),
    ],
)
def test_what_is_no_translation(text: str, language: str, reason: str) -> None:
    fault = translation_fault(text, "It", ENGLISH, language)
    assert fault is not None
    assert fault.reason == reason


def test_translations_are_taken() -> None:
    assert translation_fault("Ein rotes Auto.", "It", ENGLISH, "de") is None
    assert translation_fault("街上有一辆红色的汽车。", "It", ENGLISH, "zh") is None


@given(st.text(max_size=80), st.integers(1, 60))
def test_what_is_taken_is_a_plain_line(text: str, most: int) -> None:
    read = read_text(text, "It", most)
    if isinstance(read, Fault):
        assert read.detail.startswith("It")
        assert json.dumps(read.detail)
        return
    assert 0 < len(read) <= most
    assert read == " ".join(read.split())
    assert not any(sign in read for sign in "{}\x00\x1b\u202e\ufeff")


@given(st.text(max_size=9000))
def test_a_quoted_answer_is_one_line_that_ends_no_marker(raw: str) -> None:
    quoted = quoted_answer(raw)
    assert "<" not in quoted
    assert "\n" not in quoted
    assert isinstance(json.loads(quoted), str)
    if len(raw) <= 6000:
        assert json.loads(quoted) == raw


@pytest.mark.parametrize("raw", ['{"a": ' + "9" * 5000 + "}", "no", '{"a": 1} {"b": 2}', "[1]"])
def test_an_answer_without_one_object_is_refused(raw: str) -> None:
    found = answer_object(answered(raw), "ask")
    assert not isinstance(found, dict)
    assert (found.stage, found.reason) == ("ask", "unparseable_answer")
    assert found.context["answer"] == raw


def test_a_foreign_text_is_foreign_between_quotation_marks_too() -> None:
    fault = language_fault(f'"{FOREIGN[1]}"', "It", ENGLISH)
    assert fault is not None
    assert fault.reason == "wrong_language"


@given(st.text(max_size=80))
def test_nothing_but_white_space_is_changed(text: str) -> None:
    unseen = "\u00ad\u200b\u2060\ufeff"
    for read in (read_line(text, "It", 80), read_text(text, "It", 80)):
        if isinstance(read, str):
            assert read.split() == "".join(one for one in text if one not in unseen).split()


def test_a_text_in_words_holds_markup_as_a_quotation_alone(subtests: pytest.Subtests) -> None:
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
        with subtests.test(text=text, reason=reason):
            read = read_text(text, "It", 80)
            assert (read.reason if isinstance(read, Fault) else None) == reason
