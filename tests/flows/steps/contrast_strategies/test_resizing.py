"""Resizing of images before they are sent to a model."""

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from loupe.flows.ccd.resizing import smart_resized, smart_size
from loupe.schemas.chat import ChatImage
from loupe.schemas.profile import ImageArea
from loupe.schemas.records import Rejection

AREA = ImageArea()
SIDES = st.integers(1, 20_000)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> ChatImage:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return ChatImage(media_type=f"image/{kind.lower()}", data=buffer.getvalue())


def decoded(image: ChatImage | Rejection) -> Image.Image:
    assert isinstance(image, ChatImage), image
    picture = Image.open(io.BytesIO(image.data))
    picture.load()
    return picture


def published_size(height: int, width: int) -> tuple[int, int]:
    """`smart_resize` of Qwen-VL with the paper's settings, in its order: (height, width)."""
    factor, least, most = 28, 256 * 28 * 28, 840 * 504
    high = max(factor, round(height / factor) * factor)
    wide = max(factor, round(width / factor) * factor)
    if high * wide > most:
        beta = math.sqrt((height * width) / most)
        high = max(factor, math.floor(height / beta / factor) * factor)
        wide = max(factor, math.floor(width / beta / factor) * factor)
    elif high * wide < least:
        beta = math.sqrt(least / (height * width))
        high = math.ceil(height * beta / factor) * factor
        wide = math.ceil(width * beta / factor) * factor
    return high, wide


@given(SIDES, SIDES)
def test_sides_are_multiples_and_the_area_is_within_bounds(width: int, height: int) -> None:
    size = smart_size(width, height, AREA)
    if max(width, height) > 200 * min(width, height):
        assert size is None
        return
    assert size is not None
    assert size[0] % 28 == size[1] % 28 == 0
    assert 256 * 28 * 28 <= size[0] * size[1] <= 840 * 504
    assert size[::-1] == published_size(height, width)


@given(st.integers(28, 4000), st.integers(28, 4000))
def test_the_aspect_ratio_is_kept_to_within_a_patch(width: int, height: int) -> None:
    size = smart_size(width, height, AREA)
    if size is None:
        return
    scale = math.sqrt(size[0] * size[1] / (width * height))
    # Both sides are rounded, and rounding one changes the scale of the other.
    for side, was in zip(size, (width, height), strict=True):
        other = min(size)
        assert abs(side - was * scale) <= 28 + side * 28 / other


def test_an_image_is_resized_to_its_size() -> None:
    assert smart_size(640, 480, AREA) == (644, 476)
    assert decoded(smart_resized(encoded(Image.new("RGB", (640, 480))), AREA)).size == (644, 476)


def test_bounds_that_no_image_can_meet_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, int]] = [
        {"least_pixels": 300_000, "most_pixels": 400_000},
        {"least_pixels": 10, "most_pixels": 30},
        {"side_multiple_px": 64},
    ]
    for bounds in cases:
        refused = pytest.raises(ValidationError, match="most_pixels must be at least")
        with subtests.test(bounds=bounds), refused:
            ImageArea.model_validate(bounds)


def test_an_image_that_fits_is_returned_unchanged() -> None:
    for kind in ("PNG", "JPEG"):
        image = encoded(Image.new("RGB", (560, 448), "red"), kind)
        assert smart_resized(image, AREA) is image


def test_an_image_is_rotated_by_its_exif_orientation() -> None:
    turned = Image.new("RGB", (560, 448), "red")
    turned.paste("blue", (0, 0, 560, 224))  # the upper half as stored
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: rotate by 90° clockwise
    picture = decoded(smart_resized(encoded(turned, "JPEG", exif=exif), AREA))
    assert picture.size == (448, 560)
    right, left = picture.getpixel((440, 280)), picture.getpixel((8, 280))
    assert isinstance(right, tuple)
    assert isinstance(left, tuple)
    assert right[2] > 200
    assert left[0] > 200
    assert picture.getexif().get(0x0112, 1) == 1


def test_an_image_is_converted_to_rgb(subtests: pytest.Subtests) -> None:
    for mode in ["L", "1", "P", "CMYK", "RGBA", "LA", "I;16"]:
        with subtests.test(mode=mode):
            shade = 255 if mode == "1" else 200
            if mode == "I;16":
                image = Image.new("I;16", (100, 80), shade * 256)
            else:
                image = Image.new("L", (100, 80), shade).convert(mode)
            picture = decoded(
                smart_resized(encoded(image, "JPEG" if mode == "CMYK" else "PNG"), AREA)
            )
            assert picture.mode == "RGB"
            assert np.abs(np.asarray(picture, np.int16) - shade).max() <= 3


def test_transparent_pixels_become_white() -> None:
    picture = decoded(smart_resized(encoded(Image.new("RGBA", (90, 90), (0, 0, 0, 0))), AREA))
    assert picture.getextrema() == ((255, 255),) * 3


def test_an_undecodable_image_is_rejected(subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [b"", b"<svg/>", encoded(Image.new("RGB", (64, 64))).data[:60]]
    for data in cases:
        with subtests.test(data=data):
            refused = smart_resized(ChatImage(media_type="image/png", data=data), AREA)
            assert isinstance(refused, Rejection)
            assert refused.reason == "undecodable_image"


def test_the_same_image_gives_the_same_bytes() -> None:
    image = encoded(Image.effect_noise((90, 70), 40).convert("RGB"))
    assert smart_resized(image, AREA) == smart_resized(image, AREA)
