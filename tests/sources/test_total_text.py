import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow
from loupe.sources.total_text import Word, words_of

ALPACA = (
    "x: [[153 161 179 195 184 177]], y: [[347 323 305 315 331 357]], ornt: [u'c'], "
    "transcriptions: [u'the']\n"
    "x: [[184 222 273 269 230 202]], y: [[293 269 270 296 297 317]], ornt: [u'c'], "
    "transcriptions: [u'alpaca']\n"
)
ILLEGIBLE = "x: [[1 9 9 1]], y: [[1 1 5 5]], ornt: [u'#'], transcriptions: [u'#']\n"


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def read(folder: Path, options: ReadOptions = DEFAULT_OPTIONS) -> list[Row]:
    return list(read_source(importer_for("total-text"), folder, options))


def word(text: str) -> Word:
    (found,) = words_of(text, ReadOptions())
    assert isinstance(found, Word)
    return found


def test_words_of_an_image_become_facts_with_the_largest_first(tmp_path: Path) -> None:
    write_files(tmp_path, {"Test/poly_gt_img1.txt": ALPACA, "Train/poly_gt_img7.txt": ILLEGIBLE})
    first, second = read(tmp_path)
    assert first == SourceRow(
        index=0,
        identity="Test/img1",
        split="test",
        file_path="Test/img1.jpg",
        other_paths=("Test/img1.JPG", "Test/img1.jpeg", "Test/img1.png"),
        captions=(),
        positions=(),
        facts=("The word “alpaca” is written.", "The word “the” is written."),
    )
    assert isinstance(second, SourceRow)
    assert (second.identity, second.split, second.facts) == ("Train/img7", "train", ())


def test_a_folder_of_one_split_contains_its_images(tmp_path: Path) -> None:
    write_files(tmp_path, {"poly_gt_img1.txt": ALPACA, "README.txt": "x: nothing"})
    (row,) = read(tmp_path, ReadOptions(split="val"))
    assert isinstance(row, SourceRow)
    assert (row.file_path, row.split) == ("img1.jpg", "val")


def test_arrays_are_read_in_every_format_of_numpy(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, float]] = [
        ("x: [[0 4 4 0]], y: [[0 0 3 3]], ornt: [u'h'], transcriptions: [u'A']", "A", 12),
        ("x: [[0,4,4,0]], y: [[0, 0, 3, 3]], ornt: ['h'], transcriptions: ['A']", "A", 12),
        ("x: [[ 0  4\n  4  0]], y: [[0 0\n 3 3]], ornt: [u'h'], transcriptions: [u'A']", "A", 12),
        (
            "x: array([[0, 4]], dtype=int16), y: array([[0, 3]]), ornt: [], transcriptions: ['A']",
            "A",
            0,
        ),
        ('x: [[0 1 0]], y: [[0 0 1]], ornt: [], transcriptions: [u"Joe\'s"]', "Joe's", 0.5),
        ("x: [[0 1 0]], y: [[0 0 1]], ornt: [u'c'], transcriptions: [u'caf\\xe9']", "café", 0.5),
        ("x: [[0 1 0]], y: [[0 0 1]], ornt: [u'c'], transcriptions: [u'[x: 5]']", "[x: 5]", 0.5),
    ]
    for record, text, area_px in cases:
        with subtests.test(record=record, text=text, area_px=area_px):
            assert word(record) == Word(text, area_px)


def test_words_of_equal_area_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    line = "x: [[0 4 4 0]], y: [[0 0 3 3]], ornt: [u'h'], transcriptions: [u'{}']\n"
    for words in ("ab", "ba"):
        write_files(tmp_path, {"poly_gt_img1.txt": "".join(map(line.format, words))})
        (row,) = read(tmp_path, ReadOptions(split="val"))
        assert isinstance(row, SourceRow)
        assert row.facts == tuple(f"The word “{word}” is written." for word in words)


def test_a_malformed_word_is_rejected_alone(tmp_path: Path) -> None:
    broken = [
        "x: [[1 2 3]], y: [[1 2]], ornt: [u'c'], transcriptions: [u'lost']\n",
        "x: [[1 2 3]], y: [[1 2 3]], ornt: [u'c'], transcriptions: [u'lo\n",
        "x: [[1 2 -]], y: [[1 2 3]], ornt: [u'c'], transcriptions: [u'lost']\n",
        "x: [[1 2 3]], y: [[1 2 3]], ornt: [u'c'], transcriptions: [u'\\u202elost']\n",
    ]
    write_files(tmp_path, {"poly_gt_img1.txt": "".join([*broken, ALPACA])})
    *bad, row = read(tmp_path)
    assert [(one.scope, one.field, one.reason) for one in bad if isinstance(one, BadRow)] == [
        ("fact", "words[0]", "malformed_record"),
        ("fact", "words[1]", "malformed_record"),
        ("fact", "words[2]", "malformed_record"),
        ("fact", "words[3]", "control_characters"),
    ]
    assert isinstance(row, SourceRow)
    assert len(row.facts) == 2


