import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.sources.decoding import UPRIGHT, read_orientation


@given(st.binary(), st.sampled_from([b"", b"Exif\x00\x00"]), st.sampled_from([b"II*\0", b"MM\0*"]))
def test_read_orientation_accepts_any_bytes(rest: bytes, header: bytes, order: bytes) -> None:
    assert 1 <= read_orientation(header + order + rest) <= 8


def test_both_byte_orders_are_read_and_invalid_orientations_are_upright(
    subtests: pytest.Subtests,
) -> None:
    cases: list[str] = [
        "<",
        ">",
    ]
    for order in cases:
        with subtests.test(order=order):
            mark = {"<": b"II*\0", ">": b"MM\0*"}[order]

            def block(value: int, order: str = order, mark: bytes = mark) -> bytes:
                return mark + struct.pack(f"{order}IHHHIHH", 8, 1, 0x0112, 3, 1, value, 0)

            assert read_orientation(block(6)) == 6
            assert read_orientation(block(9)) == UPRIGHT


def test_damaged_exif_is_upright(subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [b"", b"Exif\0\0", b"II*\0", b"XX*\0\0\0\0\0", b"II*\0\xff\xff\xff\xff"]
    for case, block in enumerate(cases):
        with subtests.test(case=case):
            assert read_orientation(block) == UPRIGHT
