import io
import itertools
import struct
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from loupe.sources.bare_image import bare_image
from loupe.sources.decoding import (
    UPRIGHT,
    ImageRefusedError,
    decoded,
    encoded_upright,
    orientation_of,
)
from tests.sources.pictures import encode, encoded, quarters

FORMATS = ["JPEG", "PNG", "WEBP", "BMP"]
MAX_PIXELS = 100_000
GPS = 0x8825


def exif_block(orientation: int = UPRIGHT, *, place: bool = False) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    if place:
        exif.get_ifd(GPS)[1] = "N"
        exif.get_ifd(GPS)[2] = (48.0, 8.0, 3.0)
    return exif.tobytes()


def upright(data: bytes) -> tuple[bytes, tuple[int, int]]:
    picture = decoded(data, MAX_PIXELS)
    return encoded_upright(picture, orientation_of(picture))


def test_images_of_every_orientation_are_turned_upright(subtests: pytest.Subtests) -> None:
    for image_format, orientation in itertools.product(("JPEG", "PNG", "WEBP"), range(1, 9)):
        with subtests.test(image_format=image_format, orientation=orientation):
            options: dict[str, Any] = {"lossless": True} if image_format == "WEBP" else {}
            data = encoded(image_format, exif=exif_block(orientation), **options)
            kept, size = upright(data)
            with Image.open(io.BytesIO(data)) as original, Image.open(io.BytesIO(kept)) as turned:
                expected = ImageOps.exif_transpose(original)
                assert size == turned.size == expected.size
                assert not turned.getexif()
                assert turned.format == image_format
                for at in ((4, 4), (size[0] - 5, 4), (4, size[1] - 5), (size[0] - 5, size[1] - 5)):
                    assert close(
                        turned.convert("RGB").getpixel(at), expected.convert("RGB").getpixel(at)
                    )


def close(one: Any, other: Any) -> bool:
    return all(abs(a - b) <= 12 for a, b in zip(one, other, strict=True))


def test_a_png_keeps_its_mode(subtests: pytest.Subtests) -> None:
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        with subtests.test(mode=mode):
            data = encode(quarters().convert("L" if mode == "I;16" else mode).convert(mode), "PNG")
            kept, _ = encoded_upright(decoded(data, MAX_PIXELS), 6)
            assert decoded(kept, MAX_PIXELS).mode == mode


def test_animated_images_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "PNG",
        "WEBP",
    ]
    for kind in cases:
        with subtests.test(kind=kind):
            frames = [quarters(), quarters().rotate(180)]
            data = encode(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)
            with pytest.raises(ImageRefusedError, match="moves, wanted a single picture") as caught:
                decoded(data, MAX_PIXELS)
            assert caught.value.reason == "animated_image"


@cache
def whole(format: str) -> bytes:  # noqa: A002
    return encoded(format, size=(48, 96), **({} if format == "BMP" else {"exif": exif_block(6)}))


def is_decoded(data: bytes) -> bool:
    """Whether `data` is decoded instead of refused; other errors propagate."""
    try:
        upright(data)
    except ImageRefusedError:
        return False
    return True


@settings(max_examples=60)
@given(format=st.sampled_from(FORMATS), data=st.data())
def test_damaged_images_that_decode_can_be_decoded_again(
    format: str,  # noqa: A002
    data: st.DataObject,
) -> None:
    """The result has the given size and format and no metadata; other images are refused."""
    damaged = bytearray(whole(format))
    places = st.integers(0, min(len(damaged) - 1, 400)) | st.integers(0, len(damaged) - 1)
    for at in data.draw(st.lists(places, min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        kept, size = upright(bytes(damaged))
    except ImageRefusedError:
        return
    again = decoded(kept, MAX_PIXELS)
    assert (again.format, again.size) == (format, size)
    assert format == "BMP" or bare_image(kept) is kept


@given(format=st.sampled_from(["JPEG", "PNG", "BMP"]), data=st.data())
def test_a_truncated_image_is_refused(format: str, data: st.DataObject) -> None:  # noqa: A002
    """The last 32 bytes may be missing, because they hold no pixels."""
    length = data.draw(st.integers(0, len(whole(format)) - 32))
    assert not is_decoded(whole(format)[:length])


def test_a_webp_header_with_too_many_pixels_is_refused() -> None:
    data = bytearray(encoded("WEBP", exif=exif_block()))
    assert data[12:16] == b"VP8X"
    data[24:30] = b"\xff\x3f\x00" * 2
    with pytest.raises(ImageRefusedError, match="has too many pixels") as caught:
        decoded(bytes(data), MAX_PIXELS)
    assert caught.value.reason == "too_many_pixels"


def test_an_image_of_width_zero_is_refused() -> None:
    data = bytearray(encoded("BMP"))
    struct.pack_into("<i", data, 18, 0)
    with pytest.raises(ImageRefusedError):
        decoded(bytes(data), MAX_PIXELS)
