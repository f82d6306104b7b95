"""Image sequences: which images are a video, and its frames."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

from loupe.models.tracking.detector import Frame
from loupe.sources.video.finding import (
    FoundVideo,
    InspectedVideo,
    find_all_videos,
    find_videos,
    inspect_video,
)
from loupe.sources.video.reader import VideoProblem, VideoReader, open_video
from tests.sources.video.clips import number_in, pixels_of

INFORMATION = "[Sequence]\nname=X\nimDir=img1\nframeRate=12\nseqLength=4\n"


def write_images(folder: Path, *names: str, size: tuple[int, int] = (64, 48)) -> Path:
    """Write images that show 0, 1, … in the order of `names`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        Image.fromarray(pixels_of(number, *size)).save(folder / name, quality=95)
    return folder


def read(address: Path | str, **options: int) -> tuple[VideoReader, list[Frame]]:
    (found,) = find_videos(address)
    assert isinstance(found, FoundVideo)
    with open_video(found.url, file_path=found.file_path) as reader:
        return reader, list(reader.frames(**options))


@pytest.mark.parametrize(
    "names",
    [
        ("000001.jpg", "000002.jpg", "000010.jpg", "000100.jpg"),
        ("frame2.jpg", "frame10.jpg", "frame100.jpg"),
        ("cam 1 #7_0.png", "cam 1 #7_1.png"),
        ("50%d_1.JPG", "50%d_2.JPG"),
    ],
)
def test_images_numbered_alike_are_one_video_in_the_order_of_their_numbers(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    reader, frames = read(write_images(tmp_path / "img1", *names))
    assert [number_in(frame.pixels) for frame in frames] == list(range(len(names)))
    assert (reader.facts.frame_count, reader.facts.has_stated_rate) == (len(names), False)


def test_a_sequence_is_named_by_its_folder_its_images_or_a_pattern(tmp_path: Path) -> None:
    images = write_images(tmp_path / "seq" / "img1", *(f"{n:06}.jpg" for n in range(1, 5)))
    (tmp_path / "seq" / "seqinfo.ini").write_text(INFORMATION)
    for folder in ("gt", "det"):
        (tmp_path / "seq" / folder).mkdir()
        (tmp_path / "seq" / folder / "gt.txt").write_text("1,1,1,1,1,1\n")
    listed = tmp_path / "list.txt"
    listed.write_text("seq/img1/%06d.jpg\n")
    patterns = [f"{images}/%06d.jpg", f"{images}/*.jpg"]
    addresses: list[Path | str] = [*patterns, images, tmp_path / "seq", listed]
    assert len(list(find_all_videos(map(str, addresses)))) == 1
    for address in addresses:
        reader, frames = read(address)
        assert [frame.time_seconds for frame in frames] == pytest.approx(
            [0, 1 / 12, 2 / 12, 3 / 12]
        )
        assert reader.facts.frame_rate == 12
        assert reader.problem is None


def test_images_that_are_no_sequence_are_problems(tmp_path: Path) -> None:
    write_images(tmp_path, "cat.jpg", "dog.jpg", "cam1_1.jpg", "cam1_2.jpg", "cam2_1.png")
    found = list(find_videos(tmp_path))
    videos = [one.file_path for one in found if isinstance(one, FoundVideo)]
    assert videos == [f"{tmp_path.name}/cam1_%d.jpg"]
    reasons = {one.file_path: one.reason for one in found if isinstance(one, VideoProblem)}
    assert reasons == dict.fromkeys(("cat.jpg", "dog.jpg", "cam2_1.png"), "single_image")


def test_a_step_is_no_gap_and_a_gap_keeps_the_times(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "a", "0010.jpg", "0020.jpg", "0030.jpg")
    reader, frames = read(folder)
    assert [frame.number for frame in frames] == [0, 1, 2]
    assert reader.problem is None
    folder = write_images(tmp_path / "b", "1.jpg", "2.jpg", "5.jpg", "6.jpg", "8.jpg")
    reader, frames = read(folder)
    assert [frame.number for frame in frames] == [0, 1, 4, 5, 7]
    assert frames[2].time_seconds == pytest.approx(4 / 25)
    assert reader.problem is not None
    assert "gaps in its numbers: 3 to 4, 7 are missing" in reader.problem.detail
    _, later = read(folder, start=2, every=2)
    assert [frame.number for frame in later] == [4]


def test_images_with_times_for_numbers_are_counted(tmp_path: Path) -> None:
    reader, frames = read(
        write_images(tmp_path, "1700000000.jpg", "1700000031.jpg", "1700000063.jpg")
    )
    assert [frame.number for frame in frames] == [0, 1, 2]
    assert reader.problem is not None
    assert "frames are counted as they come" in reader.problem.detail


def test_damaged_frames_are_left_out_and_other_sizes_scaled(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "img1", *(f"{n}.jpg" for n in range(1, 6)))
    (folder / "1.jpg").write_bytes(b"")
    (folder / "3.jpg").write_bytes((folder / "3.jpg").read_bytes()[:300])
    Image.fromarray(pixels_of(3, 128, 96)).save(folder / "4.jpg")
    reader, frames = read(folder)
    assert [frame.number for frame in frames] == [1, 3, 4]
    assert {frame.pixels.shape for frame in frames} == {(48, 64, 3)}
    assert reader.problem is not None
    assert reader.problem.detail.endswith(
        "lacks frames that cannot be read: 1.jpg is empty: has 0 bytes (and 1 more); "
        "has frames that are scaled to 64×48: 4.jpg has 128×96 pixels"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: shutil.copy(folder / "1.jpg", folder / "01.jpg"), "same_number"),
        (lambda folder: (folder / "9.jpg").symlink_to("/etc/passwd"), "path_outside_root"),
        (lambda folder: [one.write_bytes(b"x") for one in folder.iterdir()], "no_frames"),
        (shutil.rmtree, "missing_video"),
    ],
)
def test_an_unusable_sequence_is_one_problem(tmp_path: Path, change: object, reason: str) -> None:
    folder = write_images(tmp_path / "img1", "1.jpg", "2.jpg")
    assert callable(change)
    change(folder)
    (found,) = find_videos(f"{folder}/%d.jpg")
    assert isinstance(found, FoundVideo)
    problem = inspect_video(found)
    assert isinstance(problem, VideoProblem)
    assert problem.reason == reason


