"""Images that Pillow converts to RGB in another way than viewers show them; small JPEGs."""

from collections.abc import Callable
from io import BytesIO
from itertools import product

import numpy as np
import pytest
from PIL import Image

from loupe.retrieval.similarity.spectrum import look_hash
from loupe.schemas.decoders import as_rgb, decode_each_limited, plain_picture, small_jpeg
from tests.schemas.limited_calls import OddImageError, first_byte

SHADES = np.tile(np.arange(256, dtype=np.uint8), (200, 1))


def of_jpeg(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(BytesIO(data))


READERS: dict[str, Callable[[Image.Image, bytes], Image.Image]] = {
    "as_rgb": lambda picture, _: as_rgb(picture),
    "plain_picture": lambda picture, _: plain_picture(picture),
    "small_jpeg": lambda _, data: of_jpeg(small_jpeg(data, 100)),
}


def test_pictures_of_16_bits_keep_their_shades(subtests: pytest.Subtests) -> None:
    deep = Image.fromarray(SHADES.astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    file = BytesIO()
    deep.save(file, "PNG")
    for name, read in READERS.items():
        with subtests.test(reader=name):
            found = np.asarray(read(deep, file.getvalue()).convert("L"), np.float32)
            assert abs(found.mean() - SHADES.mean()) < 3
            assert abs(found.std() - SHADES.std()) < 3
    shallow = BytesIO()
    Image.fromarray(SHADES).save(shallow, "PNG")
    assert look_hash(file.getvalue()) == look_hash(shallow.getvalue()) is not None


def test_transparent_pixels_are_white(subtests: pytest.Subtests) -> None:
    clear = Image.new("RGBA", (200, 200), (0, 0, 0, 0))
    indexed = Image.new("P", (200, 200))
    indexed.info["transparency"] = 0
    for picture in (clear, clear.convert("LA"), indexed):
        file = BytesIO()
        picture.save(file, "PNG")
        for name, read in READERS.items():
            with subtests.test(reader=name, mode=picture.mode):
                assert np.asarray(read(picture, file.getvalue()).convert("L")).min() > 250


def encoded(size: tuple[int, int], kind: str, **how: object) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, "red").save(file, kind, **how)
    return file.getvalue()


def test_images_are_scaled_down_and_never_up() -> None:
    sizes = (
        ((1600, 800), (200, 100)),
        ((90, 400), (45, 200)),
        ((3000, 1), (200, 1)),
        ((20, 30), (20, 30)),
    )
    for (size, small), kind in product(sizes, ("PNG", "JPEG")):
        picture = of_jpeg(small_jpeg(encoded(size, kind), 200))
        assert (picture.format, picture.size) == ("JPEG", small), (size, kind)
        red, green, blue = picture.convert("RGB").getpixel((0, 0))  # type: ignore[misc]
        assert red > 240
        assert green < 15
        assert blue < 15


def test_a_small_jpeg_is_kept_byte_for_byte() -> None:
    data = encoded((100, 180), "JPEG")
    assert small_jpeg(data, 200) == data


def test_a_rotated_photograph_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert of_jpeg(small_jpeg(encoded((180, 100), "JPEG", exif=exif), 200)).size == (100, 180)


def test_an_image_that_fails_leaves_those_decoded_with_it() -> None:
    images = [b"a", b"c", b"r", b"b", b"m", b"m", b"c", b"d"]
    results = decode_each_limited(first_byte, images, refusal=OddImageError, max_pixels=100)
    found = [getattr(one, "reason", None) or type(one).__name__ for one in results]
    crashed, too_much = "decoder_crashed", "too_much_memory"
    assert found == ["int", crashed, "OddImageError", "int", too_much, too_much, crashed, "int"]
    assert [one for one in results if isinstance(one, int)] == [ord("a"), ord("b"), ord("d")]
