"""One encoder for the images of a benchmark: what it does to images, and how releases state it."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from loupe.db.releases import list_releases
from loupe.release.build import build_release
from loupe.release.contamination import Checks
from loupe.release.format.encoding import common_sizes, encode, encoding_fault, encoding_of
from loupe.release.format.row_files import read_release
from loupe.release.lineage import ENTITIES
from loupe.release.rebuild import rebuild_release
from loupe.release.verify import verify_release
from loupe.schemas.encoding import ImageEncoder
from loupe.schemas.errors import IntegrityError
from tests.release.ccd_world import CCD, benchmark
from tests.release.worlds import DATASET, small_world, store_world

ROUND_TRIP = ImageEncoder(round_trip=True)


def _photograph(image_format: str, size: tuple[int, int] = (96, 64), **options: Any) -> bytes:
    noise = np.random.default_rng(3).integers(0, 255, (9, 9, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    picture = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
    picture.save(buffer, image_format, **options)
    return buffer.getvalue()


def _opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_whatever_the_format_and_metadata_the_file_is_the_same() -> None:
    exif = Image.Exif()
    exif[0x010E] = "edited"
    stored = [
        _photograph("PNG"),
        _photograph("WEBP", lossless=True, exif=exif.tobytes()),
        _photograph("PNG", exif=exif),
    ]
    made = {encode(one, ROUND_TRIP, (96, 64), was_edited=False).data for one in stored}
    assert len(made) == 1
    assert encoding_fault(_opened(made.pop()), encoding_of(ROUND_TRIP)) is None


def test_images_become_upright_and_transparent_pixels_white() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    turned = encode(_photograph("JPEG", exif=exif), ImageEncoder(), (64, 96), was_edited=False)
    assert _opened(turned.data).size == (64, 96) == turned[1:]
    buffer = io.BytesIO()
    Image.new("RGBA", (16, 16), (255, 0, 0, 0)).save(buffer, "PNG")
    clear = encode(buffer.getvalue(), ImageEncoder(), (16, 16), was_edited=False)
    assert _opened(clear.data).getpixel((8, 8)) == (255, 255, 255)


def test_an_image_that_an_editor_made_is_not_resampled_again() -> None:
    photograph = _photograph("PNG")
    again, once = (
        np.asarray(_opened(encode(photograph, ROUND_TRIP, (96, 64), was_edited=edited).data))
        for edited in (False, True)
    )
    direct = encode(photograph, ImageEncoder(), (96, 64), was_edited=False)
    assert np.array_equal(once, np.asarray(_opened(direct.data)))
    assert not np.array_equal(once, again)


def test_an_original_gets_the_bytes_of_a_copy_that_an_editor_only_resampled() -> None:
    """A megapixel and back, as `QwenImageEdit` does with a picture of three to two."""
    photograph = _photograph("PNG")
    lanczos = Image.Resampling.LANCZOS
    copy = _opened(photograph).resize((1248, 832), lanczos).resize((96, 64), lanczos)
    buffer = io.BytesIO()
    copy.save(buffer, "PNG")
    edited = encode(buffer.getvalue(), ROUND_TRIP, (96, 64), was_edited=True)
    assert encode(photograph, ROUND_TRIP, (96, 64), was_edited=False) == edited


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([(640, 480), (640, 480)], [(640, 480), (640, 480)]),
        ([(640, 480), (4000, 3000)], [(640, 480), (640, 480)]),
        ([(400, 100), (100, 100)], [(200, 50), (100, 100)]),
    ],
)
def test_images_of_a_group_have_the_area_of_the_smallest(
    sizes: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    assert common_sizes(sizes) == wanted


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        (_photograph("PNG"), "no colour JPEG"),
        (_photograph("JPEG", quality=70), "another quality"),
        (_photograph("JPEG", quality=90, subsampling=0), "not subsampled"),
        (_photograph("JPEG", quality=90, comment=b"edited"), "metadata"),
    ],
)
def test_images_of_another_encoder_are_noticed(image: bytes, fault: str) -> None:
    assert fault in str(encoding_fault(_opened(image), encoding_of(ImageEncoder())))


def test_an_image_that_does_not_decode_is_not_released() -> None:
    with pytest.raises(IntegrityError, match="cannot be encoded"):
        encode(b"no image", ImageEncoder(), (8, 8), was_edited=False)


def test_a_benchmark_is_encoded_rebuilt_and_verified(tmp_path: Path) -> None:
    world = store_world(tmp_path / "world", benchmark().world.contents())
    built = build_release(world.store, world.blobs, CCD, "1.0.0", tmp_path / "out")
    assert built.manifest.encoding == encoding_of(ROUND_TRIP)
    assert verify_release(built.folder, decode=True).problems == []
    table = pq.read_table(built.folder / ENTITIES.path, columns=["id", "payload"]).to_pylist()
    payloads = {one["id"]: one["payload"] for one in table}
    for row in read_release(built.folder).rows:
        stored = json.loads(payloads[row.image_entity_id])["sha256"]
        assert row.stored_sha256 == stored != row.sha256
        assert world.blobs.read(stored, "image/jpeg")  # the original stays
        assert (row.width_px, row.height_px) == (12, 24)
    (known,) = list_releases(world.store)
    again = rebuild_release(world.store, world.blobs, known, tmp_path / "again")
    assert again.manifest == built.manifest
    world.store.close()


def test_other_releases_are_stored_images_unless_the_build_says_otherwise(tmp_path: Path) -> None:
    world = store_world(tmp_path / "world", small_world().contents())
    stored = build_release(world.store, world.blobs, DATASET, "1.0.0", tmp_path / "stored")
    assert stored.manifest.encoding is None
    checks = Checks(images=ImageEncoder(quality=80, subsampling="4:4:4"))
    made = build_release(
        world.store, world.blobs, DATASET, "1.0.1", tmp_path / "encoded", checks=checks
    )
    assert verify_release(made.folder, decode=True).problems == []
    assert made.manifest.statistics.identities == stored.manifest.statistics.identities
    rows = read_release(made.folder, stored.manifest.statistics.splits[0].split).rows
    assert [row.file_path for row in rows] == [f"images/{at}.jpg" for at in range(1, len(rows) + 1)]
    names = [row.source_file_path for row in rows]
    assert names != sorted(names)
    world.store.close()


def test_verification_finds_an_image_that_the_encoder_did_not_write(tmp_path: Path) -> None:
    world = store_world(tmp_path / "world", benchmark(2).world.contents())
    checks = Checks(images="stored")
    built = build_release(world.store, world.blobs, CCD, "1.0.0", tmp_path / "out", checks=checks)
    world.store.close()
    from loupe.release.format.findings import Findings
    from loupe.release.verify.images import verify_images

    copy = Path(shutil.copytree(built.folder, tmp_path / "copy"))
    shards = [f"data/{one.name}" for one in (copy / "data").glob("*.parquet")]
    findings = Findings()
    verify_images(copy, shards, encoding_of(ImageEncoder()), findings)
    assert {one.fault for one in findings.problems} == {"image_wrong"}
    assert "quality" in findings.problems[0].message
