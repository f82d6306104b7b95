import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from loupe.schemas.image_search import DownloadSettings
from loupe.sources.decoding import ImageRefusedError, decoded
from loupe.sources.web.addresses import DownloadRefusedError
from loupe.sources.web.downloading import Content, read_content
from tests.sources.carriers import archive, exif, in_front, segment
from tests.sources.pictures import chunk, encode, encoded, png_header, quarters
from tests.sources.test_decoding import exif_block

SETTINGS = DownloadSettings(min_side_px=8, max_pixels=1_000_000)
PHOTOGRAPHS = Path("../shared/data/coco_captions")
JPEG = encoded(size=(120, 90))


def read(body: bytes, **changes: Any) -> Content:
    return read_content(body, SETTINGS.model_copy(update=changes))


def refusal(body: bytes, **changes: Any) -> DownloadRefusedError:
    with pytest.raises(DownloadRefusedError) as caught:
        read(body, **changes)
    return caught.value


def animated(format: str, frames: int = 3, **options: Any) -> bytes:  # noqa: A002
    pictures = [Image.new("RGB", (40, 30), (shade, 0, 0)) for shade in range(0, 80 * frames, 80)]
    return encode(pictures[0], format, save_all=True, append_images=pictures[1:], **options)


REFUSED = {
    "an animated GIF": (animated("GIF"), "not_an_image"),
    "an animated WebP": (animated("WEBP"), "animated_image"),
    "an animated PNG": (animated("PNG"), "animated_image"),
    "a TIFF": (encoded("TIFF"), "not_an_image"),
    "an SVG bomb": (b"<!DOCTYPE svg [<!ENTITY a 'a'>]><svg>&a;</svg>", "not_an_image"),
    "a page": (b"\n<!DOCTYPE html><html><body>404</body></html>", "not_an_image"),
    "JSON": (b'{"error": "s3cr3t"}', "not_an_image"),
    "a ZIP": (archive(), "not_an_image"),
    "nothing": (b"", "not_an_image"),
    "one byte": (b"\xff", "not_an_image"),
    "a JPEG behind other bytes": (b"\n" + JPEG, "not_an_image"),
    "a JPEG and a ZIP": (JPEG + archive(), "refused_type"),
    "a JPEG in a ZIP with a long comment": (JPEG + archive() + bytes(60_000), "refused_type"),
    "a PNG and a ZIP": (encoded("PNG", size=(99, 99)) + archive(), "refused_type"),
    "a JPEG around a ZIP": (in_front(JPEG, segment(0xFE, archive())), "refused_type"),
    "the begin of a JPEG": (JPEG[: len(JPEG) // 2], "truncated_image"),
    "the begin of a PNG": (encoded("PNG", size=(99, 99))[:150], "truncated_image"),
    "the begin of a WebP": (encoded("WEBP", size=(99, 99))[:200], "undecodable_image"),
    "a header of many pixels": (png_header(30_000, 30_000), "too_many_pixels"),
    "a header of 2^62 pixels": (png_header(2**31 - 1, 2**31 - 1), "too_many_pixels"),
    "a header of no pixels": (png_header(0, 100), "undecodable_image"),
    "a tracking pixel": (encoded("PNG", size=(1, 1)), "too_small"),
    "a line": (encoded("JPEG", size=(1000, 7)), "too_small"),
}


def test_other_contents_are_refused(subtests: pytest.Subtests) -> None:
    for what, resize_longest_px in itertools.product(REFUSED, (None, 20)):
        with subtests.test(what=what, resize_longest_px=resize_longest_px):
            body, reason = REFUSED[what]
            found = refusal(body, resize_longest_px=resize_longest_px)
            assert found.reason in {
                reason,
                *(["no_pixels"] if what == "a header of no pixels" else []),
            }
            assert "s3cr3t" not in found.what


def test_turned_images_are_turned_upright_without_gps_data(
    subtests: pytest.Subtests,
) -> None:
    for resize_longest_px, image_format, orientation in itertools.product(
        (None, 60), ("JPEG", "PNG", "WEBP"), (3, 6)
    ):
        with subtests.test(
            resize_longest_px=resize_longest_px, image_format=image_format, orientation=orientation
        ):
            options: dict[str, Any] = {"lossless": True} if image_format == "WEBP" else {}
            exif = exif_block(orientation, place=True)
            body = encoded(image_format, size=(120, 80), exif=exif, **options)
            content = read(body, resize_longest_px=resize_longest_px)
            with (
                Image.open(io.BytesIO(body)) as original,
                Image.open(io.BytesIO(content.data)) as kept,
            ):
                expected = ImageOps.exif_transpose(original)
                if resize_longest_px is not None:
                    small = (60, 40) if expected.width > expected.height else (40, 60)
                    expected = expected.resize(small, Image.Resampling.LANCZOS)
                assert content.size == kept.size == expected.size
                assert not kept.getexif()
                assert b"GPS" not in content.data
                assert _distance(kept, expected) < 3


def _distance(one: Image.Image, other: Image.Image) -> float:
    pixels = (np.asarray(picture.convert("RGB"), np.float64) for picture in (one, other))
    first, second = pixels
    return float(np.abs(first - second).mean())


def test_an_orientation_after_the_pixels_is_applied() -> None:
    png, end = encoded("PNG", size=(120, 90)), chunk(b"IEND", b"")
    late = png.removesuffix(end) + chunk(b"eXIf", exif_block(6, place=True)[6:]) + end
    for longest in (None, 60):
        content = read(late, resize_longest_px=longest)
        assert b"eXIf" not in content.data
        assert content.size == ((45, 60) if longest else (90, 120))


def test_metadata_is_removed_without_encoding_again() -> None:
    assert read(encoded(size=(120, 90), exif=exif(), comment="here")).data == JPEG


def test_images_are_scaled_down_and_never_up(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[int, int], int, tuple[int, int]]] = [
        ((120, 90), 120, (120, 90)),
        ((120, 90), 500, (120, 90)),
        ((120, 90), 60, (60, 45)),
        ((90, 120), 60, (45, 60)),
        ((121, 90), 60, (60, 45)),
        ((1000, 8), 60, (60, 1)),
        ((513, 385), 64, (64, 48)),
        ((1024, 1024), 64, (64, 64)),
    ]
    for (size, longest, wanted), image_format in itertools.product(cases, ("JPEG", "PNG")):
        with subtests.test(longest=longest, image_format=image_format):
            body = encoded(image_format, size=size)
            content = read(body, resize_longest_px=longest, max_pixels=2_000_000)
            assert content.size == wanted
            with Image.open(io.BytesIO(content.data)) as picture:
                assert picture.size == wanted
            assert (content.data is body) == (wanted == size)


def test_images_of_all_colour_modes_are_scaled_down(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("L", "JPEG"), ("CMYK", "JPEG"), ("1", "PNG"), ("L", "PNG"), ("LA", "PNG"), ("P", "PNG"),
        ("RGBA", "PNG"), ("I;16", "PNG"), ("RGBA", "WEBP"), ("P", "BMP"), ("1", "BMP"),
    ]  # fmt: skip
    for mode, image_format in cases:
        with subtests.test(mode=mode, image_format=image_format):
            picture = quarters((120, 90)).convert("L" if mode == "I;16" else mode).convert(mode)
            content = read(encode(picture, image_format), resize_longest_px=60)
            with Image.open(io.BytesIO(content.data)) as small:
                assert small.size == (60, 45)
                if mode not in ("1", "I;16"):
                    expected = picture.convert("RGBA").resize((60, 45), Image.Resampling.LANCZOS)
                    assert _distance(small.convert("RGBA"), expected) < 6


def test_a_transparent_colour_stays_transparent() -> None:
    picture = quarters((120, 90))
    content = read(encode(picture, "PNG", transparency=(255, 0, 0)), resize_longest_px=60)
    with Image.open(io.BytesIO(content.data)) as small:
        assert small.convert("RGBA").getpixel((5, 5))[3] == 0  # type: ignore[index]
        assert small.convert("RGBA").getpixel((55, 40)) == (255, 255, 255, 255)


@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason=f"{PHOTOGRAPHS} is not on this machine")
def test_scaling_while_decoding_is_close_to_scaling_afterwards() -> None:
    for path in sorted(PHOTOGRAPHS.glob("*.jpg")):
        body = path.read_bytes()
        content = read(body, resize_longest_px=256)
        whole = decoded(body, 1_000_000).convert("RGB")
        with Image.open(io.BytesIO(content.data)) as small:
            assert _distance(small, whole.resize(content.size, Image.Resampling.LANCZOS)) < 4.5


