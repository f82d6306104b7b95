import base64
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from release.report.scripts import ScriptWriter, SearchIndex, search_words, sort_key, variable_bytes
from tests.release.report.reading import scripts

WORDS = st.text("ab\u00e9\u4e00\U00020000\uff21", min_size=1, max_size=4)


def rows_in(data: str) -> list[int]:
    """Decode delta-encoded rows as the page does."""
    rows, row, value, shift = [], 0, 0, 0
    for byte in base64.b64decode(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            row += value
            rows.append(row)
            value = shift = 0
    return rows


def index_of(rows: list[list[str]], script_bytes: int) -> dict[str, list[int]]:
    """Write the search index of rows with these words, check its scripts and return its content."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = SearchIndex(folder / "words.db")
        for place, words in enumerate(rows):
            index.add(place, words)
        firsts = index.write(ScriptWriter(folder, "words", 0), script_bytes)
        written = scripts(folder, "words") if firsts else []
    assert [one["words"][0] for one in written] == firsts
    words = [word for one in written for word in one["words"]]
    assert words == sorted(set(words), key=sort_key)
    found = [rows_in(data) for one in written for data in one["rows"]]
    return dict(zip(words, found, strict=True))


@given(st.lists(st.lists(WORDS, max_size=4), max_size=30), st.sampled_from((1, 20, 10**6)))
def test_every_word_maps_to_its_rows_for_any_script_size(
    rows: list[list[str]], script_bytes: int
) -> None:
    wanted: dict[str, list[int]] = {}
    for place, words in enumerate(rows):
        for word in set(words):
            wanted.setdefault(word, []).append(place)
    assert index_of(rows, script_bytes) == wanted


def test_rows_far_apart_are_found() -> None:
    rows: list[list[str]] = [[] for _ in range(16_600)]
    for place in (0, 127, 128, 16_520):  # one and two bytes from the previous, then three
        rows[place] = ["far"]
    assert index_of(rows, 10**6) == {"far": [0, 127, 128, 16_520]}


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


@given(st.integers(0, 2**40))
def test_numbers_are_encoded_with_seven_bits_per_byte(number: int) -> None:
    data = variable_bytes(number)
    assert rows_in(base64.b64encode(data).decode()) == [number]
    assert len(data) == max(1, -(-number.bit_length() // 7))
