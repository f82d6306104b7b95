"""`jpeg_size` agrees with Pillow."""

import io
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from loupe.release.verify.images import jpeg_size

sides = st.integers(1, 300)


def encoded(
    size: tuple[int, int], kind: str = "JPEG", mode: str = "RGB", **options: object
) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **options)
    return buffer.getvalue()


@given(sides, sides, st.booleans(), st.sampled_from(["RGB", "L", "CMYK"]), st.binary(max_size=99))
@settings(max_examples=60)
def test_the_size_equals_that_of_pillow(
    width: int, height: int, progressive: bool, mode: str, comment: bytes
) -> None:
    exif = Image.Exif()
    exif[0x010E] = "what it shows"
    options: dict[str, Any] = {
        "progressive": progressive,
        "comment": comment,
        "exif": exif,
        "icc_profile": b"x" * 9,
    }
    data = encoded((width, height), mode=mode, **options)
    assert jpeg_size(memoryview(data)) == jpeg_size(data) == (width, height)
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.size == (width, height)


@given(st.binary(max_size=200), st.integers(0, 10**6))
def test_any_bytes_give_a_size_or_none(tail: bytes, seed: int) -> None:
    data = bytearray(encoded((30, 20)))
    place = seed % len(data)
    data[place : place + 3] = tail[:3]
    for hostile in (b"\xff\xd8" + tail, bytes(data), bytes(data[:place]), tail):
        found = jpeg_size(hostile)
        assert found is None or len(found) == 2


def test_other_image_formats_have_no_size() -> None:
    for kind in ("PNG", "WEBP", "BMP", "GIF"):
        assert jpeg_size(encoded((30, 20), kind)) is None, kind


def test_endless_headers_have_no_size() -> None:
    assert jpeg_size(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 10_000) is None
    assert jpeg_size(np.zeros(100, np.uint8).tobytes()) is None