def test_a_file_over_the_length_limit_rejects_its_image(tmp_path: Path) -> None:
    write_files(tmp_path, {"poly_gt_img1.txt": ALPACA, "poly_gt_img2.txt": ALPACA * 9})
    good, bad = read(tmp_path, ReadOptions(max_record_characters=400))
    assert isinstance(good, SourceRow)
    assert isinstance(bad, BadRow)
    assert (bad.scope, bad.reason, bad.file) == ("record", "record_too_large", "poly_gt_img2.txt")


def test_a_folder_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "has no file such as poly_gt_img1.txt"),
        ({"poly_gt_img1.txt": "377,117,463,117,465,130,378,130,Genaxis"}, "has no line such as x:"),
    ]
    for files, message in cases:
        with subtests.test(files=files), pytest.raises(FormatError, match=message):
            read(write_files(tmp_path, files))


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    path = write_files(tmp_path, {"poly_gt_img1.txt": ALPACA}) / "poly_gt_img1.txt"
    with pytest.raises(FormatError, match="wanted a folder of total-text files"):
        importer_for("total-text").describe(path)


def test_the_digest_covers_all_files_in_the_format_of_sha256sum(tmp_path: Path) -> None:
    write_files(tmp_path, {"Test/poly_gt_img2.txt": ILLEGIBLE, "Test/poly_gt_img1.txt": ALPACA})
    listed = "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  Test/poly_gt_img{number}.txt\n"
        for number, text in ((1, ALPACA), (2, ILLEGIBLE))
    )
    source = importer_for("total-text").describe(tmp_path)
    assert source.annotation_sha256 == hashlib.sha256(listed.encode()).hexdigest()
    write_files(tmp_path, {"Test/.DS_Store": "x"})
    assert importer_for("total-text").describe(tmp_path) == source
    (tmp_path / "Test/poly_gt_img2.txt").rename(tmp_path / "Test/poly_gt_img3.txt")
    assert importer_for("total-text").describe(tmp_path) != source


@given(st.lists(st.text(min_size=1).filter(lambda text: "\r" not in text), max_size=5))
def test_strings_printed_by_python_are_read(texts: list[str]) -> None:
    records = [
        f"x: [[0 1 0]], y: [[0 0 1]], ornt: [u'c'], transcriptions: [u{text!r}]" for text in texts
    ]
    found = list(words_of("\n".join(records), ReadOptions()))
    legible = [text for text in texts if any(map(str.isalnum, text))]
    assert len(found) == len(legible)
    plain = [text for text in legible if text.isascii() and text.isprintable()]
    assert {" ".join(text.split()) for text in plain} <= {
        one.text for one in found if isinstance(one, Word)
    }


@settings(max_examples=100)
@given(st.text(alphabet="x:y[]'u 0123\n,#ornt\\") | st.text())
def test_any_text_gives_words_or_problems(text: str) -> None:
    for one in words_of(text, ReadOptions()):
        assert isinstance(one, Word) or one.reason


def write_mat(path: Path, rows: list[tuple[list[int], list[int], str]]) -> None:
    polygons = np.empty((len(rows), 6), dtype=object)
    for row, (xs, ys, text) in enumerate(rows):
        polygons[row] = ["x:", np.array([xs], np.int16), "y:", np.array([ys], np.int16), text, "c"]
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"polygt": polygons})


def test_matlab_files_give_the_same_rows_as_text_files(tmp_path: Path) -> None:
    alpaca = [
        ([153, 161, 179, 195, 184, 177], [347, 323, 305, 315, 331, 357], "the"),
        ([184, 222, 273, 269, 230, 202], [293, 269, 270, 296, 297, 317], "alpaca"),
        ([1, 9, 9, 1], [1, 1, 5, 5], "#"),
    ]
    write_mat(tmp_path / "mat" / "Test" / "poly_gt_img1.mat", alpaca)
    write_files(tmp_path / "txt", {"Test/poly_gt_img1.txt": ALPACA + ILLEGIBLE})
    assert read(tmp_path / "mat") == read(tmp_path / "txt")


def test_a_bad_matlab_file_is_rejected_alone(tmp_path: Path) -> None:
    write_mat(
        tmp_path / "poly_gt_img1.mat", [([1, 2], [1, 2, 3], "a"), ([0, 4, 4], [0, 0, 3], "b")]
    )
    (tmp_path / "poly_gt_img2.mat").write_bytes(b"nothing of the kind")
    savemat(tmp_path / "poly_gt_img3.mat", {"polygt": np.eye(2)})
    rows = read(tmp_path)
    good = [row for row in rows if isinstance(row, SourceRow)]
    bad = [(row.index, row.scope) for row in rows if isinstance(row, BadRow)]
    assert [row.index for row in good] == [0, 2]
    assert good[0].facts == ("The word “b” is written.",)
    assert bad == [(0, "fact"), (1, "record"), (2, "fact"), (2, "fact")]
