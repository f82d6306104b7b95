import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from loupe.sources.bare_image import bare_image
from loupe.sources.decoding import ImageRefusedError, decoded
from tests.sources.carriers import (
    CARRIERS,
    PLACE,
    before_end,
    contains_place,
    in_front,
    riff,
    segment,
    with_riff,
)
from tests.sources.pictures import chunk, encode, encoded

MAX_PIXELS = 1_000_000
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
REENCODED = {"BMP with text behind its end", "BMP with text before its pixels"}


def pixels(data: bytes) -> tuple[str, tuple[int, int], bytes, object]:
    """Mode, size, pixels and colour profile."""
    picture = decoded(data, MAX_PIXELS)
    return picture.mode, picture.size, picture.tobytes(), picture.info.get("icc_profile")


def test_the_place_is_removed_and_the_pixels_are_kept(subtests: pytest.Subtests) -> None:
    for what in CARRIERS:
        with subtests.test(what=what):
            data = CARRIERS[what]
            assert contains_place(data)
            bare = bare_image(data)
            if what in REENCODED:
                assert bare is None
            else:
                assert bare is not None
                assert not contains_place(bare)
                assert pixels(bare) == pixels(data)
                assert bare_image(bare) is bare


def noise(size: tuple[int, int], mode: str, seed: int) -> Image.Image:
    channels = len(Image.new(mode, (1, 1)).getbands())
    shape = (size[1], size[0], channels)
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.frombytes("L" if mode == "P" else mode, size, values.tobytes()).convert(mode)


SIZES = st.tuples(st.integers(1, 70), st.integers(1, 70))
JPEG_OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "quality": st.integers(1, 100),
    "progressive": st.booleans(),
    "optimize": st.booleans(),
    "restart_marker_blocks": st.integers(0, 5),
    "icc_profile": st.sampled_from([None, PROFILE]),
    "subsampling": st.integers(0, 2),
    "dpi": st.sampled_from([(0, 0), (300, 300)]),
}
PNG_OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "optimize": st.booleans(),
    "icc_profile": st.sampled_from([None, PROFILE]),
    "dpi": st.sampled_from([(72, 72), (300, 300)]),
}
WEBP_OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "lossless": st.booleans(),
    "quality": st.integers(0, 100),
    "icc_profile": st.sampled_from([None, PROFILE]),
}
KINDS = {
    "JPEG": (["L", "RGB", "CMYK"], JPEG_OPTIONS),
    "PNG": (["1", "L", "LA", "P", "RGB", "RGBA"], PNG_OPTIONS),
    "WEBP": (["RGB", "RGBA"], WEBP_OPTIONS),
}


@st.composite
def clean(draw: st.DrawFn, format: str) -> bytes:  # noqa: A002
    """An image file of noise without metadata."""
    modes, options = KINDS[format]
    mode = draw(st.sampled_from(modes))
    chosen = {name: draw(values) for name, values in options.items()}
    if format == "JPEG" and mode == "RGB":
        chosen["keep_rgb"] = draw(st.booleans())
        chosen["subsampling"] = 0 if chosen["keep_rgb"] else chosen["subsampling"]
    return encode(noise(draw(SIZES), mode, draw(st.integers(0, 99))), format, **chosen)


@settings(max_examples=60)
@given(body=st.sampled_from(sorted(KINDS)).flatmap(clean))
def test_a_clean_file_keeps_its_bytes(body: bytes) -> None:
    assert bare_image(body) is body


FORMATS_WITH_METADATA = ["JPEG", "PNG", "WEBP"]


@settings(max_examples=45)
@given(
    format=st.sampled_from(FORMATS_WITH_METADATA),
    data=st.data(),
    note=st.binary(max_size=300),
    behind=st.binary(max_size=30),
)
def test_metadata_added_to_a_clean_file_is_removed(
    format: str,  # noqa: A002
    data: st.DataObject,
    note: bytes,
    behind: bytes,
) -> None:
    body = data.draw(clean(format))
    if format == "JPEG":
        marker = data.draw(st.sampled_from([0xE1, 0xE2, 0xE4, 0xED, 0xEF, 0xFE]))
        marked = in_front(body, segment(marker, b"x" + note))
    elif format == "PNG":
        name = data.draw(st.sampled_from([b"tEXt", b"prVt", b"tIME", b"hIST"]))
        marked = before_end(body, chunk(name, note))
    else:
        marked = with_riff(body, riff(b"note", note))
    assert bare_image(marked + behind) == body


