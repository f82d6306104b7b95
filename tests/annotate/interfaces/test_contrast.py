from hypothesis import given
from hypothesis import strategies as st

from annotate.interfaces.contrast import content_words, marked_captions, not_told_apart
from tests.annotate.interfaces.regions import ParsedHtml


def test_words_are_marked_by_how_well_they_tell_captions_apart() -> None:
    marked = marked_captions(["A blue bike.", "The red bike", "A blue bike, at night"])
    assert marked == [
        'A <mark class="loupe-shared">blue</mark> bike.',
        'The <mark class="loupe-own">red</mark> bike',
        'A <mark class="loupe-shared">blue</mark> bike, at <mark class="loupe-own">night</mark>',
    ]


def test_phrases_that_speak_of_another_image_are_marked_as_one() -> None:
    (marked, _) = marked_captions(["Unlike the first image, it is red.", "It is blue."])
    assert marked == (
        '<mark class="loupe-compares">Unlike</mark> the '
        '<mark class="loupe-compares">first image</mark>, it is <mark class="loupe-own">red</mark>.'
    )


def test_a_caption_must_have_a_word_that_another_lacks() -> None:
    assert not_told_apart(["A bike.", "A red bike.", "the BIKE"]) == [[1, 2], [], [0, 1]]


def test_function_words_tell_nothing() -> None:
    assert content_words("It is on the well-worn Street’s side") == {
        "well-worn",
        "street’s",
        "side",
    }


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_marks_change_nothing_of_the_text(captions: list[str]) -> None:
    for caption, marked in zip(captions, marked_captions(captions), strict=True):
        parsed = ParsedHtml(f"<p>{marked}</p>")
        plain = ParsedHtml(f"<p>{caption.replace('&', '&amp;').replace('<', '&lt;')}</p>")
        assert parsed.text == plain.text
        assert set(parsed.tags) <= {"p", "mark"}
