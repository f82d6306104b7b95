"""Fingerprints of valid and broken encoded images."""

import numpy as np
import pytest
from PIL import Image

from loupe.retrieval.similarity import spectrum as small_picture
from loupe.retrieval.similarity.near_duplicates import fingerprint
from loupe.schemas.base import sha256_of
from loupe.schemas.records import Rejection
from loupe.schemas.similarity import ImageFingerprint
from tests.retrieval.similarity.pictures import SIZE, encoded, street


def fingerprint_of(data: bytes) -> ImageFingerprint:
    found = fingerprint(data, "an image")
    assert isinstance(found, ImageFingerprint), found
    return found


def test_a_fingerprint_has_size_digest_and_spectrum() -> None:
    data = encoded(street(0))
    found = fingerprint_of(data)
    assert (found.width_px, found.height_px, found.sha256) == (*SIZE, sha256_of(data))
    assert len(found.spectrum) == 2 * 255
    assert ImageFingerprint.model_validate_json(found.payload()) == found


def test_the_orientation_in_exif_is_applied(subtests: pytest.Subtests) -> None:
    for orientation in range(1, 9):
        with subtests.test(orientation=orientation):
            upright = street(1)
            back = {
                2: Image.Transpose.FLIP_LEFT_RIGHT,
                3: Image.Transpose.ROTATE_180,
                4: Image.Transpose.FLIP_TOP_BOTTOM,
                5: Image.Transpose.TRANSPOSE,
                6: Image.Transpose.ROTATE_90,
                7: Image.Transpose.TRANSVERSE,
                8: Image.Transpose.ROTATE_270,
            }
            turned = upright.transpose(back[orientation]) if orientation in back else upright
            exif = Image.Exif()
            exif[0x0112] = orientation
            one, other = (
                fingerprint_of(encoded(turned, exif=exif.tobytes())),
                fingerprint_of(encoded(upright)),
            )
            bits = int(one.perceptual_hash or "", 16) ^ int(other.perceptual_hash or "", 16)
            assert bits.bit_count() <= 2


def test_transparent_pixels_count_as_white() -> None:
    clear = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    clear.paste((200, 30, 30, 255), (10, 10, 40, 30))
    white = Image.new("RGB", (64, 64), "white")
    white.paste((200, 30, 30), (10, 10, 40, 30))
    one, other = fingerprint_of(encoded(clear, "PNG")), fingerprint_of(encoded(white, "PNG"))
    assert one.perceptual_hash == other.perceptual_hash
    assert one.spectrum == other.spectrum


def test_a_uniform_image_has_no_hash() -> None:
    found = fingerprint_of(encoded(Image.new("RGB", (64, 64), "navy")))
    assert (found.perceptual_hash, found.mirrored_hash, found.spectrum) == (None, None, "")


def test_a_broken_image_is_rejected_with_its_name() -> None:
    for data, what in (
        (b"", "not an image of a known format"),
        (b"no image", "not an image of a known format"),
        (encoded(street(0))[:2000], "truncated"),
        (encoded(street(0), "PNG")[:2000], "truncated"),
    ):
        found = fingerprint(data, "broken.jpg")
        assert isinstance(found, Rejection)
        assert (found.stage, found.reason) == ("fingerprint_images", "undecodable_image")
        assert "'broken.jpg'" in found.detail
        assert what in found.detail
        assert found.context == {"file": "broken.jpg"}


def test_damaged_images_never_raise() -> None:
    random = np.random.default_rng(0)
    valid_images = [encoded(street(0)), encoded(street(0), "PNG"), encoded(street(0), "WEBP")]
    for number in range(60):
        data = bytearray(valid_images[number % 3])
        for place in random.integers(0, len(data) if number % 2 else 60, 8):
            data[place] = random.integers(256)
        assert isinstance(fingerprint(bytes(data), "x"), ImageFingerprint | Rejection)


def test_an_image_with_too_many_pixels_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_picture, "MOST_PIXELS", SIZE[0] * SIZE[1] - 1)
    found = fingerprint(encoded(street(0)), "x")
    assert isinstance(found, Rejection)
    assert found.reason == "too_many_pixels"
