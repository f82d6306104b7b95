import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sources.metadata import ExifFacts, read_exif


@given(st.binary(), st.sampled_from([b"", b"Exif\x00\x00"]), st.sampled_from([b"II*\0", b"MM\0*"]))
def test_any_bytes_are_facts_or_damage(rest: bytes, header: bytes, order: bytes) -> None:
    facts = read_exif(header + order + rest)
    assert facts is None or 1 <= facts.orientation <= 8


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_that_pillow_writes_is_read(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x010F] = "A camera"
    exif[0x0112] = orientation
    assert read_exif(exif.tobytes()) == ExifFacts(orientation, has_location=False)
    exif.get_ifd(0x8825)[1] = "N"
    assert read_exif(exif.tobytes()) == ExifFacts(orientation, has_location=True)


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_are_read_and_an_impossible_orientation_is_upright(order: str) -> None:
    mark = {"<": b"II*\0", ">": b"MM\0*"}[order]

    def block(value: int) -> bytes:
        return mark + struct.pack(f"{order}IHHHIHH", 8, 1, 0x0112, 3, 1, value, 0)

    assert read_exif(block(6)) == ExifFacts(6, has_location=False)
    assert read_exif(block(9)) == ExifFacts(1, has_location=False)


@pytest.mark.parametrize(
    "block", [b"", b"Exif\0\0", b"II*\0", b"XX*\0\0\0\0\0", b"II*\0\xff\xff\xff\xff"]
)
def test_damage_is_none(block: bytes) -> None:
    assert read_exif(block) is None