@settings(max_examples=90)
@given(format=st.sampled_from(FORMATS_WITH_METADATA), data=st.data())
def test_a_damaged_file_that_decodes_keeps_its_pixels(
    format: str,  # noqa: A002
    data: st.DataObject,
) -> None:
    options = {"exif": Image.Exif().tobytes(), "icc_profile": PROFILE}
    body = bytearray(encoded(format, (48, 40), progressive=data.draw(st.booleans()), **options))
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[at] = data.draw(st.sampled_from([0, 0xFF, 0xD0, 0xD9]) | st.integers(0, 255))
    damaged = bytes(body[: data.draw(st.integers(len(body) // 2, len(body)))])
    bare = bare_image(damaged)
    if bare is not None:
        assert bare_image(bare) is bare
        try:
            wanted = pixels(damaged)
        except ImageRefusedError:
            return
        assert pixels(bare)[:3] == wanted[:3]


@settings(max_examples=100)
@given(
    st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\x20\0\0\0WEBP", b"BM"]),
    st.binary(),
)
def test_bare_image_accepts_any_bytes(magic: bytes, rest: bytes) -> None:
    bare = bare_image(magic + rest)
    assert bare is None or len(bare) <= len(magic + rest)


JPEG = encoded(size=(120, 90))
PNG = encoded("PNG", size=(120, 90))


def test_malformed_files_have_to_be_encoded_again(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, bytes]] = [
        ("a JPEG without its end", JPEG[:-2]),
        ("a JPEG without a scan", JPEG[:20] + JPEG[-2:]),
        ("a JPEG that begins twice", JPEG[:2] + JPEG),
        ("a segment beyond the end", JPEG[:2] + b"\xff\xe1\xff\xff" + JPEG[2:]),
        ("a segment of no length", JPEG[:2] + b"\xff\xe1\x00\x01" + JPEG[2:]),
        ("a PNG without its end", PNG[:-12]),
        ("a chunk that has to be known", before_end(PNG, chunk(b"LOCA", b""))),
        ("pixels in two places", before_end(PNG, chunk(b"tEXt", b""), chunk(b"IDAT", b""))),
        ("a WebP without its end", encoded("WEBP")[:-2]),
        ("a WebP of two pictures", with_riff(encoded("WEBP"), riff(b"VP8 ", b""))),
        ("a WebP that moves", with_riff(encoded("WEBP"), riff(b"ANMF", b""))),
        ("a BMP", encoded("BMP")),
        ("nothing", b""),
    ]
    for name, data in cases:
        with subtests.test(name=name):
            assert bare_image(data) is None


def test_fill_bytes_before_a_marker_are_accepted() -> None:
    filled = JPEG[:2] + b"\xff\xff" + JPEG[2:-2] + b"\xff" + JPEG[-2:]
    assert bare_image(filled) is filled


def test_a_colour_profile_in_several_segments_is_kept() -> None:
    long = PROFILE + bytes(150_000)
    data = encoded(icc_profile=long, comment=PLACE)
    assert data.count(b"ICC_PROFILE\0") == 3
    bare = bare_image(data)
    assert bare is not None
    assert pixels(bare)[3] == long
    assert not contains_place(bare)


def test_the_webp_header_flags_no_metadata() -> None:
    data = encoded("WEBP", (40, 30), exif=Image.Exif().tobytes(), icc_profile=PROFILE)
    bare = bare_image(data)
    assert data[12:16] == b"VP8X"
    assert bare is not None
    assert (data[20], bare[20]) == (0x28, 0x20)
    assert struct.unpack("<I", bare[4:8]) == (len(bare) - 8,)
    with Image.open(io.BytesIO(bare)) as picture:
        assert picture.info["icc_profile"] == PROFILE
        assert not picture.getexif()
