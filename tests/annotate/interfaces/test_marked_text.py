from hypothesis import given
from hypothesis import strategies as st

from annotate.interfaces.text_pages import Mark, changed_words, finding_list, marked_text
from schemas.faithfulness import Finding
from tests.annotate.interfaces.regions import ParsedHtml

TEXTS = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), max_size=60)
WORDS = st.lists(st.sampled_from(["a", "red", "Red", "coat", "bag", "<b>"]), max_size=12)


def struck(text: str, marks: list[Mark]) -> list[str]:
    return [text[mark.start : mark.end] for mark in marks]


@given(TEXTS, st.data())
def test_marks_change_nothing_of_the_text(text: str, data: st.DataObject) -> None:
    position = st.integers(0, len(text) + 3)
    marks = [
        Mark(min(ends), max(ends), "added", '"><script>')
        for ends in data.draw(st.lists(st.tuples(position, position), max_size=5))
    ]
    parsed = ParsedHtml(marked_text(text, marks))
    assert parsed.text == text
    assert set(parsed.tags) <= {"p", "mark"}
    assert parsed.attributes <= {"class", "title"}


def test_marks_that_lie_across_each_other_both_show() -> None:
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
    assert (struck(before, removed), struck(after, inserted)) == (["red"], ["blue"])


def test_a_hyphenated_word_is_one_word() -> None:
    _, inserted = changed_words("a top", "a short-sleeved top")
    assert struck("a short-sleeved top", inserted) == ["short-sleeved"]


@given(WORDS, WORDS)
def test_what_is_left_unmarked_is_the_same_on_both_sides(old: list[str], new: list[str]) -> None:
    before, after = " ".join(old), " ".join(new)
    removed, inserted = changed_words(before, after)

    def left(words: str, marks: list[Mark]) -> list[str]:
        struck_out = "".join(
            " " if any(mark.start <= at < mark.end for mark in marks) else character
            for at, character in enumerate(words.casefold())
        )
        return sorted(struck_out.replace("<", " ").replace(">", " ").split())

    assert left(before, removed) == left(after, inserted)


def test_grave_findings_come_first() -> None:
    findings = [
        Finding(change="added", message="slim is an <impression>", minor=True),
        Finding(change="lost", message="the bag is left out"),
    ]
    html = finding_list(findings)
    assert html.index("the bag") < html.index("slim is an &lt;impression&gt;")
    assert finding_list([]) == "<p>No warnings.</p>"
