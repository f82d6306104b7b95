"""What an image's EXIF block says of its orientation.

Read here and not through Pillow, whose reader reports damage through the process-wide `warnings`
filters, which threads share.
"""

import struct
from typing import Final

UPRIGHT: Final = 1
_ORIENTATION_TAG: Final = 0x0112
_ENTRY_BYTES: Final = 12


def read_orientation(block: bytes) -> int:
    """The orientation of an EXIF block (with or without its `Exif` header), from 1 to 8.

    1 (upright) where it says nothing of it, or is damaged.
    """
    tiff = block.removeprefix(b"Exif\x00\x00")
    order = {b"II*\x00": "<", b"MM\x00*": ">"}.get(tiff[:4])
    if order is None:
        return UPRIGHT
    try:
        return _first_directory(tiff, order)
    except struct.error:
        return UPRIGHT


def _first_directory(tiff: bytes, order: str) -> int:
    (start,) = struct.unpack_from(f"{order}I", tiff, 4)
    (entries,) = struct.unpack_from(f"{order}H", tiff, start)
    orientation = UPRIGHT
    for at in range(start + 2, start + 2 + entries * _ENTRY_BYTES, _ENTRY_BYTES):
        tag, _, _, value = struct.unpack_from(f"{order}HHIH", tiff, at)
        if tag == _ORIENTATION_TAG and UPRIGHT <= value <= 8:
            orientation = value
    return orientation
