"""`loupe duplicates` on folders with duplicates and broken images."""

from pathlib import Path

import pytest

from tests.flows.command_line import Loupe
from tests.requirements import unavailable
from tests.retrieval.similarity.pictures import VARIANTS, encoded, street

PHOTOGRAPHS = Path(__file__).parents[3] / "shared" / "data" / "near_duplicates"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three pictures, one of them also as a copy, half-size and mirrored."""
    (tmp_path / "deeper").mkdir()
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(encoded(street(number)))
    (tmp_path / "deeper" / "copy of 1.JPG").write_bytes(encoded(street(1)))
    (tmp_path / "deeper" / "half.jpg").write_bytes(VARIANTS["half"](street(1)))
    (tmp_path / "0 mirrored.png").write_bytes(VARIANTS["mirrored"](street(1)))
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_clusters_are_listed_with_the_image_kept(loupe: Loupe, folder: Path) -> None:
    ran = loupe("duplicates", folder)
    assert ran.exit_code == 0, ran.err
    assert ran.out.splitlines() == [
        "0 mirrored.png",
        "  mirrored  1.jpg",
        "  mirrored  deeper/copy of 1.JPG",
        "  mirrored  deeper/half.jpg",
        "6 images, 3 of them different; duplicates: 0 exact, 0 near, 3 mirrored; pairs in doubt: 0",
    ]
    assert "fingerprint_images" in ran.err


def test_clusters_as_json(loupe: Loupe, folder: Path) -> None:
    (folder / "0 mirrored.png").unlink()
    found = loupe("duplicates", folder, "--json").json
    assert (found["images"], found["kept"], found["exact"], found["near"]) == (5, 3, 1, 1)
    (cluster,) = found["clusters"]
    assert cluster["kept"] == "1.jpg"
    copy, half = cluster["dropped"]
    assert copy == {"file": "deeper/copy of 1.JPG", "method": "exact"}
    assert (half["file"], half["method"]) == ("deeper/half.jpg", "near")
    assert half["spectrum_distance"] < 0.02
    assert found["unreadable"] == []
    assert found["settings"]["hash_bits"] == 10


def test_a_smaller_radius_finds_fewer_duplicates(loupe: Loupe, folder: Path) -> None:
    (folder / "deeper" / "half.jpg").write_bytes(VARIANTS["cropped"](street(1)))
    assert loupe("duplicates", folder, "--json").json["kept"] == 3
    at_most = loupe("duplicates", folder, "--json", "--radius", "0").json
    assert at_most["settings"]["hash_bits"] == 0
    assert at_most["kept"] >= 3


def test_broken_files_are_reported_and_the_others_compared(loupe: Loupe, folder: Path) -> None:
    (folder / "broken.jpg").write_bytes(encoded(street(1))[:3000])
    ran = loupe("duplicates", folder, "--json")
    assert ran.exit_code == 1
    assert ran.json["images"] == 6
    (broken,) = ran.json["unreadable"]
    assert (broken["file"], broken["reason"]) == ("broken.jpg", "undecodable_image")
    assert "image 'broken.jpg' cannot be decoded" in ran.err
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic")  # named, not passed over
    assert "image 'phone.heic' cannot be decoded" in loupe("duplicates", folder).err


def test_duplicates_among_photographs(loupe: Loupe) -> None:
    if not PHOTOGRAPHS.is_dir():
        unavailable(f"{PHOTOGRAPHS} is not there")
    ran = loupe("duplicates", PHOTOGRAPHS, "--json")
    assert ran.exit_code == 1
    assert [one["file"] for one in ran.json["unreadable"]] == ["ukbench09268_corrupt.jpg"]
    (cluster,) = ran.json["clusters"]
    assert cluster["kept"] == "ukbench00120.jpg"
    assert [(one["file"], one["method"]) for one in cluster["dropped"]] == [
        ("ukbench00120_hflip.jpg", "mirrored"),
        ("ukbench00120_resize.jpg", "near"),
    ]


@pytest.mark.parametrize(
    ("make", "message"), [(False, "is not a folder"), (True, "contains no images")]
)
def test_wrong_usage(loupe: Loupe, tmp_path: Path, make: bool, message: str) -> None:
    folder = tmp_path / "nothing"
    if make:
        folder.mkdir()
    ran = loupe("duplicates", folder)
    assert ran.exit_code == 2
    assert message in " ".join(ran.err.split())
