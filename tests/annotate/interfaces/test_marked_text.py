from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.interfaces.page import (
    Mark,
    changed_words,
    marked_captions,
    marked_text,
    page_html,
)
from loupe.schemas.faithfulness import Finding
from tests.annotate.interfaces.regions import ParsedHtml

TEXTS = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), max_size=60)
WORDS = st.lists(st.sampled_from(["a", "red", "Red", "coat", "bag", "<b>"]), max_size=12)


def marked_parts(text: str, marks: list[Mark]) -> list[str]:
    return [text[mark.start : mark.end] for mark in marks]


@given(TEXTS, st.data())
def test_marks_do_not_change_the_text(text: str, data: st.DataObject) -> None:
    position = st.integers(0, len(text) + 3)
    marks = [
        Mark(min(ends), max(ends), "added", '"><script>')
        for ends in data.draw(st.lists(st.tuples(position, position), max_size=5))
    ]
    parsed = ParsedHtml(marked_text(text, marks))
    assert parsed.text == text
    assert set(parsed.tags) <= {"p", "mark"}
    assert parsed.attributes <= {"class", "title"}


def test_overlapping_marks_are_both_shown() -> None:
    html = marked_text("dark blue coat", [Mark(0, 9, "added", "why"), Mark(5, 14, "inserted")])
    assert html == (
        '<p><mark class="loupe-added" title="why">dark </mark>'
        '<mark class="loupe-added loupe-inserted" title="why">blue</mark>'
        '<mark class="loupe-inserted"> coat</mark></p>'
    )


def test_changed_words_are_marked_and_moved_words_are_not() -> None:
    before = "A woman in a red coat carries a bag."
    after = "In a blue coat, a woman carries a bag."
    removed, inserted = changed_words(before, after)
    assert (marked_parts(before, removed), marked_parts(after, inserted)) == (["red"], ["blue"])


def test_a_hyphenated_word_is_one_word() -> None:
    _, inserted = changed_words("a top", "a short-sleeved top")
    assert marked_parts("a short-sleeved top", inserted) == ["short-sleeved"]


@given(WORDS, WORDS)
def test_unmarked_words_are_the_same_in_both_texts(old: list[str], new: list[str]) -> None:
    before, after = " ".join(old), " ".join(new)
    removed, inserted = changed_words(before, after)

    def unmarked_words(words: str, marks: list[Mark]) -> list[str]:
        unmarked = "".join(
            " " if any(mark.start <= at < mark.end for mark in marks) else character
            for at, character in enumerate(words.casefold())
        )
        return sorted(unmarked.replace("<", " ").replace(">", " ").split())

    assert unmarked_words(before, removed) == unmarked_words(after, inserted)


def test_minor_findings_are_listed_last() -> None:
    findings = [
        Finding(change="added", message="slim is an <impression>", minor=True),
        Finding(change="lost", message="the bag is left out"),
    ]
    html = page_html("findings", findings, (), "No warnings.")
    assert html.index("the bag") < html.index("slim is an &lt;impression&gt;")
    assert page_html("findings", (), (), "No warnings.") == "<p>No warnings.</p>"


def test_every_kind_of_finding_has_a_word_for_people() -> None:
    for change in get_args(Finding.model_fields["change"].annotation):
        html = page_html(
            "findings", [Finding(change=change, message="the bag")], (), "No warnings."
        )
        assert f'<mark class="loupe-{change}">' in html


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
def test_marks_do_not_change_captions(captions: list[str]) -> None:
    for caption, marked in zip(captions, marked_captions(captions), strict=True):
        parsed = ParsedHtml(f"<p>{marked}</p>")
        plain = ParsedHtml(f"<p>{caption.replace('&', '&amp;').replace('<', '&lt;')}</p>")
        assert parsed.text == plain.text
        assert set(parsed.tags) <= {"p", "mark"}
