from hypothesis import given
from hypothesis import strategies as st

from annotate.interfaces.page import marked_captions
from tests.annotate.interfaces.regions import ParsedHtml


def test_words_are_marked_by_how_well_they_distinguish_captions() -> None:
    marked = marked_captions(["A blue bike.", "The red bike", "A blue bike, at night"])
    assert marked == [
        'A <mark class="loupe-shared">blue</mark> bike.',
        'The <mark class="loupe-own">red</mark> bike',
        'A <mark class="loupe-shared">blue</mark> bike, at <mark class="loupe-own">night</mark>',
    ]


def test_references_to_other_images_and_absent_things_are_marked() -> None:
    (marked, _) = marked_captions(["Unlike the first image, it is red.", "It is blue."])
    assert marked == (
        '<mark class="loupe-compares">Unlike the first image</mark>, it is '
        '<mark class="loupe-own">red</mark>.'
    )
    (marked, _) = marked_captions(["A bus without a driver.", "A bus."])
    assert marked == (
        'A bus <mark class="loupe-absent">without</mark> a <mark class="loupe-own">driver</mark>.'
    )


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_marks_do_not_change_the_text(captions: list[str]) -> None:
    for caption, marked in zip(captions, marked_captions(captions), strict=True):
        parsed = ParsedHtml(f"<p>{marked}</p>")
        plain = ParsedHtml(f"<p>{caption.replace('&', '&amp;').replace('<', '&lt;')}</p>")
        assert parsed.text == plain.text
        assert set(parsed.tags) <= {"p", "mark"}