def test_a_jpeg_can_be_kept_without_decoding() -> None:
    damaged = JPEG[:-40] + bytes(38) + JPEG[-2:]
    assert read(damaged, decode_all=False).data is damaged
    turned = encoded(size=(120, 90), exif=exif_block(6, place=True))
    assert read(turned, decode_all=False).size == (90, 120)
    for cut in (JPEG[:-2], JPEG[: len(JPEG) // 2], encoded("PNG", size=(99, 99))[:150]):
        if cut != JPEG[:-2]:  # all its pixels are complete
            assert refusal(cut, decode_all=False).reason == "truncated_image"
        assert refusal(cut, decode_all=False, max_pixels=100).reason == "too_many_pixels"


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RGB", {}), ("RGB", {"progressive": True}), ("RGB", {"keep_rgb": True}),
    ("RGB", {"restart_marker_rows": 1, "optimize": True}), ("L", {}), ("CMYK", {}),
]  # fmt: skip
"""JPEGs: plain, progressive, in RGB, with restart markers, in grey, in CMYK."""


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_a_damaged_jpeg_is_refused_exactly_if_full_decoding_fails(
    kind: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    mode, options = kind
    body = bytearray(encode(quarters((120, 90)).convert(mode), "JPEG", **options))
    cut = data.draw(st.integers(0, len(body)))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    damaged = bytes(body[:cut])
    try:
        decoded(damaged, SETTINGS.max_pixels)
    except ImageRefusedError:
        with pytest.raises(DownloadRefusedError):
            read(damaged)
    else:
        assert read(damaged, min_side_px=1).size
