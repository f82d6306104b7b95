"""Small files that are costly to decode: refused by their header or by limits of the worker."""

import struct
import time
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from loupe.retrieval.similarity.spectrum import UnusablePictureError, small_picture
from loupe.schemas.decoders import MOST_SCANS, too_many_scans
from loupe.schemas.image_search import DownloadSettings
from loupe.sources.decoding import ImageRefusedError, decoded, limited
from loupe.sources.images import ImageLimits, ImageProblem, inspect_image
from loupe.sources.web.addresses import DownloadRefusedError
from loupe.sources.web.downloading import read_content
from tests.sources.carriers import segment
from tests.sources.pictures import chunk, encode, encoded, jpeg_of_scans, quarters


def png_with(*chunks: bytes) -> bytes:
    """Insert chunks into a PNG before its pixels."""
    data = encoded("PNG")
    return data[:33] + b"".join(chunks) + data[33:]


def animated(format: str) -> bytes:  # noqa: A002
    pictures = [Image.new("L", (16, 16), shade % 256) for shade in range(200)]
    return encode(pictures[0], format, save_all=True, append_images=pictures[1:], duration=10)


def run_length_bmp(width: int, height: int) -> bytes:
    """A run-length encoded BMP of 8 bits whose runs end immediately."""
    palette = bytes(4 * 256)
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, 2, 0, 0, 256, 0)
    offset = 14 + len(head) + len(palette)
    return struct.pack("<2sIHHI", b"BM", offset + 2, 0, 0, offset) + head + palette + b"\0\1"


@cache
def bomb() -> bytes:
    """200 MB of zeros, compressed at first use: it takes a second."""
    return zlib.compress(bytes(200 << 20), 9)


COSTLY: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "a JPEG of 500 scans": (lambda: jpeg_of_scans((7000, 7000), 500), "too_many_scans"),
    "a WebP of 200 frames": (lambda: animated("WEBP"), "animated_image"),
    "a PNG of 200 frames": (lambda: animated("PNG"), "animated_image"),
    "a PNG with a text of 200 MB": (
        lambda: png_with(chunk(b"zTXt", b"a\0\0" + bomb())),
        "undecodable_image",
    ),
    "a PNG with many texts": (
        lambda: png_with(*[chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 20)))] * 100),
        "undecodable_image",
    ),
    "a BMP without its runs": (lambda: run_length_bmp(7000, 7000), "undecodable_image"),
}


def test_costly_images_are_refused_quickly(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for what in COSTLY:
        with subtests.test(what=what):
            make, reason = COSTLY[what]
            (tmp_path / "a").write_bytes(make())
            start = time.monotonic()
            found = inspect_image(tmp_path, "a")
            assert isinstance(found, ImageProblem)
            assert found.reason == reason, found.detail
            assert time.monotonic() - start < 30  # mostly the start of a worker on a busy machine


def test_a_compressed_colour_profile_is_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(png_with(chunk(b"iCCP", b"a\0\0" + bomb())))
    start = time.monotonic()
    inspect_image(tmp_path, "a")
    assert time.monotonic() - start < 30


def test_too_many_scans_are_refused_wherever_images_are_decoded() -> None:
    many = jpeg_of_scans((64, 64), MOST_SCANS + 1)
    with pytest.raises(ImageRefusedError, match="more than 100 scans"):
        decoded(many, 10**6)
    with pytest.raises(UnusablePictureError, match="more than 100 scans"):
        small_picture(many)
    with pytest.raises(DownloadRefusedError, match="more than 100 scans") as caught:
        read_content(many, DownloadSettings(min_side_px=8))
    assert caught.value.reason == "too_many_scans"


def test_scan_markers_in_thumbnails_and_after_the_end_do_not_count() -> None:
    """A motion photo has a video after the end of the image, which may contain any bytes."""
    whole = jpeg_of_scans((64, 64), MOST_SCANS)
    marks = b"\xff\xda" * 200
    for data in (whole + marks, whole[:2] + segment(0xE1, marks) + whole[2:]):
        assert too_many_scans(data) is None
        decoded(data, 10**6)
    assert too_many_scans(whole[:2] + b"\xff\xff\xff" + jpeg_of_scans((64, 64), 101)[2:])


def grow() -> int:
    return len([bytes(1 << 20) for _ in range(4096)])


def test_an_image_that_exceeds_the_memory_of_a_worker_is_refused() -> None:
    with pytest.raises(ImageRefusedError, match="cannot be decoded: it needs more than") as caught:
        limited(grow, max_pixels=ImageLimits().max_pixels)
    assert caught.value.reason == "too_much_memory"


def test_the_largest_admitted_image_stays_within_the_limits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(encode(quarters((7000, 7000)), "JPEG", progressive=True))
    found = inspect_image(tmp_path, "a")
    assert not isinstance(found, ImageProblem), found
