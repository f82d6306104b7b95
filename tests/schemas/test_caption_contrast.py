"""Distinguishing captions, and phrases about things that the image does not show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.phrases import (
    PhraseKind,
    caption_name,
    content_words,
    image_letter,
    indistinct,
    phrases,
)
from loupe.schemas.taxonomy import DifferenceType
from tests.annotate.interfaces.proposed import PHOTOGRAPHS


def kinds(text: str) -> list[PhraseKind]:
    return [one.kind for one in phrases(text)]


def test_references_to_other_images_are_found(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "Unlike in the first image, a red bike.",
        "A bike, as in the other picture.",
        "A greener lawn than in the previous image.",
        "A red bike, the same as in image 2.",
        "The bikes of both photos are red.",
        "All of the images show a bike.",
        "A darker version of the original photo.",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert PhraseKind.OTHER_IMAGE in kinds(text)


def test_comparisons_with_things_not_shown_are_found() -> None:
    for text in (
        "Unlike before, it rains.",
        "A cat instead of a dog.",
        "A street that is no longer empty.",
    ):
        assert PhraseKind.COMPARISON in kinds(text), text


def test_mentions_of_absent_things_are_found(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "There is no car on the street.",
        "A man without a hat.",
        "A dog that isn't running.",
        "A street with neither cars nor people.",
        "An empty bench, nobody sits on it.",
        "A bike lacking a saddle.",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert PhraseKind.ABSENCE in kinds(text)


def test_harmless_captions_have_no_findings(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "A no parking sign on a wall.",
        'A sign that says "no dogs without a leash".',
        "A poster with «the first image» on it.",
        "Player No. 7 kicks the ball.",
        "A do not enter sign at a corner.",
        "A boat not far from the shore.",
        "A vase of forget-me-nots.",
        "A painting of a first picnic, other people around.",
        "A notebook and a knot.",
        "A man with a phone in one hand and an umbrella in the other.",
        "A bed under two pictures and three photos.",
        "The picture a man took hangs among other pictures.",
        "His first photo of a boat, the second boat of two.",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert phrases(text) == []


@pytest.mark.skipif(not PHOTOGRAPHS.exists(), reason="needs captions of photographs")
def test_published_captions_have_no_findings() -> None:
    import json

    rows = (PHOTOGRAPHS / "annotations.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [one["caption"] for row in rows for one in json.loads(row)["captions"]]
    assert len(captions) == 50
    assert [caption for caption in captions if phrases(caption)] == []


def test_a_caption_without_a_distinguishing_word_is_indistinct() -> None:
    assert indistinct(["A bike.", "A red bike.", "the BIKE"]) == [[1, 2], [], [0, 1]]


def test_captions_may_differ_by_how_often_a_word_occurs() -> None:
    captions = ["A black cup by a black bicycle.", "A black cup by a blue bicycle."]
    assert indistinct(captions) == [[], []]


def test_function_words_are_not_content_words() -> None:
    assert content_words("It is on the well-worn Street’s side") == {
        "well-worn",
        "street’s",
        "side",
    }


def test_order_and_prepositions_count_where_they_are_the_difference() -> None:
    for kind, captions in (
        (DifferenceType.EVENT_ATTRIBUTE, ["The dogs chase the cat.", "The cat chase the dogs."]),
        (DifferenceType.ENTITY_RELATION, ["A cup on a book.", "A cup under a book."]),
    ):
        assert indistinct(captions, [None, kind]) == [[], []]
        assert indistinct(captions, [None, DifferenceType.ENTITY_TYPE]) == [[1], [0]]
        assert indistinct(["A cup.", "A blue cup on a book."], [None, kind]) == [[1], []]


def test_images_are_named_by_letters() -> None:
    letters = [image_letter(at) for at in (0, 25, 26, 27, 51, 52)]
    assert letters == ["A", "Z", "AA", "AB", "AZ", "BA"]
    assert caption_name(2, 1) == "B3"


@given(st.text(max_size=60))
def test_phrases_are_substrings_and_do_not_overlap(text: str) -> None:
    end = 0
    for one in phrases(text):
        assert end <= one.start < one.end <= len(text)
        assert text[one.start : one.end] == one.text
        end = one.end
