"""What an image's EXIF block says of its orientation, and whether it tells a place.

Read here and not through Pillow, whose reader reports damage through the process-wide `warnings`
filters, which threads share.
"""

import struct
from typing import Final, NamedTuple

UPRIGHT: Final = 1
_ORIENTATION_TAG: Final = 0x0112
_GPS_TAG: Final = 0x8825
_ENTRY_BYTES: Final = 12


class ExifFacts(NamedTuple):
    """`orientation` from 1 (upright) to 8; `has_location`: a GPS block is there."""

    orientation: int
    has_location: bool


def read_exif(block: bytes) -> ExifFacts | None:
    """The facts of an EXIF block (with or without its `Exif` header); None where it is damaged."""
    tiff = block.removeprefix(b"Exif\x00\x00")
    order = {b"II*\x00": "<", b"MM\x00*": ">"}.get(tiff[:4])
    if order is None:
        return None
    try:
        return _first_directory(tiff, order)
    except struct.error:
        return None


def _first_directory(tiff: bytes, order: str) -> ExifFacts:
    (start,) = struct.unpack_from(f"{order}I", tiff, 4)
    (entries,) = struct.unpack_from(f"{order}H", tiff, start)
    orientation, has_location = UPRIGHT, False
    for at in range(start + 2, start + 2 + entries * _ENTRY_BYTES, _ENTRY_BYTES):
        tag, _, _, value = struct.unpack_from(f"{order}HHIH", tiff, at)
        if tag == _ORIENTATION_TAG and UPRIGHT <= value <= 8:
            orientation = value
        has_location = has_location or tag == _GPS_TAG
    return ExifFacts(orientation, has_location)
