import random
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from loupe.schemas.base import sha256_of
from loupe.sources.decoding import ImageRefusedError, decoded, upright
from loupe.sources.images import (
    ImageLimits,
    ImageProblem,
    InspectedImage,
    inspect_each,
    inspect_image,
    is_file_below,
)
from loupe.sources.records import SourceRow
from tests.sources.carriers import CARRIERS, contains_place
from tests.sources.pictures import encode, encoded, png_header

DATA = Path("../shared/data")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not on this machine")


def inspected(root: Path, file_path: str, limits: ImageLimits | None = None) -> InspectedImage:
    image = inspect_image(root, file_path, limits)
    assert isinstance(image, InspectedImage), image
    return image


def problem(root: Path, file_path: str, limits: ImageLimits | None = None) -> ImageProblem:
    image = inspect_image(root, file_path, limits)
    assert isinstance(image, ImageProblem)
    return image


def test_an_image_without_metadata_keeps_its_bytes(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[str, str]] = [
        ("JPEG", "image/jpeg"),
        ("PNG", "image/png"),
        ("WEBP", "image/webp"),
        ("BMP", "image/bmp"),
    ]
    for image_format, media_type in cases:
        with subtests.test(image_format=image_format, media_type=media_type):
            data = encoded(image_format)
            (tmp_path / "wrong_name.txt").write_bytes(data)
            image = inspected(tmp_path, "wrong_name.txt")
            assert image.data == data
            assert image.sha256 == image.source_sha256 == sha256_of(data)
            assert (image.width_px, image.height_px, image.media_type) == (24, 48, media_type)


def verdict(check: Callable[[bytes, int], object], data: bytes) -> str:
    """Return why a check refuses an image, or "fine"."""
    try:
        check(data, ImageLimits().max_pixels)
    except ImageRefusedError as refusal:
        return refusal.reason
    return "fine"


def test_a_damaged_jpeg_is_judged_as_by_computing_its_pixels(subtests: pytest.Subtests) -> None:
    chance = random.Random(1)
    noise = Image.effect_noise((120, 90), 80).convert("RGB")
    for is_progressive in (False, True):
        with subtests.test(is_progressive=is_progressive):
            whole = encode(noise, "JPEG", progressive=is_progressive)
            verdicts = set()
            for _ in range(200):
                data = bytearray(whole)
                at, length = chance.randrange(len(data)), chance.randrange(1, 400)
                data[at : at + length] = chance.choice((b"", chance.randbytes(length)))
                wanted = verdict(decoded, bytes(data))
                assert verdict(upright, bytes(data)) == wanted
                verdicts.add(wanted)
            assert verdicts >= {"fine", "truncated_image", "undecodable_image"}