def test_sixteen_bit_grey_and_turned_frames_are_shown_as_viewers_show_them(tmp_path: Path) -> None:
    deep = np.full((48, 64), 30_000, np.uint16)
    for name in ("1.png", "2.png"):
        Image.fromarray(deep).save(tmp_path / name)
    _, frames = read(tmp_path)
    assert {int(value) for value in np.unique(frames[0].pixels)} == {117}


def test_the_digest_is_that_of_the_list_of_digests(tmp_path: Path) -> None:
    names = [f"{n:02}.jpg" for n in (1, 2, 10)]
    folder = write_images(tmp_path / "seq" / "img1", *names)
    listing = "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names
    )
    printed = subprocess.run(
        ["sha256sum", *names], cwd=folder, capture_output=True, text=True, check=True
    )
    assert printed.stdout == listing
    (found,) = find_videos(folder)
    assert isinstance(found, FoundVideo)
    inspected = inspect_video(found)
    assert isinstance(inspected, InspectedVideo)
    assert inspected.sha256 == hashlib.sha256(listing.encode()).hexdigest()
    (folder.parent / "seqinfo.ini").write_text(INFORMATION)
    described = inspect_video(found)
    assert isinstance(described, InspectedVideo)
    assert described.sha256 != inspected.sha256


def test_a_sequence_is_read_from_any_file_system(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "img1", "1.jpg", "2.jpg")
    for path in folder.iterdir():
        with fsspec.open(f"memory://walk/img1/{path.name}", "wb") as file:
            file.write(path.read_bytes())
    for address in ("memory://walk", "memory://walk/img1/%d.jpg"):
        _, frames = read(address)
        assert [number_in(frame.pixels) for frame in frames] == [0, 1]
