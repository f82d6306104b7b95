"""`loupe track`: people tracked in given detections or in a video."""

from pathlib import Path

import pytest

from tests.flows.command_line import Loupe
from tests.requirements import unavailable
from tests.sources.video.clips import without_index_at_end, write_clip

CAMPUS = Path(__file__).parents[3] / "shared" / "data" / "mot" / "TUD-Campus" / "gt.txt"


def walk(frames: range, left: float, step: float = 3.0) -> list[str]:
    """Detections of one person who walks to the right."""
    return [f"{frame},-1,{left + step * frame},100,40,120,0.9" for frame in frames]


def results(folder: Path) -> list[list[float]]:
    lines = (folder / "result.txt").read_text().splitlines()
    return [[float(value) for value in line.split(",")] for line in lines]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Detections of two people in shuffled frames; the first is missing for 19 frames."""
    lines = [*walk(range(1, 31), 0), *walk(range(50, 61), 0), *walk(range(1, 61), 400)]
    path = tmp_path / "det.txt"
    path.write_text("\n".join(reversed(lines)))
    return path


def test_people_are_tracked_across_a_gap(loupe: Loupe, file: Path, tmp_path: Path) -> None:
    ran = loupe("track", "--detections", file, "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.err
    assert "2 people in 101 boxes, of 101 detections in 60 frames" in ran.out
    found = results(tmp_path / "out")
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    for number, start in ((1, 400), (2, 0)):
        own = [row for row in found if row[1] == number]
        assert [row[2:6] for row in own] == [[start + 3 * row[0], 100, 40, 120] for row in own]
    assert {tuple(row[7:]) for row in found} == {(-1, -1, -1)}


@pytest.mark.parametrize(
    ("scores", "options", "people"),
    [
        ((2.31, 0.64, 0.21, -0.42), (), {1, 2, 3, 4}),  # DPM
        ((87.5, 42, 23.1, 3), (), {1, 2, 3, 4}),  # percent
        ((87.5, 42, 23.1, 3), ("--score-threshold", "30"), {1, 2}),
        ((0.9, 0.3, 0.25, 0.05), ("--score-threshold", "0.2"), {1, 2, 3}),
    ],
)
def test_scores_of_any_scale_are_used(
    loupe: Loupe,
    tmp_path: Path,
    scores: tuple[float, ...],
    options: tuple[str, ...],
    people: set[int],
) -> None:
    rows = [
        f"{frame},-1,{200 * at + 2 * frame},100,60,150,{score}"
        for frame in range(1, 21)
        for at, score in enumerate(scores)
    ]
    (tmp_path / "det.txt").write_text("\n".join(rows))
    ran = loupe("track", "--detections", tmp_path / "det.txt", "--out", tmp_path, *options)
    assert ran.exit_code == 0, ran.err
    found = results(tmp_path)
    assert {int(row[1]) for row in found} == people
    assert {row[6] for row in found} == set(scores[: len(people)])
    assert ("all boxes count as certain" in ran.err) == (not options)


def test_a_threshold_above_all_scores_is_said(loupe: Loupe, file: Path, tmp_path: Path) -> None:
    ran = loupe("track", "--detections", file, "--out", tmp_path / "o", "--score-threshold", "9")
    assert ran.exit_code == 0
    assert "has a score above 9 (--score-threshold); the greatest is " in ran.err
    assert "0 people in 0 boxes" in ran.out


def test_invalid_lines_are_named_and_skipped(loupe: Loupe, file: Path, tmp_path: Path) -> None:
    text = file.read_text()
    file.write_text(f"nonsense\n{text}\n5,-1,nan,1,2,3\n{text.splitlines()[0]}\n")
    ran = loupe("track", "--detections", file, "--out", tmp_path / "out", "--json")
    assert ran.exit_code == 1
    assert ran.json["people"] == 2
    assert [line["number"] for line in ran.json["bad_lines"]] == [1, 103, 104]
    for sentence in (
        "det.txt, line 1: wanted at least 6 columns",
        "det.txt, line 103: left must be a finite number",
        "det.txt, line 104: it repeats line 2",
        "lines that could not be used: 3",
    ):
        assert sentence in ran.err


def test_messages_on_invalid_lines_are_limited(loupe: Loupe, file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text() + "\nnonsense" * 50)
    ran = loupe("track", "--detections", file, "--out", tmp_path / "out")
    assert ran.exit_code == 1
    assert "and 30 more lines" in ran.err
    assert len(ran.err.splitlines()) == 22


def test_a_very_long_gap_takes_no_time(loupe: Loupe, tmp_path: Path) -> None:
    file = tmp_path / "det.txt"
    far = 10**12
    file.write_text("\n".join([*walk(range(1, 11), 0), *walk(range(far, far + 10), 0, 0)]))
    assert loupe("track", "--detections", file, "--out", tmp_path, "--json").json["people"] == 2


def test_wrong_arguments_are_one_line_errors(loupe: Loupe, file: Path, tmp_path: Path) -> None:
    cases = [
        (["--detections", "nowhere.txt"], "nowhere.txt cannot be read: does not exist"),
        (["--detections", "{file}", "--frame-rate", "0"], "frame rate must be a number above 0"),
        (["--detections", "{file}", "--frame-rate", "nan"], "frame rate must be a number above 0"),
        (["--detections", "{file}", "--profile", "none"], "there is no profile 'none'"),
        (["--detections", __file__], "is not a MOTChallenge file"),
        ([], "give either a video or --detections"),
        (["{file}", "--detections", "{file}"], "give either a video or --detections"),
        (["--detections", "{file}", "--score-threshold", "nan"], "threshold must be a number"),
        (["{file}", "--frame-rate", "0"], "frame rate must be a number above 0"),
        (["{file}", "--score-threshold", "1"], "--score-threshold is only for --detections"),
    ]
    for arguments, sentence in cases:
        given = [argument.format(file=file) for argument in arguments]
        ran = loupe("track", "--out", tmp_path / "out", *given)
        assert ran.exit_code == 2, arguments
        assert sentence in ran.err.replace("\n", " "), arguments
        assert not (tmp_path / "out").exists(), arguments


def test_a_video_gives_crops_and_tracklets(loupe: Loupe, tmp_path: Path) -> None:
    video = write_clip(tmp_path / "clip.mp4", [0] * 4)
    ran = loupe("track", video, "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.err
    assert "0 tracklets, of 0 tracks in 4 frames" in ran.out
    assert loupe("track", video, "--out", tmp_path / "out", "--json").json["frames"] == 4
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"crops", "tracklets.json", "result.txt"}


def test_a_truncated_video_is_tracked_up_to_its_end(loupe: Loupe, tmp_path: Path) -> None:
    whole = without_index_at_end(write_clip(tmp_path / "whole.mp4", range(15)))
    video = tmp_path / "half.mp4"
    video.write_bytes(whole[: len(whole) * 2 // 3])
    ran = loupe("track", video, "--out", tmp_path / "out", "--json")
    assert ran.exit_code == 1
    assert 0 < ran.json["frames"] < 15
    assert ran.json["problem"] in ran.err


def test_a_file_that_is_not_a_video_is_refused(loupe: Loupe, file: Path, tmp_path: Path) -> None:
    ran = loupe("track", file, "--out", tmp_path / "out")
    assert ran.exit_code == 2
    assert "det.txt" in ran.err


def test_an_output_path_that_is_a_file_is_refused(loupe: Loupe, file: Path) -> None:
    ran = loupe("track", "--detections", file, "--out", file)
    assert ran.exit_code == 2
    assert "cannot be written" in ran.err


def test_real_people_are_distinguished_by_their_motion(loupe: Loupe, tmp_path: Path) -> None:
    if not CAMPUS.exists():
        unavailable("TUD-Campus of MOTChallenge is not on this machine")
    from trackers.eval import evaluate_mot_sequence  # not at the top, because it takes seconds

    ran = loupe("track", "--detections", CAMPUS, "--out", tmp_path, "--frame-rate", "25", "--json")
    assert ran.exit_code == 0
    assert ran.json["people"] == 8
    truth = tmp_path / "truth.txt"
    lines = CAMPUS.read_text().split()
    truth.write_text("\n".join(line.replace(",-1,-1,-1", ",1,1") for line in lines))  # of class 1
    found = evaluate_mot_sequence(truth, tmp_path / "result.txt", ["CLEAR", "HOTA", "Identity"])
    assert found.Identity is not None
    assert found.Identity.IDF1 >= 0.995
    assert found.CLEAR is not None
    assert found.CLEAR.IDSW == 0
