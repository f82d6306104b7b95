import hashlib
import os
from pathlib import Path

import fsspec
import pytest

from loupe.sources.video.finding import FoundVideo, InspectedVideo, find_videos, inspect_video
from loupe.sources.video.reader import VideoProblem
from tests.sources.video.clips import write_clip


@pytest.fixture
def street(tmp_path: Path) -> Path:
    root = tmp_path / "street"
    for name in ("b.mp4", "a.AVI", "night/z.mkv", "night/notes.md", ".hidden/x.mp4", ".DS_Store"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"anything")
    return root


def found(spec: Path | str) -> list[str]:
    return [entry.file_path for entry in find_videos(spec) if isinstance(entry, FoundVideo)]


def problems(spec: Path | str) -> list[tuple[str, str]]:
    entries = find_videos(spec)
    return [(e.file_path, e.reason) for e in entries if isinstance(e, VideoProblem)]


def test_videos_of_a_folder_are_sorted_by_path(street: Path) -> None:
    assert found(street) == ["a.AVI", "b.mp4", "night/z.mkv"]
    assert problems(street) == [("night/notes.md", "not_a_video")]
    urls = [entry.url for entry in find_videos(street) if isinstance(entry, FoundVideo)]
    assert urls == [f"file://{street}/{path}" for path in found(street)]


def test_paths_of_a_glob_are_relative_to_the_folder_before_its_wildcard(street: Path) -> None:
    assert found(f"{street}/**/*.mkv") == ["night/z.mkv"]
    assert found(f"{street}/n*/z.mkv") == ["night/z.mkv"]
    assert found(f"{street}/*.mp4") == ["b.mp4"]
    assert problems(f"{street}/*.webm") == [(f"{street}/*.webm", "no_videos")]


def test_a_single_file_may_have_any_name(street: Path) -> None:
    assert found(street / "night/notes.md") == ["notes.md"]
    assert found(street / "b.mp4") == ["b.mp4"]


def test_a_folder_with_brackets_in_its_name_is_no_glob(tmp_path: Path) -> None:
    (tmp_path / "[day 1]").mkdir()
    (tmp_path / "[day 1]" / "a.mp4").write_bytes(b"x")
    assert found(tmp_path / "[day 1]") == ["a.mp4"]
    assert found(tmp_path / "[day 1]" / "a.mp4") == ["a.mp4"]


def test_videos_of_a_list_keep_its_order(street: Path) -> None:
    with fsspec.open("memory://far/away.mp4", "wb") as file:
        file.write(b"x")
    (street / "list.txt").write_text(
        "# two near, one far\n"
        "night/z.mkv   # the dark one\n\n"
        "b.mp4\n"
        "memory://far/away.mp4\n"
        "b.mp4\n"
        "../outside.mp4\n"
        "/etc/passwd\n"
        "gone.mp4\n"
        "nosuch://a/b.mp4\n"
    )
    assert found(street / "list.txt") == ["night/z.mkv", "b.mp4", "far/away.mp4"]
    assert problems(street / "list.txt") == [
        ("b.mp4", "listed_twice"),
        ("../outside.mp4", "path_outside_root"),
        ("/etc/passwd", "path_outside_root"),
        ("gone.mp4", "missing_video"),
        ("nosuch://a/b.mp4", "unreachable_video"),
    ]


def test_lists_and_folders_may_be_on_any_file_system() -> None:
    files = {"a/list.txt": b"one.mp4\nb/two.mp4\n", "a/one.mp4": b"x", "a/b/two.mp4": b"x"}
    for name, data in files.items():
        with fsspec.open(f"memory://found/{name}", "wb") as file:
            file.write(data)
    assert found("memory://found/a/list.txt") == ["one.mp4", "b/two.mp4"]
    assert found("memory://found/a") == ["b/two.mp4", "one.mp4"]
    assert found("memory://found/**/t*.mp4") == ["a/b/two.mp4"]
    entry = next(iter(find_videos("memory://found/a/list.txt")))
    assert isinstance(entry, FoundVideo)
    with fsspec.open(entry.url) as file:
        assert file.read() == b"x"


def test_a_link_out_of_the_folder_is_not_followed_unless_named_itself(street: Path) -> None:
    (street.parent / "secret.mp4").write_bytes(b"x")
    (street / "c.mp4").symlink_to(street.parent / "secret.mp4")
    assert ("c.mp4", "path_outside_root") in problems(street)
    assert "c.mp4" not in found(street)
    assert found(street / "c.mp4") == ["c.mp4"]


def test_a_name_that_is_not_utf8_is_a_problem(street: Path) -> None:
    Path(os.fsdecode(os.fsencode(street) + b"/caf\xe9.mp4")).write_bytes(b"x")
    assert ("caf\\udce9.mp4", "unreadable_video") in problems(street)


def test_a_missing_path_is_one_problem(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name in ["nowhere", "nowhere.mp4", "nowhere/list.txt"]:
        with subtests.test(name=name):
            assert [reason for _, reason in problems(tmp_path / name)] == ["missing_video"]


def test_an_empty_folder_or_list_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path) == [(str(tmp_path), "no_videos")]
    (tmp_path / "list.txt").write_text("# none yet\n\n")
    assert problems(tmp_path / "list.txt") == [(str(tmp_path / "list.txt"), "no_videos")]


def test_a_list_in_utf_16_is_read_and_one_that_is_no_text_is_a_problem(street: Path) -> None:
    (street / "list.txt").write_text("a.AVI\nb.mp4\n", encoding="utf-16")
    assert found(street / "list.txt") == ["a.AVI", "b.mp4"]
    (street / "list.txt").write_bytes(b"PK\x03\x04")
    assert [reason for _, reason in problems(street / "list.txt")] == ["unreadable_list"]


def test_an_inspected_video_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mp4", range(3))
    (one,) = find_videos(path)
    assert isinstance(one, FoundVideo)
    video = inspect_video(one)
    assert isinstance(video, InspectedVideo)
    data = path.read_bytes()
    assert (video.sha256, video.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert (video.file_path, video.facts.frame_count) == ("a.mp4", 3)


def test_problems_name_the_path_relative_to_the_root(tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "a.mp4").write_bytes(b"no video")
    (one,) = find_videos(tmp_path)
    assert isinstance(one, FoundVideo)
    problem = inspect_video(one)
    assert isinstance(problem, VideoProblem)
    assert problem.file_path == "night/a.mp4"
    assert problem.detail.startswith("video 'night/a.mp4' is no video that can be read")
