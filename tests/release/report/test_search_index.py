import tempfile
from itertools import accumulate
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from loupe.release.report.scripts import ScriptWriter, SearchIndex, search_words, sort_key
from tests.release.report.reading import scripts

WORDS = st.text("ab\u00e9\u4e00\U00020000\uff21", min_size=1, max_size=4)


def rows_in(steps: list[int]) -> list[int]:
    """Add the steps from row to row as the page does."""
    return list(accumulate(steps))


def index_of(rows: list[list[str]], script_rows: int) -> dict[str, list[int]]:
    """Write the search index of rows with these words, check its scripts and return its content."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = SearchIndex(folder / "words.db")
        for place, words in enumerate(rows):
            index.add(place, words)
        firsts = index.write(ScriptWriter(folder, "words", 0), script_rows)
        written = scripts(folder, "words") if firsts else []
    assert [one["words"][0] for one in written] == firsts
    words = [word for one in written for word in one["words"]]
    assert words == sorted(set(words), key=sort_key)
    found = [rows_in(data) for one in written for data in one["rows"]]
    return dict(zip(words, found, strict=True))


@given(st.lists(st.lists(WORDS, max_size=4), max_size=30), st.sampled_from((1, 20, 10**6)))
def test_every_word_maps_to_its_rows_for_any_script_size(
    rows: list[list[str]], script_rows: int
) -> None:
    wanted: dict[str, list[int]] = {}
    for place, words in enumerate(rows):
        for word in set(words):
            wanted.setdefault(word, []).append(place)
    assert index_of(rows, script_rows) == wanted


def test_words_are_runs_of_letters_and_digits() -> None:
    cases: list[tuple[str, list[str]]] = [
        ("A man's T-shirt, size 42!", ["a", "man", "s", "t", "shirt", "size", "42"]),
        ("Ｆｕｌｌ ﬁgure", ["full", "figure"]),
        ("一条street街", ["一", "条", "street", "街"]),
        ("snake_case", ["snake", "case"]),
        ("x" * 99, ["x" * 40]),
        ("\u202eabc\u202c", ["abc"]),
        ("… !?", []),
    ]
    for text, words in cases:
        assert search_words(text) == words, (text, words)