def test_a_place_is_removed_from_every_carrier(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for what in CARRIERS:
        with subtests.test(what=what):
            (tmp_path / "a.jpg").write_bytes(CARRIERS[what])
            image = inspected(tmp_path, "a.jpg")
            assert not contains_place(image.data)
            assert image.sha256 == sha256_of(image.data) != image.source_sha256
            assert image.source_sha256 == sha256_of(CARRIERS[what])
            before, after = decoded(CARRIERS[what], 10**6), decoded(image.data, 10**6)
            assert after.tobytes() == before.tobytes()
            assert (after.format, after.mode) == (before.format, before.mode)


def test_the_limits_are_configurable(tmp_path: Path) -> None:
    data = encoded("PNG")
    (tmp_path / "a.png").write_bytes(data)
    exact = ImageLimits(max_bytes=len(data), max_pixels=24 * 48)
    assert inspected(tmp_path, "a.png", exact).width_px == 24
    too_many = problem(tmp_path, "a.png", exact.model_copy(update={"max_pixels": 24 * 48 - 1}))
    assert too_many.reason == "too_many_pixels"
    too_large = problem(tmp_path, "a.png", exact.model_copy(update={"max_bytes": len(data) - 1}))
    assert too_large.detail == (
        f"image 'a.png' has {len(data):,} bytes, wanted at most {len(data) - 1:,}"
    )


def test_paths_outside_the_image_root_are_refused(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[str, str]] = [
        ("../outside.jpg", "path_outside_root"),
        ("a/../../outside.jpg", "path_outside_root"),
        ("a/../a.jpg", "path_outside_root"),
        ("..\\outside.jpg", "path_outside_root"),
        ("/etc/passwd", "path_outside_root"),
        ("\\\\server\\share", "path_outside_root"),
        ("c:a.jpg", "path_outside_root"),
        ("link_out.jpg", "path_outside_root"),
        ("folder_out/outside.jpg", "path_outside_root"),
        ("a.jpg/b.jpg", "missing_image"),
        ("link_to_nothing.jpg", "missing_image"),
        ("a\x00.jpg", "unreadable_image"),
        ("loop", "unreadable_image"),
        ("x" * 5000, "unreadable_image"),
        ("\ud800.jpg", "unreadable_image"),
        (f"{chr(0xDCFF)}.jpg", "unreadable_image"),
        ("", "not_a_file"),
        (".", "not_a_file"),
    ]
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    for path in (root / "a.jpg", tmp_path / "outside.jpg"):
        path.write_bytes(encoded())
    (root / "link_out.jpg").symlink_to(tmp_path / "outside.jpg")
    (root / "folder_out").symlink_to(tmp_path)
    (root / "link_to_nothing.jpg").symlink_to(root / "none.jpg")
    (root / "loop").symlink_to(root / "loop")
    for file_path, reason in cases:
        with subtests.test(file_path=file_path, reason=reason):
            found = problem(root, file_path)
            assert found.reason == reason
            found.model_dump_json().encode("utf-8")


def test_links_that_stay_below_the_root_are_followed(tmp_path: Path) -> None:
    (tmp_path / "disk" / "images").mkdir(parents=True)
    (tmp_path / "disk" / "images" / "a.jpg").write_bytes(encoded())
    (tmp_path / "disk" / "link.jpg").symlink_to("images/a.jpg")
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    assert inspected(tmp_path / "root", "link.jpg").data == encoded()


def test_a_device_is_refused() -> None:
    assert problem(Path("/dev"), "null").reason == "not_a_file"


def test_inspection_in_threads_gives_the_same_results(tmp_path: Path) -> None:
    files = {
        "good.jpg": encoded(),
        "turned.jpg": encoded(exif=orientation(6)),
        "bomb.png": png_header(30_000, 30_000),
        "cut.jpg": encoded(size=(200, 400))[:1500],
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    names = sorted(files) * 5
    with ThreadPoolExecutor(max_workers=8) as threads:
        together = list(threads.map(lambda name: inspect_image(tmp_path, name), names))
    assert together == [inspect_image(tmp_path, name) for name in sorted(files)] * 5


def test_inspection_closes_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded())
    before = open_files()
    for file_path in ("a.jpg", "none.jpg", ".", "../a.jpg"):
        inspect_image(tmp_path, file_path)
    assert open_files() == before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@needs_data
def test_a_rotated_photograph_is_turned_upright_and_a_corrupt_one_refused() -> None:
    """The first photograph has orientation 6 in EXIF; the second lacks its first bytes."""
    turned = inspected(DATA, "near_duplicates/ukbench09268.jpg")
    assert turned.sha256 != turned.source_sha256
    assert turned.height_px > turned.width_px
    assert b"Exif" not in turned.data
    assert problem(DATA, "near_duplicates/ukbench09268_corrupt.jpg").reason == "not_an_image"


def orientation(value: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif.tobytes()


@pytest.mark.parametrize(
    ("on_disk", "stated"),
    [
        ("IMG_0001 (2).JPG", "IMG_0001 (2).JPG"),
        ("a #1%20b.jpeg", "a #1%20b.jpeg"),
        ("DCIM/100CANON/_MG_1.JPG", "DCIM\\100CANON\\_MG_1.JPG"),
        (unicodedata.normalize("NFD", "Café/Mädchen.jpg"), "Café/Mädchen.jpg"),
        ("Café/Mädchen.jpg", unicodedata.normalize("NFD", "Café/Mädchen.jpg")),
    ],
    ids=["spaces", "signs", "backslashes", "NFD on disk", "NFC on disk"],
)
def test_names_that_cameras_and_systems_write_are_found(
    tmp_path: Path, on_disk: str, stated: str
) -> None:
    (tmp_path / on_disk).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / on_disk).write_bytes(encoded("JPEG"))
    assert is_file_below(tmp_path, stated)
    assert inspected(tmp_path, stated).width_px == 24


@pytest.mark.parametrize(
    ("size", "reason"),
    [((1, 1), "too_small"), ((300, 7), "too_small"), ((9, 300), "extreme_aspect"), ((8, 160), "")],
)
def test_an_image_of_an_odd_shape_is_refused(
    tmp_path: Path, size: tuple[int, int], reason: str
) -> None:
    Image.new("I;16", size).save(tmp_path / "a.png")
    found = inspect_image(tmp_path, "a.png", ImageLimits(least_side_px=8, greatest_aspect=20))
    assert (found.reason if isinstance(found, ImageProblem) else "") == reason
    assert isinstance(inspect_image(tmp_path, "a.png"), InspectedImage)


def test_images_decoded_together_are_those_decoded_alone(tmp_path: Path) -> None:
    good, damaged = encoded(), encoded("PNG")[:60]
    rows: list[SourceRow] = []
    for number in range(40):
        name, held = f"{number}.jpg", [good, damaged, b"no image"][number % 3]
        if number % 7:
            (tmp_path / name).write_bytes(held)
        other = ("3.jpg",) if number == 14 else ()
        row = SourceRow(index=number, identity="1", split="train", file_path=name)
        rows.append(row.model_copy(update={"other_paths": other}))
    found = list(inspect_each(tmp_path, rows))
    for number, (row, one) in enumerate(zip(rows, found, strict=True)):
        path = "3.jpg" if number == 14 else row.file_path
        assert one == inspect_image(tmp_path, path)
    assert len({one.reason for one in found if isinstance(one, ImageProblem)}) == 3
