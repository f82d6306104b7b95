"""Reading and writing MOTChallenge files, and the reasons for rejected lines."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.errors import FormatError, UsageError
from loupe.sources.motchallenge import Result, read_boxes, write_results

GOOD = "1,-1,10,20,30,60,0.9,-1,-1,-1"


def write_lines(folder: Path, *lines: str) -> Path:
    path = folder / "det.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_columns_may_be_separated_by_commas_or_spaces(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[str] = [
        "3,7,10.5,-20,30,60,0.25",
        "3, 7, 10.5, -20, 30, 60, 0.25, 1, 0.8",
        "3 7 10.5 -20 30 60 0.25",
        "  3.0\t7\t10.5\t-20\t30\t60\t2.5e-1\t",
        "3,7,10.5,-20,30,60,0.25,",
    ]
    for line in cases:
        with subtests.test(line=line):
            boxes, bad = read_boxes(write_lines(tmp_path, line, ""))
            assert bad == []
            assert (boxes.frames.tolist(), boxes.numbers.tolist()) == ([3], [7])
            assert boxes.boxes_tlwh.tolist() == [[10.5, -20, 30, 60]]
            assert boxes.scores.tolist() == [0.25]


def test_an_unknown_confidence_is_one(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[str, float]] = [
        ("", 1.0),
        (",-1", 1.0),
        (",0", 0.0),
        (",1", 1.0),
        (",0.5", 0.5),
    ]
    for conf, score in cases:
        with subtests.test(conf=conf, score=score):
            boxes, bad = read_boxes(write_lines(tmp_path, f"1,-1,10,20,30,60{conf}"))
            assert bad == []
            assert boxes.scores.tolist() == [score]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ((0.2, -1, 1), (0.2, 1, 1)),
        ((0.2, 1.0000001), (0.2, 1)),
        ((0.2, 1.01), (0.2, 1)),
        ((0.2, 1.02), (0.2, 1.02)),
        ((2.3, 1.005), (2.3, 1.005)),
        ((2.3, -1, -0.4), (2.3, -1, -0.4)),
        ((87.5, -1, 12), (87.5, 87.5, 12)),
    ],
)
def test_scores_of_another_scale_are_kept(
    tmp_path: Path, given: tuple[float, ...], read: tuple[float, ...]
) -> None:
    lines = [f"1,-1,{10 * at},20,30,60,{score}" for at, score in enumerate(given)]
    boxes, bad = read_boxes(write_lines(tmp_path, *lines))
    assert bad == []
    assert tuple(boxes.scores) == read
    assert boxes.are_shares == (max(read) <= 1 and min(read) >= 0)


def test_boxes_in_shares_of_the_image_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="must be pixels: multiply"):
        read_boxes(write_lines(tmp_path, "1,-1,0.1,0.2,0.05,0.3,0.9", "2,-1,0.1,0.2,0.05,0.3,0.9"))


def test_a_bad_line_is_rejected_alone_with_its_reason(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[str, str]] = [
        ("1,-1,10,20,30", "wanted at least 6 columns"),
        ("one,-1,10,20,30,60", 'frame must be a number, got "one"'),
        ("0,-1,10,20,30,60", "frame must be a number from 1, got 0"),
        ("1.5,-1,10,20,30,60", "frame must be a number from 1, got 1.5"),
        ("1e300,-1,10,20,30,60", "frame must be a number from 1"),
        ("1,0.5,10,20,30,60", "id must be a whole number, got 0.5"),
        ("1,-1,nan,20,30,60", 'left must be a finite number, got "nan"'),
        ("1,-1,10,-inf,30,60", 'top must be a finite number, got "-inf"'),
        ("1,-1,10,20,0,60", "width must be pixels above 0"),
        ("1,-1,10,20,30,-60", "height must be pixels above 0"),
        ("1,-1,1e30,20,30,60", "left must be pixels, 1,000,000 at most"),
        ("frame,id,left,top,width,height,conf", 'frame must be a number, got "frame"'),
        ("1,-1,,,30,60", "wanted at least 6 columns"),
        ("1,-1,\udcff\udcfe,20,30,60", "left must be a number"),
        (GOOD, "it repeats line 1"),
    ]
    for line, detail in cases:
        with subtests.test(line=line, detail=detail):
            path = tmp_path / "det.txt"
            text = f"{GOOD}\n{line}\n2,-1,10,20,30,60"
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            boxes, bad = read_boxes(path)
            assert boxes.frames.tolist() == [1, 2]
            assert [one.number for one in bad] == [2]
            assert bad[0].detail.startswith("det.txt, line 2: ")
            assert detail in bad[0].detail
            bad[0].detail.encode("utf-8")


def test_the_message_on_a_very_long_line_is_short(tmp_path: Path) -> None:
    _, bad = read_boxes(write_lines(tmp_path, GOOD, "x" * 100_000))
    assert len(bad[0].detail) < 400


def test_frames_are_sorted_and_boxes_keep_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [f"{frame},-1,{left},20,30,60" for frame, left in ((9, 1), (2, 2), (9, 3), (2, 4))]
    boxes, bad = read_boxes(write_lines(tmp_path, *lines))
    assert bad == []
    found = [(frame, part.boxes_tlwh[:, 0].tolist()) for frame, part in boxes.by_frame()]
    assert found == [(2, [2, 4]), (9, [1, 3])]


def test_an_empty_file_has_no_boxes(tmp_path: Path) -> None:
    boxes, bad = read_boxes(write_lines(tmp_path, "", "  "))
    assert bad == []
    assert list(boxes.by_frame()) == []


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"is not a MOTChallenge file; det.txt, line 1: wanted"):
        read_boxes(write_lines(tmp_path, '{"boxes": []}', "more"))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        read_boxes(tmp_path / "nowhere.txt")
    with pytest.raises(FormatError, match="cannot be read"):
        read_boxes(tmp_path)


corners = st.tuples(*[st.integers(-4000, 4000).map(lambda eighth: eighth / 8)] * 2)
sides = st.tuples(*[st.integers(9, 4000).map(lambda eighth: eighth / 8)] * 2)


@given(boxes=st.lists(st.tuples(corners, sides), max_size=8))
def test_written_results_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, boxes: list[tuple[tuple[float, ...], ...]]
) -> None:
    path = tmp_path_factory.mktemp("results") / "deep" / "result.txt"
    results = [
        Result(1 + number // 2, number, np.array([*corner, *np.add(corner, side)]), 0.5)
        for number, (corner, side) in enumerate(boxes)
    ]
    write_results(path, results)
    found, bad = read_boxes(path)
    assert bad == []
    assert found.numbers.tolist() == [result.number for result in results]
    assert found.boxes_tlwh.tolist() == [[*corner, *side] for corner, side in boxes]
    assert [entry.name for entry in path.parent.iterdir()] == ["result.txt"]


def test_a_result_is_written_in_the_format_of_the_challenge(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    write_results(path, [Result(3, 1, np.array([1.5, 2, 11.5, 32.25]), 0.9)])
    assert path.read_text() == "3,1,1.500,2.000,10.000,30.250,0.9000,-1,-1,-1\n"


def test_an_unwritable_path_raises_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_results(tmp_path / "file" / "result.txt", [])
